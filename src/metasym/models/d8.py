"""A conv net whose features are equivariant to D_8, rotations by 45 degrees and reflections, by construction.

D_8 has 16 elements, so that 64 channels are 4 regular fields. Each layer is an ordinary ``nn.Conv2d`` whose
weight has the frozen symmetry of :func:`metasym.groups.conv_basis` (e2cnn's kernels): only the coefficients v
are free. Everything between the convolutions commutes with the group:

- the norm takes one mean, one deviation, one scale and one shift for all 16 channels of a field, which the
  group permutes;
- ReLU acts on each channel alone;
- pooling windows lie symmetrically in the image: 2 x 2 at even sizes, 3 x 3 with stride 2 at odd ones, where
  2 x 2 windows would leave the last row and column out.

On the pixel grid, rotations by 90 degrees and reflections commute exactly, rotations by 45 degrees as far as a
sampled image allows. Before the head each field is pooled over the group (the mean of its channels), which leaves
one number for each field and place: a sixteenth of what the plain net has. The last block therefore does not pool
over space: 4 x 4 places of 4 fields give the head of a 28 x 28 image 64 features, as many as MAML's.

The pooled fields are normalised once more. They are means of values that are never negative, and hardly differ
between images. Without the norm, the inner step sizes learned for them overshoot when a test takes more inner steps
than training did (on validation tasks of Aug-Omniglot 5-way 1-shot, after 1,000 outer steps: 74 % after one inner
step, 63 % after three).
"""

from __future__ import annotations

import math
from collections import OrderedDict

import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.groups import conv_basis
from metasym.models.conv_blocks import ConvNet
from metasym.models.start import started
from metasym.nn import StackFields, TaskBatchNorm2d, UnstackFields
from metasym.symmetry.field_symmetry import FieldSymmetry
from metasym.symmetry.matrices import Symmetry
from metasym.symmetry.parametrized import list_of
from metasym.symmetry.reparam import reparameterize
from metasym.types import MetasymError

ROTATIONS = 8
ORDER = 2 * ROTATIONS
"""Channels of a regular field: one for each rotation and each reflected rotation."""


class SymmetricMaxPool2d(nn.Module):
    """Max-pooling by 2 that commutes with rotations by 90 degrees and reflections at every size."""

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, channels, s, s] -> [examples, channels, ceil(s / 2), ceil(s / 2)]``."""
        if x.shape[-1] % 2 == 0:
            return nn.functional.max_pool2d(x, 2)
        return nn.functional.max_pool2d(x, 3, stride=2, padding=1)


class GroupPool(nn.Module):
    """The mean of each regular field's channels: ``[examples, fields * 16, ...] -> [examples, fields, ...]``."""

    def forward(self, x: Tensor) -> Tensor:
        """One channel for each field."""
        return x.reshape(*x.shape[:-3], -1, ORDER, *x.shape[-2:]).mean(-3)


@checked
def d8_net(
    input_shape: tuple[int, int, int],
    channels: int,
    classes: int | None,
    *,
    depth: int = 4,
    kernel_size: int = 3,
    generator: torch.Generator | None = None,
) -> ConvNet:
    """Return the plain conv net with D_8-equivariant layers of the same number of channels.

    The coefficients start so that the weights have the size of the plain layers'. The columns of U are
    orthonormal, so step sizes mean the same too.

    Args:
        input_shape: Channels, height and width of an image.
        channels: Channels of a layer, a multiple of 16.
        classes: Number of outputs; None leaves the head out.
        depth: Number of blocks.
        kernel_size: Height and width of the kernels.
        generator: Source of the starting values.
    """
    inputs, height, width = input_shape
    if channels % ORDER or height != width:
        raise MetasymError(
            f"expected square images and channels in whole fields of {ORDER}, found {height} x {width} "
            f"and {channels}",
            about="input_shape, channels",
            found=(height, width, channels),
        )
    fields = channels // ORDER
    size = height
    layers: OrderedDict[str, nn.Module] = OrderedDict()
    for number in range(1, depth + 1):
        before = inputs if number == 1 else channels
        layers[f"conv{number}"] = started(
            nn.Conv2d, before, channels, kernel_size, padding=kernel_size // 2, generator=generator
        )
        layers[f"stack{number}"] = StackFields(ORDER)
        layers[f"norm{number}"] = TaskBatchNorm2d(fields)
        layers[f"relu{number}"] = nn.ReLU()
        layers[f"unstack{number}"] = UnstackFields(ORDER)
        if number < depth:
            layers[f"pool{number}"] = SymmetricMaxPool2d()
            size = (size + 1) // 2
    layers["group_pool"] = GroupPool()
    layers["norm_pooled"] = TaskBatchNorm2d(fields)
    features = nn.Sequential(layers)

    known: dict[int, Symmetry] = {}  # all layers but the first share one

    def frozen(name: str, _: nn.Module) -> Symmetry:
        before = 0 if name == "conv1" else fields
        if before not in known:
            known[before] = FieldSymmetry.of(
                conv_basis(
                    kernel_size,
                    ROTATIONS,
                    flips=True,
                    in_channels=1 if before else inputs,
                    fields_in=before or None,
                    fields_out=fields,
                )
            )
        return known[before]

    reparameterize(features, frozen)
    for layer in features:
        if isinstance(layer, nn.Conv2d):
            _full_size(layer)
    head = None
    if classes is not None:
        head = started(nn.Linear, fields * size**2, classes, generator=generator, bias=True)
    return ConvNet(features, None, head)


@torch.no_grad()
def _full_size(layer: nn.Conv2d) -> None:
    """Give a random weight back the norm that it lost when it was projected on the equivariant ones."""
    original = list_of(layer).original
    assert isinstance(original, Tensor)
    original.mul_(math.sqrt(layer.weight.numel() / original.numel()))
