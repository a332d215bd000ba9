"""Block systems of a transitive permutation group: partitions of its points that every element keeps."""

from __future__ import annotations

from collections.abc import Sequence

Permutation = tuple[int, ...]
Blocks = tuple[tuple[int, ...], ...]
_MOST_SYSTEMS = 64
"""At most this many systems are joined with each other: products of many small groups have very many."""


def block_systems(generators: Sequence[Permutation], size: int) -> list[Blocks]:
    """The partitions of ``size`` points into blocks that the transitive group keeps, the fewest blocks first.

    The two that every group keeps, single points and all points, are left out. Every system is a join of minimal
    ones, and a minimal one is found from the two points of a block.

    >>> block_systems([(1, 2, 3, 0)], 4)
    [((0, 2), (1, 3))]
    """
    found: dict[Blocks, None] = {}
    for other in range(1, size):
        found.setdefault(_joined(generators, size, [(0, other)]))
    minimal = [blocks for blocks in found if len(blocks) > 1]
    frontier = minimal
    while frontier and len(found) < _MOST_SYSTEMS:
        grown = []
        for one in frontier:
            for another in minimal:
                pairs = [
                    (block[0], point) for blocks in (one, another) for block in blocks for point in block
                ]
                joined = _joined(generators, size, pairs)
                if joined not in found:
                    found[joined] = None
                    grown.append(joined)
        frontier = grown
    return sorted((blocks for blocks in found if 1 < len(blocks) < size), key=len)


def _joined(generators: Sequence[Permutation], size: int, pairs: Sequence[tuple[int, int]]) -> Blocks:
    """The finest partition that the group keeps in which the points of each pair are together."""
    parent = list(range(size))

    def root(point: int) -> int:
        while parent[point] != point:
            parent[point] = parent[parent[point]]
            point = parent[point]
        return point

    waiting = list(pairs)
    while waiting:
        a, b = waiting.pop()
        first, second = root(a), root(b)
        if first != second:
            parent[max(first, second)] = min(first, second)
            waiting += [(g[first], g[second]) for g in generators]
    blocks: dict[int, list[int]] = {}
    for point in range(size):
        blocks.setdefault(root(point), []).append(point)
    return tuple(tuple(block) for block in blocks.values())
