"""Rotations and flips of a convolution's kernels: which of them map filters to filters.

A transform T of the pixels is a symmetry of the layer if every transformed filter is another filter: for a
permutation P of the output channels (and Q of the input channels), block ``P o`` of U is T times block o, whatever
the filter v. Only distances between rows of U decide this, so that it depends on U U^T alone; the best P is an
assignment of channels to channels. Turns by multiples of 90 degrees move pixels. Other angles turn the
circular harmonics that kernels are made of; pixels are never interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from metasym.groups.harmonics import kernel_transform
from metasym.groups.images import image_rotations_flips
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.pattern import caution
from metasym.inspection.reading_thresholds import SPATIAL
from metasym.verdicts.reports import FoundGroup, SpatialTransform

ROTATIONS = (2, 3, 4, 6, 8, 12, 16)
"""Orders of the rotations that are tried."""
LEFT_RIGHT = "left-right flip"
FLIPS = ("up-down flip", LEFT_RIGHT)
"""Of images, along each axis."""
Array = npt.NDArray[np.float64]
Channels = tuple[int, ...]


@dataclass(frozen=True)
class Transform:
    """A linear map of the pixels ``[k k, k k]``."""

    name: str
    matrix: Array
    order: int
    """How often it must be repeated to do nothing."""
    angle: float | None
    """In degrees, of a rotation; None for others."""


def turn_name(angle: float) -> str:
    """The name of a rotation by so many degrees."""
    return f"rotation by {angle:g} degrees"


def transforms(kernel: Sequence[int]) -> list[Transform]:
    """What is tried on kernels of this shape: flips along each axis, and rotations of square ones."""
    shape = tuple(kernel)
    pixels = np.arange(math.prod(shape)).reshape(shape)
    names = {1: ("reversal",), 2: FLIPS}.get(
        len(shape), tuple(f"flip along axis {axis}" for axis in range(len(shape)))
    )
    flips = [
        Transform(name, _moving(np.flip(pixels, axis)), 2, None)
        for axis, name in enumerate(names)
        if shape[axis] > 1
    ]
    if len(shape) != 2 or shape[0] < 2 or shape[1] < 2:
        return flips
    if shape[0] != shape[1]:
        return [Transform(turn_name(180), _moving(np.flip(pixels)), 2, None), *flips]
    turns = [rotation(shape[0], order) for order in ROTATIONS]
    return [turn for turn in turns if turn.matrix.any()] + flips


def rotation(
    size: int, order: int, times: int = 1, *, flip: bool = False, harmonics: bool = False
) -> Transform:
    """The turn by ``times * 360 / order`` degrees, after a left-right flip or not, of ``size x size`` kernels.

    Multiples of 90 degrees move pixels, unless ``harmonics`` asks for them as parts of a finer group: there all
    elements have to act on the same space.
    """
    angle = 360 * times / order
    if (4 * times) % order == 0 and not harmonics:
        elements = image_rotations_flips(size, 4).matrices
        matrix = elements[(4 * times // order) % 4 + (4 if flip else 0)]
    else:
        matrix = kernel_transform(size, angle, flip)
    turned = turn_name(angle)
    name = (f"{LEFT_RIGHT}, then {turned}" if times else LEFT_RIGHT) if flip else turned
    steps = 2 if flip else order // math.gcd(order, times)
    return Transform(name, matrix.numpy(), steps, None if flip else angle)


def _moving(source: npt.NDArray[np.int64]) -> Array:
    """The matrix that puts pixel ``source[x]`` at x."""
    return np.eye(source.size)[source.flatten()]


def match(
    U: Array, shape: Sequence[int], transform: Transform, hints: Sequence[Channels] = ()
) -> SpatialTransform:
    """The permutations of channels under which ``transform`` changes ``U [out in k k, K]`` least.

    The input channels stay (an image's colours), or are permuted as one of the ``hints`` says: the
    permutation of the layer before.
    """
    if not U.any():
        every = tuple(range(shape[0])), tuple(range(shape[1]))
        return SpatialTransform(transform.name, *every, 0.0, 1.0, accepted=False)
    allowed = SPATIAL.error * caution(U)
    blocks = U.reshape(shape[0], shape[1], -1, U.shape[1])
    moved = np.einsum("xy,oiyk->oixk", transform.matrix, blocks)
    best: SpatialTransform | None = None
    for inputs in dict.fromkeys([tuple(range(shape[1])), *hints]):
        placed = np.empty_like(moved)
        placed[:, list(inputs)] = moved
        found = _assigned(placed, blocks, inputs, transform, allowed)
        if best is None or found.error < best.error:
            best = found
    assert best is not None
    return best


def _assigned(
    moved: Array, blocks: Array, inputs: Channels, transform: Transform, allowed: float
) -> SpatialTransform:
    flat, turned = blocks.reshape(len(blocks), -1), moved.reshape(len(moved), -1)
    total = float(np.sum(flat**2))
    squares = (turned**2).sum(1)[:, None] + (flat**2).sum(1)[None, :] - 2 * turned @ flat.T
    squares = np.maximum(squares, 0)
    _, images = linear_sum_assignment(squares)
    error = math.sqrt(float(squares[np.arange(len(images)), images].sum()) / total)
    outputs = tuple(int(p) for p in images)
    margin = _margin(squares, images, (flat**2).sum(1), total)
    works = (
        error <= allowed and margin >= SPATIAL.margin and power(outputs, transform.order) == power(outputs, 0)
    )
    exact = transform.angle is not None and transform.angle % 90 == 0 and error <= SPATIAL.pixels
    works = works and (exact or _is_sharp(blocks, outputs, inputs, transform))
    return SpatialTransform(transform.name, outputs, inputs, error, margin, works)


def _is_sharp(blocks: Array, outputs: Channels, inputs: Channels, transform: Transform) -> bool:
    """Whether a rotation by exactly this angle fits the permutation better than angles a little off.

    Smooth filters change little under a small turn. A turn counts as a fit of its own only if the error grows on
    both sides of its angle about as much as it does away from no turn at all.
    """
    if transform.angle is None or not transform.angle:
        return True
    size, off = math.isqrt(blocks.shape[2]), 10.0
    target = blocks[np.ix_(outputs, inputs)]  # where each filter goes

    def error(angle: float, goal: Array) -> float:
        turned = np.einsum("xy,oiyk->oixk", kernel_transform(size, angle).numpy(), blocks)
        return float(np.sum((turned - goal) ** 2))

    still = np.einsum("xy,oiyk->oixk", kernel_transform(size, 0.0).numpy(), blocks)
    if transform.angle % 90 == 0 and np.sum(still**2) < SPATIAL.isotropic * np.sum(blocks**2):
        return True  # exact on pixels, and hardly any harmonics to judge the angle by
    grows = error(off, still)
    at = error(transform.angle, target)
    sides = [error(transform.angle + side, target) - at for side in (-off, off)]
    return grows > 1e-6 * float(np.sum(blocks**2)) and min(sides) > SPATIAL.nearby * grows


def _margin(squares: Array, images: npt.NDArray[np.int64], strength: Array, total: float) -> float:
    """The smallest ratio, over channels that are not dead, of the second nearest to the assigned distance."""
    live = np.flatnonzero(strength > SPATIAL.dead * total / len(strength))
    floor = 1e-6 * math.sqrt(total / len(strength))
    if len(live) == 1:  # without another filter to compare with, it must be close to its image
        o = live[0]
        own = math.sqrt(float(squares[o, images[o]] / strength[o]))
        return SPATIAL.alone * SPATIAL.margin / max(own, 1e-6)
    ratios = []
    for o in live:
        others = np.delete(live, np.flatnonzero(live == images[o]))
        nearest = math.sqrt(float(squares[o, others].min()))
        ratios.append(nearest / max(math.sqrt(float(squares[o, images[o]])), floor))
    return min(ratios)


def power(permutation: Channels, times: int) -> Channels:
    """The permutation, applied ``times`` times."""
    result = tuple(range(len(permutation)))
    for _ in range(times):
        result = tuple(permutation[i] for i in result)
    return result


def spatial_group(found: Sequence[SpatialTransform], kernel: Sequence[int]) -> FoundGroup | None:
    """The rotations and flips that were accepted, as a group; None where they do not form one.

    The largest accepted rotation generates the others. A flip belongs to the group only where it turns the
    rotation's channels round, ``F R F = R^-1``, as flips of the plane do.
    """
    known = {one.name: one for one in found if one.accepted}
    orders = [n for n in ROTATIONS if turn_name(360 / n) in known]
    # A turn's multiples must have been accepted with it; otherwise only the smaller group is certain.
    orders = [n for n in orders if all(n % d or d in orders for d in ROTATIONS)]
    turns = {turn_name(360 / n) for n in ROTATIONS}
    flips = [one for one in known.values() if one.name not in turns]
    n = max(orders, default=1)
    generators: list[SpatialTransform] = []
    if n > 1:
        generators.append(known[turn_name(360 / n)])
        turn = generators[0].outputs
        back = power(turn, n - 1)
        flips = [f for f in flips if tuple(f.outputs[turn[f.outputs[i]]] for i in range(len(turn))) == back]
    if len(kernel) == 2 and n == 1 and len(flips) == 2:
        return None  # two flips make a turn by 180 degrees, which was not accepted
    generators += flips[:1] if len(kernel) <= 2 else flips
    if not generators:
        return None
    count = len(flips) if len(kernel) > 2 else min(len(flips), 1)
    order = n * 2**count
    if n <= 2:
        name = " x ".join(["Z_2"] * (count + (n == 2)))
    else:
        name = f"D_{n}" if count else f"Z_{n}"
        name = "S_3" if name == "D_3" else name
    elements = tuple(SignedPermutation(g.outputs, g.inputs, transform=g.name) for g in generators)
    transitive = SignedGroup(elements, elements[0].shape).transitive
    return FoundGroup(
        name=name,
        order=order,
        generators=elements,
        transitive_outputs=transitive[0],
        transitive_inputs=transitive[1],
        signed=False,
        error=max(g.error for g in generators),
    )
