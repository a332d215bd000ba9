"""The paper's single-layer networks as plain modules, without biases, started from explicit generators.

All starts are torch's own for these layers, uniform in ``+- 1 / sqrt(fan-in)``. To reparameterize one, call
:func:`metasym.reparameterize` on it; :func:`with_true_space` freezes the space that a problem's tasks share.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from metasym.models.start import started
from metasym.nn import LocallyConnected1d
from metasym.symmetry.matrices import DenseSymmetry, Symmetry
from metasym.symmetry.reparam import reparameterize
from metasym.types import MetasymError


class Convolution1d(nn.Module):
    """One filter slid over one channel: ``x [examples, inputs] -> [examples, inputs - width + 1]``."""

    def __init__(self, width: int, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.layer = started(nn.Conv1d, 1, 1, width, generator=generator)

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, inputs] -> [examples, places]``."""
        y: Tensor = self.layer(x.unsqueeze(-2))
        return y.squeeze(-2)


def fully_connected(inputs: int, outputs: int, generator: torch.Generator | None = None) -> nn.Module:
    """A linear layer without bias: ``[examples, inputs] -> [examples, outputs]``."""
    return started(nn.Linear, inputs, outputs, generator=generator)


def locally_connected(inputs: int, width: int, generator: torch.Generator | None = None) -> nn.Module:
    """A filter of its own at every place: ``[examples, inputs] -> [examples, inputs - width + 1]``."""
    return LocallyConnected1d(inputs, width, generator=generator)


def convolution1d(width: int, generator: torch.Generator | None = None) -> nn.Module:
    """One shared filter: ``[examples, inputs] -> [examples, inputs - width + 1]``."""
    return Convolution1d(width, generator)


def convolution2d(
    channels_in: int, channels_out: int, kernel_size: int = 3, generator: torch.Generator | None = None
) -> nn.Module:
    """A valid convolution without bias: ``[examples, in, s, s] -> [examples, out, s - k + 1, s - k + 1]``."""
    return started(nn.Conv2d, channels_in, channels_out, kernel_size, generator=generator)


def with_true_space(
    model: nn.Module, basis: Tensor, *, filter_std: float, generator: torch.Generator | None = None
) -> nn.Module:
    """The oracle: the only layer of ``model`` gets the frozen symmetry matrix ``basis [prod(weight), d]``.

    The columns (orthonormal as a problem gives them) are scaled by the root of the number of output
    channels: the squared loss is a mean over those, and useful step sizes are then of order 1.
    """

    def frozen(_: str, module: nn.Module) -> Symmetry:
        weight = module.weight
        assert isinstance(weight, Tensor)
        if basis.shape[0] != weight.numel():
            raise MetasymError(
                f"expected a basis of {weight.numel()} rows for a weight {tuple(weight.shape)}, "
                f"found {basis.shape[0]}"
            )
        scaled = basis.to(weight.dtype) * math.sqrt(weight.shape[0])
        return DenseSymmetry(weight.shape, U=scaled, learnable=False)

    return reparameterize(model, frozen, filter_std=filter_std, generator=generator)
