"""Order and name of a permutation group given by its generators."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from metasym.groups.block_systems import Permutation
from metasym.groups.generators import TooLargeError, closure
from metasym.groups.names import Named, bracketed, name_of
from metasym.groups.orbit_actions import OrbitAction, Shape, group_order, orbit_action, restricted
from metasym.groups.orbits import orbit_labels

SMALL = 2000
"""Groups up to this order are written out element by element."""


def identify(
    generators: Sequence[Permutation], *, up_to_sign: bool = False, order: int | None = None
) -> tuple[str, int]:
    """The name, or ``"a group of order N"``, and the exact order of the group of these permutations.

    ``up_to_sign``: they permute doubled points, and an element and its negative count as one. ``order`` is the order
    where it is known.
    """
    if order is None or order <= SMALL:
        with contextlib.suppress(TooLargeError):
            table = _table(generators, up_to_sign)
            named = name_of(table)
            if named is None and not up_to_sign:
                named = _product_of([_factor(own)[0] for own in apart(generators)])
            return str(named) if named is not None else f"a group of order {len(table)}", len(table)
    if up_to_sign:
        order = group_order(generators) // 2 if order is None else order
        return f"a group of order {order}", order
    parts = [_factor(own) for own in apart(generators)]
    order = math.prod(size for _, size in parts)
    named = _product_of([name for name, _ in parts])
    return str(named) if named is not None else f"a group of order {order}", order


def _product_of(names: Sequence[Named | None]) -> Named | None:
    """The direct product; None where a factor has no name."""
    product = Named()
    for named in names:
        if named is None:
            return None
        product = product * named
    return product


def _table(
    generators: Sequence[Permutation], signed: bool
) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """The multiplication table of the group; signed, modulo the flip of every sign."""
    seen: dict[bytes, int] = {}

    def find(g: Tensor, new: int) -> int:
        key = g.numpy().tobytes()
        if signed:
            key = min(key, (g ^ 1).numpy().tobytes())
        return seen.setdefault(key, new)

    tensors = [torch.tensor(g) for g in generators]
    identity = torch.arange(len(tensors[0]))
    table: np.ndarray[tuple[int, int], np.dtype[np.int64]] = closure(
        identity, tensors, find, lambda g, a: g[a], SMALL
    )[1].numpy()
    return table


def apart(generators: Sequence[Permutation]) -> list[list[Permutation]]:
    """The generators in lists, those that move common points together: each list generates a direct factor."""
    groups: list[tuple[set[int], list[Permutation]]] = []
    for g in generators:
        moved = {i for i, p in enumerate(g) if i != p}
        if not moved:
            continue
        touching = [entry for entry in groups if entry[0] & moved]
        groups = [entry for entry in groups if not entry[0] & moved]
        joined = [g, *(h for _, members in touching for h in members)]
        groups.append((moved.union(*(points for points, _ in touching)), joined))
    return [members for _, members in groups]


def _factor(generators: list[Permutation]) -> tuple[Named | None, int]:
    """Name (where it has one) and order of a direct factor."""
    labels = orbit_labels(generators, len(generators[0]))
    orbits = [np.flatnonzero(labels == k).tolist() for k in range(int(labels.max()) + 1)]
    orbits = [orbit for orbit in orbits if len(orbit) > 1]
    n = max(map(len, orbits))
    with contextlib.suppress(TooLargeError):
        table = _table(generators, signed=False)
        named = name_of(table)
        return named if named is not None else _faithful(generators, orbits, len(table)), len(table)
    if all(len(orbit) == n for orbit in orbits) and _paired_transpositions(generators, orbits, n):
        return Named(others=(f"S_{n}",)), math.factorial(n)
    order = group_order(generators)
    return _faithful(generators, orbits, order), order


def _faithful(generators: Sequence[Permutation], orbits: list[list[int]], order: int) -> Named | None:
    """The name by what the group does to one orbit on which its elements all differ."""
    for orbit in orbits:
        if group_order(restricted(generators, orbit)) == order:
            named = action_name(orbit_action(generators, orbit))
            if named is not None:
                return named
    return None


def action_name(action: OrbitAction) -> Named | None:
    """The group that acts so: up to isomorphism, and of a wreath product with its action on the blocks."""
    n = len(action.points)
    if action.shape is Shape.BLOCKS:
        assert action.inner is not None
        assert action.outer is not None
        inner = action_name(action.inner)
        natural = action.outer.shape in (Shape.ANY, Shape.EVEN, Shape.RING, Shape.REFLECTED)
        outer = action_name(action.outer) if natural else None
        if inner is None or outer is None:
            return None
        return Named(others=(f"{bracketed(str(inner))} wr {outer}",))
    if action.shape is Shape.GRID:
        assert action.inner is not None
        assert action.outer is not None
        return _product_of([action_name(action.inner), action_name(action.outer)])
    if action.shape is Shape.RING or (action.shape is Shape.ANY and n == 2):
        return Named(cyclic=(n,))
    if action.shape is Shape.ANY:
        return Named(others=(f"S_{n}",))
    if action.shape is Shape.EVEN:
        return Named(others=(f"A_{n}",))
    if action.shape is Shape.REFLECTED:
        return Named(others=(f"D_{n}",))
    with contextlib.suppress(TooLargeError):
        return name_of(_table(action.generators, signed=False))
    return None


def _paired_transpositions(generators: list[Permutation], orbits: list[list[int]], n: int) -> bool:
    """Whether every generator swaps two points in each orbit of length n, and the orbits are copies of one.

    Transpositions that connect n points generate S_n. The orbits are copies where the points that one
    generator swaps correspond: then the group acts on all orbits as it does on the first, faithfully.
    """
    long = [orbit for orbit in orbits if len(orbit) == n]
    edges = []
    for g in generators:
        swaps = [tuple(i for i in orbit if g[i] != i) for orbit in long]
        if any(len(swap) != 2 for swap in swaps):
            return False
        edges.append(swaps)
    # A tree of n - 1 swaps fixes the correspondence between orbits; that its edges form the same tree in
    # every orbit is what makes the action on each of them that of the first.
    if len(edges) != n - 1:
        return False
    shared = [[len(set(a[o]) & set(b[o])) for a in edges for b in edges] for o in range(len(long))]
    return all(row == shared[0] for row in shared)
