"""Order and name of a permutation group given by its generators."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from metasym.groups.generators import TooLargeError, closure
from metasym.groups.names import Named, name_of
from metasym.groups.orbits import orbit_labels
from metasym.groups.stabilizer_chain import StabilizerChain

Permutation = tuple[int, ...]
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
            return str(named) if named is not None else f"a group of order {len(table)}", len(table)
    if up_to_sign:
        order = _order(generators) // 2 if order is None else order
        return f"a group of order {order}", order
    parts = [_factor(generators) for generators in _apart(generators)]
    order = math.prod(size for _, size in parts)
    names = [named for named, _ in parts]
    if any(named is None for named in names):
        return f"a group of order {order}", order
    product = Named()
    for named in names:
        assert named is not None
        product = product * named
    return str(product), order


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


def _apart(generators: Sequence[Permutation]) -> list[list[Permutation]]:
    """The generators in lists, those that move common points together: each list generates a direct factor."""
    groups: list[tuple[set[int], list[Permutation]]] = []
    for g in generators:
        moved = {i for i, p in enumerate(g) if i != p}
        touching = [entry for entry in groups if entry[0] & moved]
        groups = [entry for entry in groups if not entry[0] & moved]
        joined = [g, *(h for _, members in touching for h in members)]
        groups.append((moved.union(*(points for points, _ in touching)), joined))
    return [members for _, members in groups]


def _factor(generators: list[Permutation]) -> tuple[Named | None, int]:
    """Name (where it has one) and order of a direct factor."""
    with contextlib.suppress(TooLargeError):
        table = _table(generators, signed=False)
        return name_of(table), len(table)
    labels = orbit_labels(generators, len(generators[0]))
    orbits = [np.flatnonzero(labels == k).tolist() for k in range(int(labels.max()) + 1)]
    largest = max(orbits, key=len)
    n = len(largest)
    if all(len(orbit) in (1, n) for orbit in orbits) and _paired_transpositions(generators, orbits, n):
        return Named(others=(f"S_{n}",)), math.factorial(n)
    order = _order(generators)
    for orbit in orbits:
        size = len(orbit)
        image = [_restricted(g, orbit) for g in generators]
        if order == math.factorial(size) and _order(image) == order:
            return Named(others=(f"S_{size}",)), order
        if size > 3 and 2 * order == math.factorial(size) and _order(image) == order:
            return Named(others=(f"A_{size}",)), order
    return None, order


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


def _restricted(g: Permutation, orbit: list[int]) -> Permutation:
    place = {point: i for i, point in enumerate(orbit)}
    return tuple(place[g[point]] for point in orbit)


def _order(generators: Sequence[Permutation]) -> int:
    moved = sorted({i for g in generators for i, p in enumerate(g) if i != p})
    place = {point: i for i, point in enumerate(moved)}
    chain = StabilizerChain(len(moved))
    for g in generators:
        chain.add([place[g[point]] for point in moved])
    return chain.order
