"""The paper's single-layer networks as plain modules, without biases, started from explicit generators.

All starts are torch's own for these layers, uniform in ``+- 1 / sqrt(fan-in)``. To reparameterize one, call
:func:`metasym.reparameterize` on it; :func:`with_true_space` freezes the space that a problem's tasks share.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.models.start import started
from metasym.nn import LocallyConnected1d
from metasym.symmetry.matrices import DenseSymmetry, Symmetry
from metasym.symmetry.reparam import reparameterize
from metasym.types import MetasymError


class Convolution1d(nn.Module):
    """One filter slid over one channel: ``x [examples, inputs] -> [examples, inputs - width + 1]``.

    Args:
        width: Width of the filter.
        generator: Source of the starting values.
    """

    @checked
    def __init__(self, width: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.layer = started(nn.Conv1d, 1, 1, width, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, inputs] -> [examples, places]``."""
        y: Tensor = self.layer(x.unsqueeze(-2))
        return y.squeeze(-2)


@checked
def fully_connected(inputs: int, outputs: int, generator: torch.Generator | None = None) -> nn.Module:
    """Return a linear layer without bias: ``[examples, inputs] -> [examples, outputs]``.

    Args:
        inputs: Number of inputs.
        outputs: Number of outputs.
        generator: Source of the starting values.
    """
    return started(nn.Linear, inputs, outputs, generator=generator)


@checked
def locally_connected(inputs: int, width: int, generator: torch.Generator | None = None) -> nn.Module:
    """Return a layer with its own filter at every place: ``[examples, inputs] -> [examples, inputs - width + 1]``.

    Args:
        inputs: Number of inputs.
        width: Width of each filter.
        generator: Source of the starting values.
    """
    return LocallyConnected1d(inputs, width, generator=generator)


@checked
def convolution1d(width: int, generator: torch.Generator | None = None) -> nn.Module:
    """Return a layer with one shared filter: ``[examples, inputs] -> [examples, inputs - width + 1]``.

    Args:
        width: Width of the filter.
        generator: Source of the starting values.
    """
    return Convolution1d(width, generator)


@checked
def convolution2d(
    channels_in: int, channels_out: int, kernel_size: int = 3, generator: torch.Generator | None = None
) -> nn.Module:
    """Return a valid convolution without bias: ``[examples, in, s, s] -> [examples, out, s - k + 1, s - k + 1]``.

    Args:
        channels_in: Input channels.
        channels_out: Output channels.
        kernel_size: Height and width k of the kernel.
        generator: Source of the starting values.
    """
    return started(nn.Conv2d, channels_in, channels_out, kernel_size, generator=generator)


@checked
def with_true_space(
    model: nn.Module, basis: Tensor, *, filter_std: float, generator: torch.Generator | None = None
) -> nn.Module:
    """Give the only layer of ``model`` a frozen symmetry matrix: the oracle.

    The columns (orthonormal as a problem gives them) are scaled by the root of the number of output channels. The
    squared loss is a mean over those channels, so useful step sizes are then of order 1.

    Args:
        model: A network of one layer.
        basis: The true weight space, ``[prod(weight), d]``.
        filter_std: The filter starts from N(0, filter_std^2).
        generator: Source of the filter.

    Returns:
        The same ``model``.
    """

    def frozen(_: str, module: nn.Module) -> Symmetry:
        weight = module.weight
        assert isinstance(weight, Tensor)
        if basis.shape[0] != weight.numel():
            raise MetasymError(
                f"expected a basis of {weight.numel()} rows for a weight {tuple(weight.shape)}, "
                f"found {basis.shape[0]}",
                about="basis",
                found=int(basis.shape[0]),
            )
        scaled = basis.to(weight.dtype) * math.sqrt(weight.shape[0])
        return DenseSymmetry(weight.shape, U=scaled, learnable=False)

    return reparameterize(model, frozen, filter_std=filter_std, generator=generator)
