"""What a group does to outputs and inputs, in parts that do not depend on each other.

A part is a direct factor with the orbits that it moves. One orbit leads: what the group does to it decides what it
does to the others, which follow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from metasym.groups.block_systems import Permutation
from metasym.groups.identification import apart, identify
from metasym.groups.orbit_actions import OrbitAction, group_order, orbit_action, restricted
from metasym.groups.orbits import orbit_labels
from metasym.groups.sign_changes import signs_of
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation

Side = Literal["outputs", "inputs"]
_MOST_POINTS = 400
"""Outputs and inputs of a group whose parts are searched for."""


@dataclass(frozen=True)
class MovedOrbit:
    """An orbit of outputs, or of inputs, by their own numbers."""

    side: Side
    action: OrbitAction


@dataclass(frozen=True)
class ActionPart:
    """A direct factor of the group, by what it moves."""

    leading: tuple[MovedOrbit, ...]
    """What happens to these decides all; more than one only where no orbit decides it alone."""
    following: tuple[MovedOrbit, ...]


@dataclass(frozen=True)
class Action:
    """What a group of signed permutations does to outputs and inputs."""

    parts: tuple[ActionPart, ...]
    sign_changes: tuple[SignedPermutation, ...] | None
    """Generators of the elements that change signs and move nothing; None where there are too many points."""
    signed: bool
    """Whether some move is an element only together with changes of sign."""


def action_of(group: SignedGroup) -> Action | None:
    """The action of ``group`` in parts; None where it has too many points to be looked at."""
    m, n = group.shape
    if m + n > _MOST_POINTS:
        return None
    moves = [(*g.outputs, *(m + j for j in g.inputs)) for g in group.generators]
    parts = [part for own in apart(moves) for part in _parts(own, m)]
    changes, signed = signs_of(group) if group.signed else ((), False)
    return Action(tuple(parts), changes, signed)


def _parts(moves: Sequence[Permutation], m: int) -> list[ActionPart]:
    """The parts of a group whose generators move common points."""
    labels = orbit_labels(moves, len(moves[0]))
    orbits = [np.flatnonzero(labels == k).tolist() for k in range(int(labels.max()) + 1)]
    # Inputs before outputs of the same size: of those that decide all, the smallest leads.
    orbits = sorted((o for o in orbits if len(o) > 1), key=lambda orbit: (len(orbit), orbit[0] < m, orbit[0]))
    actions = [_moved(moves, orbit, m) for orbit in orbits]
    whole = identify(moves)[1]
    for one in actions:
        if one.action.order == whole:
            return [ActionPart((one,), tuple(other for other in actions if other is not one))]
    linked = _independent(moves, orbits, [one.action.order for one in actions], whole)
    return [_part(moves, [(orbits[i], actions[i]) for i in some]) for some in linked]


def _independent(
    moves: Sequence[Permutation], orbits: list[list[int]], alone: list[int], whole: int
) -> list[list[int]]:
    """The orbits, by number, in lists that the group moves independently of each other: each a direct factor.

    ``alone`` are the orders of the group on single orbits, ``whole`` its order.
    """
    linked, orders = [[i] for i in range(len(orbits))], list(alone)
    while len(linked) > 1 and math.prod(orders) != whole:
        pair = next(
            (
                (a, b, order)
                for a in range(len(linked))
                for b in range(a + 1, len(linked))
                if (order := _order_on(moves, [orbits[i] for i in linked[a] + linked[b]]))
                < orders[a] * orders[b]
            ),
            None,
        )
        if pair is None:  # pairs are independent and all together are not: parities, say
            return [sorted(i for some in linked for i in some)]
        a, b, order = pair
        linked[a], orders[a] = sorted(linked[a] + linked[b]), order
        del linked[b], orders[b]
    return linked


def _order_on(moves: Sequence[Permutation], orbits: Sequence[Sequence[int]]) -> int:
    return group_order(restricted(moves, [point for orbit in orbits for point in orbit]))


def _part(moves: Sequence[Permutation], orbits: list[tuple[list[int], MovedOrbit]]) -> ActionPart:
    """Led by the fewest orbits on which the group is what it is on all, as far as one by one finds them."""
    whole = _order_on(moves, [orbit for orbit, _ in orbits])
    leading = [orbit for orbit, one in orbits if one.action.order == whole][:1]
    reached = whole if leading else 1
    for orbit, _ in orbits:
        if reached < whole and (order := _order_on(moves, [*leading, orbit])) > reached:
            leading, reached = [*leading, orbit], order
    return ActionPart(
        tuple(one for orbit, one in orbits if orbit in leading),
        tuple(one for orbit, one in orbits if orbit not in leading),
    )


def _moved(moves: Sequence[Permutation], orbit: list[int], m: int) -> MovedOrbit:
    """The orbit by the numbers of its own side."""
    if orbit[0] < m:
        return MovedOrbit("outputs", orbit_action([g[:m] for g in moves], orbit))
    own = [tuple(i - m for i in g[m:]) for g in moves]
    return MovedOrbit("inputs", orbit_action(own, [i - m for i in orbit]))
