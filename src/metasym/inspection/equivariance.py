"""How far a layer is from equivariance to a given group, element by element, and as an angle between spaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from metasym.inspection.actions import Action, Asked
from metasym.inspection.spatial import (
    FLIPS,
    LEFT_RIGHT,
    ROTATIONS,
    Channels,
    Transform,
    match,
    power,
    rotation,
    turn_name,
)
from metasym.inspection.spectrum import dominant
from metasym.types import MetasymError
from metasym.verdicts.reports import FoundGroup, GroupErrors

_MOST_WEIGHTS = 4000
"""Up to this many rows of U, the projection on the equivariant kernels is formed."""
_EVERYTHING = "no principal angles: U has all directions, and would hold the equivariant maps of any group"


def errors_of(action: Action, U: Tensor, used: int) -> GroupErrors:
    """The errors of ``U [m n, k]``, whose dominant eigenspace has ``used`` dimensions, under ``action``."""
    U = U.detach().cpu().double()
    errors = tuple(action.error(g, U) for g in range(len(action.element_names)))
    notes = [] if action.complete else ["generators only: the group is too large to list"]
    notes += [_EVERYTHING] if used >= len(U) else []
    return GroupErrors(
        action.name,
        action.element_names,
        errors,
        principal_angles(dominant(U, used), action.basis),
        action.basis.shape[1],
        "; ".join(notes),
    )


def principal_angles(space: Tensor, basis: Tensor) -> tuple[float, ...]:
    """The angles in degrees, smallest first, between the spans of ``space [rows, r]`` and ``basis [rows, d]``."""
    if not space.shape[1] or not basis.shape[1] or space.shape[1] >= len(space):
        return ()  # a space that is everything holds every map: no angle says anything
    first, second = torch.linalg.qr(space.double()).Q, torch.linalg.qr(basis.double()).Q
    # Small angles from sines: cosines near 1 lose half of their digits.
    if first.shape[1] > second.shape[1]:
        first, second = second, first
    cosines = torch.linalg.svdvals(first.T @ second).clamp(0, 1)
    sines = torch.linalg.svdvals(first - second @ (second.T @ first)).clamp(0, 1).flip(0)
    angles = torch.where(cosines > 0.5**0.5, sines.asin(), cosines.acos())
    return tuple(float(a) for a in angles.rad2deg().sort().values)


def asked_rotations(group: FoundGroup) -> Asked | None:
    """The rotations and flips that were found in a convolution, as a group that ``--group`` could name."""
    names = [generator.transform for generator in group.generators]
    order = max((n for n in ROTATIONS if turn_name(360 / n) in names), default=1)
    if order == 1 and names != [LEFT_RIGHT]:
        return None
    kind = "rotations-flips" if set(FLIPS) & set(names) else "rotations"
    return Asked(f"{kind}:{order}", kind, (order,))


@dataclass(frozen=True, eq=False)
class KernelAction:
    """Rotations (and flips) of kernels with the permutations of channels that go with them."""

    transforms: tuple[Transform, ...]
    outputs: tuple[Channels, ...]
    inputs: tuple[Channels, ...]
    consistent: bool
    """Whether the permutations multiply as the rotations do; if not, each was found separately."""

    def average(self, blocks: Tensor) -> Tensor:
        """The mean over the group of ``blocks [out, in, pixels, k]``: its projection on the equivariant kernels."""
        total = torch.zeros_like(blocks)
        for transform, out, inp in zip(self.transforms, self.outputs, self.inputs, strict=True):
            total += moved(blocks, transform, out, inp)
        return total / len(self.transforms)


def moved(blocks: Tensor, transform: Transform, outputs: Sequence[int], inputs: Sequence[int]) -> Tensor:
    """Filters ``[out, in, pixels, k]``, each transformed and put where the permutations say."""
    turned = torch.einsum("xy,oiyk->oixk", torch.from_numpy(transform.matrix).to(blocks), blocks)
    placed = torch.empty_like(turned)
    placed[torch.tensor(outputs)[:, None], torch.tensor(inputs)[None, :]] = turned
    return placed


def kernel_action(
    asked: Asked, U: Tensor, shape: Sequence[int], hints: Sequence[Channels] = ()
) -> KernelAction:
    """The rotations that were asked for, on the kernels of ``U [out in k k, k]`` of a convolution."""
    (order,) = asked.numbers
    if len(shape) != 4 or shape[2] != shape[3]:
        raise MetasymError(
            f"group {asked.text}: expected square kernels, found a weight of shape {tuple(shape)}",
            about=f"group {asked.text}",
            found=tuple(shape),
        )
    points = U.detach().cpu().double().numpy()

    def turned(times: int, flip: bool) -> Transform:
        return rotation(shape[2], order, times, flip=flip, harmonics=order not in (1, 2, 4))

    def matched(times: int, flip: bool) -> tuple[Channels, Channels]:
        found = match(points, shape, turned(times, flip), hints)
        return found.outputs, found.inputs

    elements = [
        (times, flip)
        for flip in ([False, True] if "flips" in asked.kind else [False])
        for times in range(order)
    ]
    every = tuple(range(shape[0])), tuple(range(shape[1]))
    turn = matched(1, False) if order > 1 else every
    mirror = matched(0, True) if "flips" in asked.kind else every
    follows = all(
        power(turn[side], order) == every[side]
        and power(mirror[side], 2) == every[side]
        and ("flips" not in asked.kind or _turned_round(turn[side], mirror[side], order))
        for side in (0, 1)
    )
    channels: list[tuple[Channels, Channels]] = []
    for times, flip in elements:
        if follows:
            sides = [power(turn[side], times) for side in (0, 1)]
            if flip:
                sides = [tuple(sides[side][p] for p in mirror[side]) for side in (0, 1)]
            channels.append((sides[0], sides[1]))
        else:
            channels.append(every if (times, flip) == (0, False) else matched(times, flip))
    transforms = tuple(turned(times, flip) for times, flip in elements)
    return KernelAction(transforms, tuple(c[0] for c in channels), tuple(c[1] for c in channels), follows)


def _turned_round(turn: Channels, mirror: Channels, order: int) -> bool:
    """``F R F = R^-1``."""
    return tuple(mirror[turn[i]] for i in mirror) == power(turn, order - 1)


def kernel_errors(
    asked: Asked, action: KernelAction, U: Tensor, shape: Sequence[int], used: int
) -> GroupErrors:
    """The errors of a convolution's ``U [out in k k, K]`` under rotations of its kernels."""
    U = U.detach().cpu().double()
    blocks = U.reshape(shape[0], shape[1], -1, U.shape[1])
    scale = torch.linalg.vector_norm(blocks)
    errors = [
        float(torch.linalg.vector_norm(moved(blocks, t, out, inp) - blocks) / scale)
        for t, out, inp in zip(action.transforms, action.outputs, action.inputs, strict=True)
    ]
    names = tuple(t.name for t in action.transforms)
    if not action.consistent:
        note = (
            "the best permutations of channels do not multiply as the rotations do: each element has its own"
        )
        return GroupErrors(asked.text, names, tuple(errors), None, None, note)
    notes = [_EVERYTHING] if used >= len(U) else []
    if asked.numbers[0] not in (1, 2, 4):
        notes.append(
            "the part of the kernels that is no sum of circular harmonics counts as error, even of the identity"
        )
    note = "; ".join(notes)
    if len(U) > _MOST_WEIGHTS:
        return GroupErrors(asked.text, names, tuple(errors), None, None, note)
    every = torch.eye(len(U), dtype=torch.float64).reshape(*blocks.shape[:3], len(U))
    projection = action.average(every).reshape(len(U), len(U))
    dimension = round(float(projection.trace()))
    basis = torch.from_numpy(np.linalg.svd(projection.numpy())[0][:, :dimension])
    angles = principal_angles(dominant(U, used), basis)
    return GroupErrors(asked.text, names, tuple(errors), angles, dimension, note)
