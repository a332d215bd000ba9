"""A group as a user gives it, by name or as an object, and how its elements move inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from metasym.groups import Group
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.actions import parse_group
from metasym.inspection.network import Move, group_moves
from metasym.types import MetasymError

GivenGroup = str | SignedGroup | Group | Sequence[SignedPermutation]
"""A name as ``metasym inspect --group`` takes, a group, or a list of elements."""
Moves = Callable[[Tensor, Tensor], tuple[list[Move], str]]
"""For examples ``x [examples, ...]`` and outputs: the elements, and a note on them."""
_MOST = 100
"""Elements that are asked about; of a larger group, generators and random products."""
_SHOWN = 40


def given_group(group: GivenGroup) -> tuple[str, Moves]:
    """Its name, and how it moves examples."""
    if isinstance(group, str):
        return group, partial(group_moves, parse_group(group))
    if isinstance(group, Group):
        return group.name, partial(_group_moves, group)
    if isinstance(group, SignedGroup):
        few = group.has_at_most(_MOST)
        some = (
            group.elements
            if few
            else (*group.generators, *group.some_elements(20, np.random.default_rng(0))[1:])
        )
        return group.name, partial(_signed_moves, some)
    if (
        not isinstance(group, Sequence)
        or not group
        or not all(isinstance(g, SignedPermutation) for g in group)
    ):
        found = type(group).__name__
        raise MetasymError(
            f"expected a group by name, a Group, a SignedGroup or a list of SignedPermutation, found {found}",
            about="group",
            found=found,
        )
    elements = [g for g in group if isinstance(g, SignedPermutation)]
    return f"{len(elements)} elements", partial(_signed_moves, elements)


def _signed_moves(elements: Sequence[SignedPermutation], x: Tensor, y: Tensor) -> tuple[list[Move], str]:
    moves = []
    for g in elements:
        _check("inputs", len(g.inputs), x[0].numel())
        _check("outputs", len(g.outputs), y[0].numel())
        name = g.transform or g.in_cycles(most=_SHOWN)
        moves.append(
            Move(
                name,
                partial(_signed, images=g.inputs, signs=g.input_signs),
                partial(_signed, images=g.outputs, signs=g.output_signs),
            )
        )
    return moves, ""


def _check(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise MetasymError(f"group: expected {expected} {what}, found {found}", about="group", found=found)


def _signed(values: Tensor, images: Sequence[int], signs: Sequence[int]) -> Tensor:
    flat = values.flatten(1)
    found = torch.empty_like(flat)
    found[:, list(images)] = flat * torch.tensor(signs).to(flat)
    return found.reshape(values.shape)


def _group_moves(group: Group, x: Tensor, y: Tensor) -> tuple[list[Move], str]:
    """The representation acts on the inputs, and on the outputs too where there are as many."""
    _check("inputs", group.degree, x[0].numel())
    both = y[0].numel() == group.degree
    note = "" if both else f"invariance: the group moves the inputs and none of the {y[0].numel()} outputs"
    moves = []
    for name, matrix in zip(group.element_names, group.matrices, strict=True):
        turn = partial(_turned, matrix=matrix)
        moves.append(Move(name, turn, turn if both else _kept))
    return moves, note


def _turned(values: Tensor, matrix: Tensor) -> Tensor:
    return (values.flatten(1) @ matrix.to(values).T).reshape(values.shape)


def _kept(values: Tensor) -> Tensor:
    return values
