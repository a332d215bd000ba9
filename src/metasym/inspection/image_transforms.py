"""The usual transforms of images: flips, quarter turns, turns by an angle, shifts and scales, by several amounts."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional

from metasym.inspection.element_actions import Move
from metasym.types import MetasymError

ANGLES = range(5, 50, 5)
"""Degrees, both ways."""
SCALES = (0.7, 0.8, 0.9, 1.1, 1.2, 1.3)
"""Factors by which images are made smaller and larger."""
FARTHEST = 0.25
"""Of an image's side: shifts up to this."""
MOST_SHIFTS = 6
"""Pixels at most."""
TURNS, SHIFTS, SCALINGS = "turns", "shifts", "scales"


def image_transforms(x: Tensor, y: Tensor) -> tuple[list[Move], str]:
    """How each transform moves images ``x [examples, ..., H, W]``, and outputs ``y`` too if they are such images."""
    if x.ndim < 3 or min(x.shape[-2:]) < 2:
        raise MetasymError(
            f"group images: expected inputs [examples, ..., height, width], found shape {tuple(x.shape)}",
            about="group images",
            found=tuple(x.shape),
        )
    height, width = x.shape[-2:]
    square = height == width
    both = y.ndim >= 3 and y.shape[-2:] == x.shape[-2:]
    found = [
        ("left-right flip", "left-right flip", 1.0, partial(_flipped, axis=-1)),
        ("up-down flip", "up-down flip", 1.0, partial(_flipped, axis=-2)),
    ]
    if square:
        found += [
            (
                f"turn by {90 * k} degrees",
                f"turn by {90 * k} degrees",
                1.0,
                partial(_quarters, times=k),
            )
            for k in (1, 2, 3)
        ]
    for angle in ANGLES:
        for sign in (1, -1):
            turn = partial(_turned_and_scaled, degrees=sign * angle)
            found.append((TURNS, f"turn by {sign * angle:+d} degrees", float(angle), turn))
    for pixels in range(1, min(MOST_SHIFTS, int(FARTHEST * min(height, width))) + 1):
        for way, axis, sign in (("right", -1, 1), ("left", -1, -1), ("down", -2, 1), ("up", -2, -1)):
            shift = partial(_shifted, axis=axis, pixels=sign * pixels)
            found.append((SHIFTS, f"shift {way} by {pixels}", float(pixels), shift))
    for scale in SCALES:
        found.append((SCALINGS, f"scale by {scale:g}", scale, partial(_turned_and_scaled, scale=scale)))
    moves = [
        Move(name, move, move if both else _kept, family=family, amount=amount)
        for family, name, amount, move in found
    ]
    outside = float(torch.cat([x[..., [0, -1], :].flatten(), x[..., :, [0, -1]].flatten()]).median())
    note = f"images are interpolated between pixels; what comes from outside is {outside:.3g}, as most of their edges"
    return [replace(move, inputs=partial(_about, move=move.inputs, outside=outside)) for move in moves], note


def _about(x: Tensor, move: Callable[[Tensor], Tensor], outside: float) -> Tensor:
    return move(x - outside) + outside


def _kept(y: Tensor) -> Tensor:
    return y


def _flipped(x: Tensor, axis: int) -> Tensor:
    return x.flip(axis)


def _quarters(x: Tensor, times: int) -> Tensor:
    return torch.rot90(x, times, (-2, -1))


def _shifted(x: Tensor, axis: int, pixels: int) -> Tensor:
    found = x.roll(pixels, axis)
    edge = slice(0, pixels) if pixels > 0 else slice(pixels, None)
    index: list[slice] = [slice(None)] * x.ndim
    index[axis] = edge
    found[tuple(index)] = 0
    return found


def _turned_and_scaled(x: Tensor, degrees: float = 0.0, scale: float = 1.0) -> Tensor:
    """Counterclockwise about the middle, linear between pixels."""
    height, width = x.shape[-2:]
    images = x.reshape(len(x), -1, height, width)
    if not images.is_floating_point():
        images = images.double()
    cos, sin = (turn(math.radians(degrees)) / scale for turn in (math.cos, math.sin))
    # torch's coordinates go from -1 to 1 along both sides, however long they are.
    back = torch.tensor([[cos, -sin * height / width, 0.0], [sin * width / height, cos, 0.0]]).to(images)
    grid = functional.affine_grid(back.expand(len(x), 2, 3), [len(x), 1, height, width], align_corners=False)
    return functional.grid_sample(images, grid, align_corners=False).reshape(x.shape)
