"""The sharing pattern of a weight: which of its entries are tied, tied up to sign, or zero.

Every entry of W is a row of U, a point in R^k. Tied entries are one point, entries tied up to sign are opposite
points, zero entries lie at the origin; a rotation of the filter, U R, rotates all points together. Learned
points scatter. They are joined, nearest first, and cut where the gap is widest: where the smallest distance
between two classes is largest relative to the largest distance inside one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import squareform

from metasym.inspection.neighbours import cut_tree, spanning_tree, width
from metasym.inspection.reading_thresholds import PATTERN
from metasym.inspection.spectrum import principal_directions
from metasym.verdicts.reports import SharingPattern

PAIRS = 6000
"""Up to this many entries of a weight all pairs of rows are compared; beyond it neighbours (``neighbours.py``)."""
MOST_WEIGHTS = 2**18
"""A weight of up to this many entries is read entry by entry."""
_NOTHING = 1e-150
"""Entries of U whose squares are no longer numbers: zero."""
_USUAL = 64
"""Entries of a class for which that holds in few dimensions; of the same scatter, more entries reach farther."""
_CUTS = 24
"""Gaps between distances that are tried as the end of the tied ones, the widest first: the cost."""
FLOOR = 1e-3
"""Distances of points in float32 below this are rounding."""
_EXACT = 3000
"""More points than this are compared in float32: their distances fill hundreds of megabytes."""
Array = npt.NDArray[np.float64]
Points = npt.NDArray[Any]
Labels = npt.NDArray[np.int64]
_NONE: Labels = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Cut:
    """One way to cut the points into classes; distances are relative to the typical length of a nonzero row."""

    labels: Labels
    """``[entries]``: 0 is the origin's class."""
    ties: int
    within: float
    between: float

    @property
    def margin(self) -> float:
        """Between-class distance over within-class distance."""
        return self.between / self.within

    @property
    def evidence(self) -> float:
        """How unlikely such a gap is among points without structure, as a logarithm."""
        return self.ties * math.log(max(self.margin, 1.0))

    @property
    def rank(self) -> tuple[bool, float]:
        """What makes one cut better than another: enough evidence, then the margin.

        A pair that happens to be close has a wide gap too: evidence comes first.
        """
        return self.evidence >= PATTERN.evidence, self.margin


def find_pattern(
    U: Array, shape: tuple[int, int], used: int | None = None, factors: Sequence[Array] = ()
) -> SharingPattern:
    """The pattern of a weight ``[m, n]`` with the symmetry matrix ``U [m n, k]``, of any number of rows.

    ``used`` is the size of the dominant eigenspace of U U^T, where a drop of the singular values separates it from
    the rest. The points are then also examined inside it, free of what is left of U's random start. A pattern
    with fewer classes than that space has dimensions cannot span it, and is not accepted. ``factors`` are the
    Kronecker factors of U, where it has some: their products and directions are those of U, for almost nothing.
    """
    ones: Labels = np.ones(len(U), dtype=np.int64)
    if not (np.abs(U) > _NOTHING).any():
        return _described(U, 0 * ones, ones, shape, None)
    views: list[tuple[Points, int]] = [(U, 0)]
    if used is not None and used < U.shape[1]:
        views.append((_turned(U, used, factors), used))
    best: Cut | None = None
    points = views[0][0]
    for view, fewest in views:
        exact: Points = view if len(U) <= _EXACT else view.astype(np.float32)
        products = _products(factors, exact.dtype) if view is U and factors else None
        cut = best_cut(exact, products) if len(U) <= PAIRS else near_cut(exact)
        if cut is None or len(np.unique(cut.labels[cut.labels != 0])) < fewest:
            continue
        if best is None or cut.rank > best.rank:
            best, points = cut, exact
    if best is None:
        return _described(U, np.cumsum(ones), ones, shape, None)
    labels, signs = canonical(points, best.labels)
    return _described(U, labels, signs, shape, best, points)


def _turned(U: Array, size: int, factors: Sequence[Array]) -> Array:
    """U in its ``size`` strongest principal directions, ``[rows, size]``."""
    if not factors:
        return np.asarray(U @ principal_directions(U, size))
    parts = [np.linalg.svd(factor, full_matrices=False)[:2] for factor in factors]
    values = functools.reduce(np.multiply.outer, [value for _, value in parts])
    places = np.unravel_index(np.argsort(-values, axis=None, kind="stable")[:size], values.shape)
    turned = np.ones((1, size))
    for (left, value), place in zip(parts, places, strict=True):
        own = left[:, place] * value[place]
        turned = (turned[:, None, :] * own[None, :, :]).reshape(-1, size)
    return turned


def _products(factors: Sequence[Array], dtype: npt.DTypeLike) -> Points:
    """``U U^T`` of the Kronecker product of ``factors``: the Kronecker product of theirs."""
    return functools.reduce(np.kron, [(factor @ factor.T).astype(dtype) for factor in factors])


def best_cut(points: Points, products: Points | None = None) -> Cut | None:
    """The cut with the widest gap; None where no two points can be joined.

    ``products``, where given, is ``points @ points.T``.
    """
    squares = np.square(points, dtype=np.float64).sum(axis=1)
    scale = float(np.sqrt((squares**2).sum() / squares.sum()))  # the typical length of rows that are not zero
    distances = distances_up_to_sign(points, products)
    distances /= scale
    floor = 1e-6 if distances.dtype == np.float64 else FLOOR
    tree = linkage(squareform(distances, checks=False), "single")
    heights = np.maximum(tree[:, 2], floor)
    # A class is at least as wide as its last join, so that a cut's margin is at most this ratio.
    ratios = heights[1:] / heights[:-1]
    lasts = [int(i) for i in np.argsort(-ratios, kind="stable")[:_CUTS] if ratios[i] > 1]
    bounds = [_bound(tree, distances, heights, last, floor) for last in lasts]
    best: Cut | None = None
    for bound in sorted(bounds, key=lambda one: one.rank, reverse=True):
        if best is not None and bound.rank <= best.rank:
            break  # as all that follow
        within = _within(distances, bound.labels, bound.within)
        labels = np.where(bound.labels[1:] == bound.labels[0], 0, bound.labels[1:]).astype(np.int64)
        cut = Cut(labels, bound.ties, within, bound.between)
        if best is None or cut.rank > best.rank:
            best = cut
    return best


def near_cut(points: Points) -> Cut | None:
    """The same for many points, where only neighbours are compared."""
    squares = np.square(points, dtype=np.float64).sum(axis=1)
    scale = float(np.sqrt((squares**2).sum() / squares.sum()))
    scaled = (points / scale).astype(np.float32)
    tree = spanning_tree(scaled)
    heights = np.maximum(tree[2], FLOOR)
    ratios = heights[1:] / heights[:-1]
    best: Cut | None = None
    for last in [int(i) for i in np.argsort(-ratios, kind="stable")[:_CUTS] if ratios[i] > 1]:
        bound = Cut(_NONE, last + 1, 1.0, float(ratios[last]))
        if best is not None and bound.rank <= best.rank:
            continue
        labels = cut_tree(len(points), tree, last + 1)
        within = max(FLOOR, width(scaled, labels))
        cut = Cut(labels, last + 1, within, float(heights[last + 1]))
        if best is None or cut.rank > best.rank:
            best = cut
    return best


def widest(points: Points, labels: Labels) -> float:
    """How wide a class may be: on a line, or in a plane, different points come near each other by chance.

    Every class counts once: that many entries of S_n share a place does not make the places fewer. What scatters
    by s about a place reaches ``s sqrt(2 log N)`` to either side with N entries: large classes may be wider.
    """
    sizes = np.bincount(labels)
    order = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.cumsum(sizes[sizes > 0])[:-1]])
    one = points[order[starts]]  # of every class any entry will do: they hardly differ
    few = caution(one[labels[order[starts]] != 0])
    growth = math.sqrt(math.log(max(int(sizes.max()), _USUAL)) / math.log(_USUAL))
    return PATTERN.within * min(1.0, few * growth)


def caution(points: Points) -> float:
    """Below 1 for rows ``[rows, k]`` that spread over fewer than four directions.

    The number of directions is ``(sum s^2)^2 / sum s^4`` of the singular values: those used about equally. Both
    sums are norms, of the rows and of their products: no decomposition is needed.
    """
    products = points.T @ points if points.shape[1] <= len(points) else points @ points.T
    power = float(np.trace(products, dtype=np.float64))
    if not power > 0:
        return 0.0
    directions = power**2 / float(np.square(products, dtype=np.float64).sum())
    return min(1.0, float((directions / 4) ** 1.5))


def distances_up_to_sign(points: Points, products: Points | None = None) -> Points:
    """Distances up to sign between all rows and the origin, which is point 0: ``[rows + 1, rows + 1]``."""
    if products is None:
        rows = np.concatenate([np.zeros_like(points[:1]), points])
        products = rows @ rows.T
    else:
        products = np.pad(products, ((1, 0), (1, 0)))
    squares = np.diag(products).copy()
    np.abs(products, out=products)
    products *= -2
    products += squares[:, None]
    products += squares[None, :]
    np.maximum(products, 0, out=products)
    np.sqrt(products, out=products)
    np.fill_diagonal(products, 0)
    return products


def _bound(tree: Array, distances: Points, heights: Array, last: int, floor: float) -> Cut:
    """The classes after join number ``last``, the origin's point 0 included, with a lower bound of their width.

    It is that of every class's first member, and of the one farthest from it: nearly always the width itself. Only
    cuts that this leaves in the race have all their pairs compared, of which one class of noise has millions.
    """
    found = fcluster(tree, (tree[last, 2] + tree[last + 1, 2]) / 2, "distance")
    within = max(floor, float(_reach(distances, found)[1].max()))
    return Cut(found.astype(np.int64), last + 1, within, float(heights[last + 1]))


def _reach(distances: Points, found: Labels) -> tuple[Array, Array]:
    """``[points]``: how far each is from the first member of its class, and from the one farthest from that."""
    rows = np.arange(len(found))
    _, first, place = np.unique(found, return_index=True, return_inverse=True)
    from_first = distances[first[place], rows]
    order = np.lexsort((from_first, place))  # the last of every class is its farthest
    farthest = order[np.cumsum(np.bincount(place)) - 1]
    return from_first, distances[farthest[place], rows]


def _within(distances: Points, found: Labels, known: float) -> float:
    """The largest distance inside a class, of which ``known`` is a lower bound."""
    radius = _reach(distances, found)[0]
    order = np.argsort(found, kind="stable")
    for members in np.split(order, np.flatnonzero(np.diff(found[order])) + 1):
        # Distances up to sign obey the triangle inequality: no two members are farther apart than twice the radius.
        if 2 * float(radius[members].max()) * (1 + FLOOR) > known:
            known = max(known, float(distances[np.ix_(members, members)].max()))
    return known


def canonical(points: Points, labels: Labels) -> tuple[Labels, Labels]:
    """Classes numbered from 1 as they first appear, and signs relative to each class's first entry."""
    first = np.full(int(labels.max()) + 1, len(labels))
    first[labels[::-1]] = np.arange(len(labels))[::-1]  # the last assignment stays: the first appearance
    first[0] = -1  # zero stays zero
    rank = np.empty_like(first)
    rank[np.argsort(first, kind="stable")] = np.arange(len(first))
    starts = points[np.clip(first, 0, len(labels) - 1)[labels]]
    products = np.einsum("ij,ij->i", points, starts)
    signs: Labels = np.where((products < 0) & (labels != 0), -1, 1).astype(np.int64)
    return rank[labels], signs


def averaged(U: Array, labels: Labels, signs: Labels) -> Array:
    """U with every row replaced by the mean of its class, up to its sign; rows of class 0 become zero."""
    means: Array = U.astype(np.float64)
    rows = _shared(labels)
    if len(rows):
        own = labels[rows]
        kinds, place, sizes = np.unique(own, return_inverse=True, return_counts=True)
        order = np.argsort(own, kind="stable")
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        sums = np.add.reduceat((means[rows] * signs[rows, None])[order], starts, axis=0)
        sums[kinds == 0] = 0
        means[rows] = (sums / sizes[:, None])[place] * signs[rows, None]
    return means


def _shared(labels: Labels) -> Labels:
    """The rows that are not alone in a class of their own: those that averaging changes."""
    return np.flatnonzero((np.bincount(labels)[labels] > 1) | (labels == 0))


def _described(
    U: Array,
    labels: Labels,
    signs: Labels,
    shape: tuple[int, int],
    cut: Cut | None,
    points: Points | None = None,
) -> SharingPattern:
    """The pattern of a cut; ``points`` are those that were cut: U, or U in its dominant directions."""
    sizes = np.bincount(labels, minlength=1)
    residual = _residual(U, labels, signs)
    inside = residual if points is None else _residual(points, labels, signs)
    clear = (
        cut is not None
        and points is not None
        and cut.margin >= PATTERN.margin
        and cut.evidence >= PATTERN.evidence
        and inside <= PATTERN.residual
        and (residual <= PATTERN.unexplained or inside <= PATTERN.nearly_whole)
        and len(sizes) > 1
        and cut.within <= widest(points, cut.labels)  # last: of all these it costs most
    )
    signed = (labels * signs).reshape(shape)
    return SharingPattern(
        classes=tuple(tuple(int(c) for c in row) for row in signed),
        count=len(sizes) - 1,
        tied=int(sizes[1:][sizes[1:] > 1].sum()),
        zeros=int(sizes[0]),
        signed=bool((signs < 0).any()),
        within=cut.within if cut else 0.0,
        between=cut.between if cut else 0.0,
        margin=cut.margin if cut else 1.0,
        residual=residual,
        clear=clear,
        dominant_residual=inside,
    )


def _residual(U: Points, labels: Labels, signs: Labels) -> float:
    norm = math.sqrt(float(np.square(U, dtype=np.float64).sum()))
    rows = _shared(labels)  # all others are their own mean
    if not norm or not len(rows):
        return 0.0
    changed = U[rows].astype(np.float64)
    return float(np.linalg.norm(changed - averaged(changed, labels[rows], signs[rows]))) / norm


def unconnected(pattern: SharingPattern) -> int:
    """Into how many blocks outputs and inputs fall if zero weights do not connect; dead ones count as none."""
    outputs, inputs = np.nonzero(np.array(pattern.classes))
    m, n = len(pattern.classes), len(pattern.classes[0])
    graph = coo_array((np.ones(len(outputs)), (outputs, m + inputs)), shape=(m + n, m + n))
    labels = connected_components(graph, directed=False)[1]
    return len(set(labels[outputs].tolist()))
