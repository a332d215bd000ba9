"""A group as a user gives it, by name or as an object, and how its elements move inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from metasym.groups import Group
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.actions import act, parse_group
from metasym.inspection.element_actions import Move
from metasym.inspection.network import group_moves
from metasym.types import MetasymError

GivenGroup = str | SignedGroup | Group | Sequence[SignedPermutation]
"""A name as ``metasym inspect --group`` takes, a group, or a list of elements."""
Moves = Callable[[Tensor, Tensor], tuple[list[Move], str]]
"""For examples ``x [examples, ...]`` and outputs: the elements, and a note on them."""
_MOST = 100
"""Elements that are asked about; of a larger group, generators and random products."""
_SHOWN = 40
"""Letters of an element in its name."""


@dataclass(frozen=True)
class Hypothesis:
    """A group that a user asks about, on the outputs and inputs of their data."""

    text: str
    """What the user calls it: ``"dihedral"``, ``"D_6"``."""
    group: SignedGroup
    invariance: bool
    """Whether it moves the inputs alone because it cannot act on so many outputs."""


def hypothesis(group: GivenGroup, outputs: int, inputs: int) -> Hypothesis:
    """The group on so many outputs and inputs; where it cannot act on the outputs, it leaves them as they are.

    >>> asked = hypothesis("dihedral", 6, 6)
    >>> asked.group.name, hypothesis("shifts", 1, 4).invariance
    ('D_6', True)
    """
    if isinstance(group, str):
        return _named_hypothesis(group, outputs, inputs)
    if isinstance(group, Group):
        _check("inputs", group.degree, inputs)
        both = outputs == group.degree
        chosen = group.permutations if group.permutations is not None else group.matrices
        sides = [chosen[g] for g in group.generators]
        kept = [torch.arange(outputs)] * len(sides)
        found = _signed_group(group.name, sides if both else kept, sides, (outputs, inputs))
        return Hypothesis(group.name, found, not both)
    name, _ = given_group(group)
    elements = tuple(group.generators if isinstance(group, SignedGroup) else group)
    for g in elements:
        _check("inputs", len(g.inputs), inputs)
        _check("outputs", len(g.outputs), outputs)
    return Hypothesis(name, SignedGroup(elements, (outputs, inputs)), False)


def _named_hypothesis(text: str, outputs: int, inputs: int) -> Hypothesis:
    asked = parse_group(text)
    invariance = False
    try:
        action = act(asked, outputs, inputs)
    except MetasymError:
        if outputs == inputs or asked.kind == "file":
            raise
        action, invariance = act(asked, inputs, inputs), True
    chosen = list(action.generators)
    kept = [torch.arange(outputs)] * len(chosen)
    sides = kept if invariance else list(action.outputs[chosen])
    found = _signed_group(text, sides, list(action.inputs[chosen]), (outputs, inputs))
    return Hypothesis(text, found, invariance)


def _signed_group(
    name: str, outputs: Sequence[Tensor], inputs: Sequence[Tensor], shape: tuple[int, int]
) -> SignedGroup:
    """The group of generators given as permutations or as matrices with one entry of 1 or -1 in each row."""
    found = []
    for sides in zip(outputs, inputs, strict=True):
        parts = [_images_and_signs(name, side) for side in sides]
        (out, out_signs), (into, in_signs) = parts
        element = SignedPermutation.of(out, into, out_signs, in_signs)
        if not element.is_identity:
            found.append(element)
    if not found:
        raise MetasymError(
            f"group {name}: expected one that moves something, found none that does",
            about="group",
            found=name,
        )
    return SignedGroup(tuple(found), shape)


def _images_and_signs(name: str, side: Tensor) -> tuple[list[int], list[int]]:
    if side.ndim == 1:
        return side.tolist(), [1] * len(side)
    images = side.abs().argmax(0)
    signs = side.gather(0, images[None])[0].round()
    rebuilt = torch.zeros_like(side).scatter_(0, images[None], signs[None])
    if not torch.allclose(rebuilt, side, atol=1e-9) or len(set(images.tolist())) < len(side):
        raise MetasymError(
            f"group {name}: expected permutations of outputs and inputs, with signs or without, found matrices "
            "that mix them",
            about="group",
            found="matrices",
        )
    return images.tolist(), [int(s) for s in signs]


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
                partial(_acted, action=g.on_inputs),
                partial(_acted, action=g.on_outputs),
            )
        )
    return moves, ""


def _check(what: str, expected: int, found: int) -> None:
    if expected != found:
        raise MetasymError(f"group: expected {expected} {what}, found {found}", about="group", found=found)


def _acted(values: Tensor, action: Callable[[Tensor], Tensor]) -> Tensor:
    return action(values.flatten(1)).reshape(values.shape)


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
