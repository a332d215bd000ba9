"""How a permutation group moves the points of one orbit: freely, as a ring, in blocks, as a grid.

A shape is given only where it is proven, by the order of the group on the orbit and by the blocks that it keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
import torch

from metasym.groups.block_systems import Blocks, Permutation, block_systems
from metasym.groups.generators import products
from metasym.groups.signed_permutations import cycles
from metasym.groups.stabilizer_chain import StabilizerChain

_MOST_POINTS = 300
"""Block systems are searched for among up to so many points."""


class Shape(StrEnum):
    """What a group does to the points of an orbit."""

    ANY = "any order"
    """All permutations."""
    EVEN = "even permutations"
    RING = "ring"
    """The turns of a ring."""
    REFLECTED = "ring with reflections"
    BLOCKS = "blocks"
    """A wreath product: it acts inside each block separately, and permutes the blocks."""
    GRID = "grid"
    """A direct product: rows, and columns."""
    OTHER = "other"


@dataclass(frozen=True)
class OrbitAction:
    """What a group does to one orbit; for rings the points are in the order around the ring."""

    points: tuple[int, ...]
    shape: Shape
    order: int
    """Of the group as it acts on these points."""
    generators: tuple[Permutation, ...] = field(compare=False)
    """On the numbers of the points, 0 to n - 1."""
    blocks: Blocks = ()
    """Of a wreath product its blocks, of a grid its rows."""
    inner: OrbitAction | None = None
    """What the elements that keep the first block do to it; of a grid, how columns are moved."""
    outer: OrbitAction | None = None
    """What the group does to the blocks, by their numbers; of a grid, how rows are moved."""


def orbit_action(generators: Sequence[Permutation], points: Sequence[int]) -> OrbitAction:
    """The action of the group of ``generators`` on the orbit ``points``.

    >>> orbit_action([(1, 0, 2, 3, 4, 5), (0, 2, 1, 3, 4, 5), (3, 4, 5, 0, 1, 2)], range(6)).shape
    <Shape.BLOCKS: 'blocks'>
    """
    moves = restricted(generators, points)
    n, names = len(points), tuple(points)
    if _connected_swaps(moves, n):
        return OrbitAction(names, Shape.ANY, math.factorial(n), moves)
    order = group_order(moves)
    if order == math.factorial(n):
        return OrbitAction(names, Shape.ANY, order, moves)
    ring = _ring(moves, n, order)
    if ring is not None:
        around = tuple(names[i] for i in ring)
        return OrbitAction(around, Shape.RING if order == n else Shape.REFLECTED, order, moves)
    if n > 3 and 2 * order == math.factorial(n):
        return OrbitAction(names, Shape.EVEN, order, moves)
    if n <= _MOST_POINTS:
        systems = block_systems(moves, n)
        found = _wreath(moves, names, order, systems) or _grid(moves, names, order, systems)
        if found is not None:
            return found
    return OrbitAction(names, Shape.OTHER, order, moves)


def restricted(generators: Sequence[Permutation], points: Sequence[int]) -> tuple[Permutation, ...]:
    """The different moves of ``points`` by the generators, as permutations of their numbers."""
    place = {point: i for i, point in enumerate(points)}
    found = {tuple(place[g[point]] for point in points): None for g in generators}
    return tuple(g for g in found if g != tuple(range(len(g))))


def group_order(generators: Sequence[Permutation]) -> int:
    """The number of elements that the permutations generate."""
    moved = sorted({i for g in generators for i, p in enumerate(g) if i != p})
    place = {point: i for i, point in enumerate(moved)}
    chain = StabilizerChain(len(moved))
    for g in generators:
        chain.add([place[g[point]] for point in moved])
    return chain.order


def _connected_swaps(moves: Sequence[Permutation], n: int) -> bool:
    """Whether swaps of two points among the moves connect all points: they generate every permutation."""
    swaps = [g for g in moves if sum(i != p for i, p in enumerate(g)) == 2]
    reached = {0}
    while True:
        more = {g[i] for g in swaps for i in reached} - reached
        if not more:
            return len(reached) == n
        reached |= more


def _ring(moves: Sequence[Permutation], n: int, order: int) -> tuple[int, ...] | None:
    """The points around the ring that the group turns, or turns and reflects; None where it does something else."""
    if n < 3 or order not in (n, 2 * n):
        return None
    elements = _elements(moves, n)
    turns = [g for g in elements if len(next(cycles(g))) == n]
    if not turns:
        return None
    turn = min(turns, key=lambda g: g[0])  # of the powers of a turn, the one that goes to the nearest column
    around = next(cycles(turn))
    place = {point: i for i, point in enumerate(around)}
    for g in elements:
        there = [place[g[point]] for point in around]
        steps = {(b - a) % n for a, b in zip(there, there[1:] + there[:1], strict=True)}
        if steps not in ({1}, {n - 1}):
            return None
    return around


def _elements(moves: Sequence[Permutation], n: int) -> list[Permutation]:
    found: dict[Permutation, int] = {}
    generators = [torch.tensor(g) for g in moves]
    list(
        products(
            torch.arange(n), generators, lambda g, new: found.setdefault(tuple(g.tolist()), new), torch.take
        )
    )
    return list(found)


def _wreath(
    moves: Sequence[Permutation], names: tuple[int, ...], order: int, systems: list[Blocks]
) -> OrbitAction | None:
    """Blocks that move independently: the order is that of the whole wreath product, which contains it."""
    for blocks in systems:
        if (
            len(blocks) * len(blocks[0]) ** len(blocks) > order
        ):  # a transitive group has at least as many elements
            continue
        outer = _on_blocks(moves, blocks)
        inner = _keeping(moves, blocks)
        if outer.order * inner.order ** len(blocks) == order:
            own = tuple(tuple(names[i] for i in block) for block in blocks)
            renamed = OrbitAction(
                tuple(names[i] for i in inner.points),
                inner.shape,
                inner.order,
                inner.generators,
                tuple(tuple(names[i] for i in block) for block in inner.blocks),
                inner.inner,
                inner.outer,
            )
            return OrbitAction(names, Shape.BLOCKS, order, tuple(moves), own, renamed, outer)
    return None


def _grid(
    moves: Sequence[Permutation], names: tuple[int, ...], order: int, systems: list[Blocks]
) -> OrbitAction | None:
    """Two block systems that cross: every row meets every column once, and rows and columns move independently."""
    for rows in systems:
        for columns in systems:
            if len(rows) * len(columns) != len(names) or len(rows) > len(columns):
                continue
            if any(len(set(row) & set(column)) != 1 for row in rows for column in columns):
                continue
            outer, inner = _on_blocks(moves, rows), _on_blocks(moves, columns)
            if outer.order * inner.order == order:
                ordered = tuple(
                    tuple(names[next(iter(set(row) & set(column)))] for column in columns) for row in rows
                )
                return OrbitAction(names, Shape.GRID, order, tuple(moves), ordered, inner, outer)
    return None


def _on_blocks(moves: Sequence[Permutation], blocks: Blocks) -> OrbitAction:
    block_of = {point: number for number, block in enumerate(blocks) for point in block}
    images = [tuple(block_of[g[block[0]]] for block in blocks) for g in moves]
    return orbit_action(images, range(len(blocks)))


def _keeping(moves: Sequence[Permutation], blocks: Blocks) -> OrbitAction:
    """What the elements that keep the first block do to it, by Schreier's generators."""
    n = sum(map(len, blocks))
    block_of = np.zeros(n, dtype=np.int64)
    for number, block in enumerate(blocks):
        block_of[list(block)] = number
    arrays = [np.array(g) for g in moves]
    reach = {0: np.arange(n)}
    waiting = [0]
    while waiting:
        here = waiting.pop()
        for g in arrays:
            there = int(block_of[g[reach[here][blocks[0][0]]]])
            if there not in reach:
                reach[there] = g[reach[here]]
                waiting.append(there)
    keeping = set()
    for to in reach.values():
        for g in arrays:
            moved = g[to]
            back = np.argsort(reach[int(block_of[moved[blocks[0][0]]])])
            keeping.add(tuple(back[moved].tolist()))
    return orbit_action(sorted(keeping), blocks[0])
