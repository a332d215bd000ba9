"""Rotations and flips of a square image, flattened row by row."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups._check import one_of, positive_int
from metasym.groups.constructors import cyclic, dihedral
from metasym.groups.group import Group
from metasym.types import MetasymError


@checked
def image_rotations(size: int, order: int = 4, interpolation: str | None = None) -> Group:
    """C_order on a flattened ``size x size`` image, degree ``size^2``.

    Element k turns the image counter-clockwise by ``k * 360 / order`` degrees, as ``torch.rot90`` does.
    Multiples of 90 degrees are exact permutations of the pixels. Other angles need ``interpolation``
    (Appendix B, last paragraph): pixel x gets the value interpolated at ``g^-1 x``, zero outside the
    image; the group is then not exact and its ``homomorphism_error`` says by how much.

    Args:
        size: pixels along each side.
        order: the number of rotations.
        interpolation: ``"bilinear"`` (4 pixels), ``"bicubic"`` (16 pixels, Keys' kernel with a = -1/2)
            or None. Needed unless order is 1, 2 or 4, where it changes nothing.

    """
    return _image_group(size, order, interpolation, flips=False)


@checked
def image_rotations_flips(size: int, order: int = 4, interpolation: str | None = None) -> Group:
    """Return D_order, of ``2 * order`` elements, on a flattened ``size x size`` image.

    First the rotations of :func:`image_rotations`, then each of them after a left-right flip, ``r^k f``.

    Args:
        size: Height and width of the image.
        order: Number of rotations.
        interpolation: As in :func:`image_rotations`.
    """
    return _image_group(size, order, interpolation, flips=True)


def _image_group(size: int, order: int, interpolation: str | None, flips: bool) -> Group:
    size, order = positive_int(size, "size"), positive_int(order, "order")
    one_of(interpolation, (None, "bilinear", "bicubic"), "interpolation")
    exact = order in (1, 2, 4)
    if not exact and interpolation is None:
        raise MetasymError(
            f"order={order}: expected interpolation='bilinear' or 'bicubic', since a turn by {360 / order:g} "
            "degrees does not map pixels to pixels, found None",
            about="interpolation",
        )
    abstract = dihedral(order) if flips else cyclic(order)
    kernel = _cubic if interpolation == "bicubic" else _linear
    elements = [(turns, flip) for flip in range(1 + flips) for turns in range(order)]
    matrices = torch.stack([_resample(size, order, turns, flip, kernel) for turns, flip in elements])
    return Group(
        matrices,
        abstract.table,
        name=f"{abstract.name} on {size}x{size} pixels",
        element_names=abstract.element_names,
        generators=abstract.generators,
        exact=exact,
    )


def _resample(size: int, order: int, turns: int, flip: int, kernel: Callable[[Tensor], Tensor]) -> Tensor:
    """``[size^2, size^2]``: the image flipped left-right (or not), then turned by ``turns / order``.

    At multiples of 90 degrees cosine and sine are taken exactly, so that pixels land on pixels, both
    kernels are exactly 0 or 1 there and the matrix is exactly a permutation.
    """
    quarters, rest = divmod(4 * turns, order)
    if rest == 0:
        cos, sin = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[quarters]
    else:
        angle = 2 * math.pi * turns / order
        cos, sin = math.cos(angle), math.sin(angle)
    centre = (size - 1) / 2
    along = torch.arange(size, dtype=torch.float64) - centre
    x, y = along.repeat(size), -along.repeat_interleave(size)  # x to the right, y upwards
    # g^-1 x: turn back, then undo the flip.
    source_x, source_y = cos * x + sin * y, -sin * x + cos * y
    if flip:
        source_x = -source_x
    columns = kernel(source_x[:, None] - along)
    rows = kernel(-source_y[:, None] - along)
    return (rows[:, :, None] * columns[:, None, :]).flatten(1)


def _linear(distance: Tensor) -> Tensor:
    """The triangle kernel, whose weights are those of linear interpolation."""
    return (1 - distance.abs()).clamp(min=0)


def _cubic(distance: Tensor) -> Tensor:
    """Keys' cubic convolution kernel with a = -1/2, which reproduces quadratic functions."""
    d = distance.abs()
    near = (1.5 * d - 2.5) * d * d + 1
    far = ((-0.5 * d + 2.5) * d - 4) * d + 2
    return torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))
