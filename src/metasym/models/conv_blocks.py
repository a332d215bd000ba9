"""Conv nets of few-shot learning: blocks of convolution, norm, ReLU and pooling, then a linear head."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from metasym.argument_types import check_fields, checked
from metasym.models.start import started
from metasym.nn import TaskBatchNorm2d
from metasym.types import MetasymError


@dataclass(frozen=True)
class Block:
    """A convolution that keeps the image's size, batch norm, ReLU and, if wanted, 2 x 2 max-pooling."""

    channels: int
    kernel_size: int = 3
    pool: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("channels", "kernel_size"):
            if getattr(self, name) < 1:
                raise MetasymError(
                    f"Block: expected {name} of at least 1, found {getattr(self, name)}",
                    about=name,
                    found=getattr(self, name),
                )


class ConvNet(nn.Module):
    """Features of an image, flattened, and a linear head: ``[examples, c, s, s] -> [examples, classes]``.

    Without a head (``head is None``) it is an embedding, ``[examples, features]``. Layers are named ``conv1``,
    ``norm1``, ... in ``features``; a linear layer between features and head is ``hidden``.
    """

    @checked
    def __init__(self, features: nn.Sequential, hidden: nn.Module | None, head: nn.Module | None) -> None:
        super().__init__()
        self.features = features
        self.hidden = hidden
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, channels, height, width] -> [examples, classes]``."""
        y: Tensor = self.features(x).flatten(-3)
        if self.hidden is not None:
            y = torch.relu(self.hidden(y))
        return y if self.head is None else self.head(y)


@checked
def convolution_net(
    input_shape: tuple[int, int, int],
    blocks: Sequence[Block],
    classes: int | None,
    *,
    hidden: int | None = None,
    generator: torch.Generator | None = None,
) -> ConvNet:
    """Return a conv net for images.

    Convolutions have no bias: the batch norm that follows would remove it, and has its own shift. The norm uses the
    statistics of the batch at hand (support or query), as MAML's did.

    Args:
        input_shape: Channels, height and width of an image.
        blocks: The blocks, in order.
        classes: Number of outputs; None leaves the head out.
        hidden: Units of a linear layer, with a ReLU, before the head.
        generator: Source of the starting values.
    """
    channels, *size = input_shape
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number, block in enumerate(blocks, start=1):
        k = block.kernel_size
        if k % 2 == 0:
            raise MetasymError(
                f"expected kernels of odd size, which keep an image's size, found {k}",
                about="kernel_size",
                found=k,
            )
        layers[f"conv{number}"] = started(
            nn.Conv2d, channels, block.channels, k, padding=k // 2, generator=generator
        )
        layers[f"norm{number}"] = TaskBatchNorm2d(block.channels)
        layers[f"relu{number}"] = nn.ReLU()
        if block.pool:
            layers[f"pool{number}"] = nn.MaxPool2d(2)
            size = [side // 2 for side in size]
        channels = block.channels
    features = channels * size[0] * size[1]
    if features == 0:
        raise MetasymError(
            f"expected an image large enough for {len(blocks)} blocks, found {input_shape}",
            about="input_shape",
            found=input_shape,
        )
    middle = None
    if hidden is not None:
        middle = started(nn.Linear, features, hidden, generator=generator, bias=True)
        features = hidden
    head = None if classes is None else started(nn.Linear, features, classes, generator=generator, bias=True)
    return ConvNet(nn.Sequential(layers), middle, head)
