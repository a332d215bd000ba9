"""The classes of many points without comparing all pairs: neighbours in a few random projections, checked exactly.

Tied rows of U coincide, up to sign and scatter, and so they coincide in any projection. The nearest neighbours of a
tied point in a few dimensions are therefore others of its class. True distances between neighbours, up to sign, make
a graph whose minimum spanning tree joins points as single linkage does. Parts that the graph leaves unconnected are
joined by representatives. Time and memory grow about linearly with the entries of U.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree
from scipy.spatial.distance import pdist

Points = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_DIMENSIONS, _NEAREST, _PROJECTIONS = 6, 8, 2
"""Of a tree of neighbours: dimensions of its points, neighbours of each, and how often they are projected anew."""
_EQUAL = 1e-5
"""Points nearer than this, relative to the typical length, count as one from the start."""
_FEW = 1500
"""Up to this many representatives, all pairs are compared."""
_WHOLE = 600
"""In classes of up to this many points all pairs are compared; in larger ones the farthest points are searched."""
_CHUNK = 2**22
"""Numbers that are compared at once."""


def spanning_tree(points: Points, seed: int = 0) -> tuple[Labels, Labels, Floats]:
    """Joins ``(a, b, distance)`` of ``points [n, k]`` and the origin (number n), nearest first, up to sign.

    ``points`` are scaled so that their typical length is 1.
    """
    n = len(points)
    draw = np.random.Generator(np.random.PCG64(seed))
    first, second, far = _to_origin(points)
    same = _coinciding(points, draw)
    firsts, seconds = [first, same[0]], [second, same[1]]
    lengths = [far, np.full(len(same[0]), _EQUAL / 10)]
    label = _components(n + 1, same)
    # The first of all points that coincide represents them; then there are ever fewer, until all are joined.
    for _ in range(40):
        representatives = _representatives(label, n)
        if len(representatives) <= _FEW:
            a, b = (representatives[side] for side in np.triu_indices(len(representatives), 1))
        else:
            pairs = [_nearest(points, representatives, draw) for _ in range(_PROJECTIONS)]
            a, b = (np.concatenate([pair[side] for pair in pairs]) for side in (0, 1))
        firsts.append(a)
        seconds.append(b)
        lengths.append(distances(points, a, b))
        if len(representatives) <= _FEW:
            break
        joined = _components(n + 1, (np.concatenate(firsts[1:]), np.concatenate(seconds[1:])))
        if joined.max() == label.max():
            break
        label = joined
    a, b, length = np.concatenate(firsts), np.concatenate(seconds), np.concatenate(lengths)
    low, high = np.minimum(a, b), np.maximum(a, b)
    _, once = np.unique(low * (n + 1) + high, return_index=True)
    graph = coo_array(
        (np.maximum(length[once], 1e-12), (low[once], high[once])), shape=(n + 1, n + 1)
    ).tocsr()
    tree = minimum_spanning_tree(graph).tocoo()
    order = np.argsort(tree.data, kind="stable")
    return tree.row[order].astype(np.int64), tree.col[order].astype(np.int64), tree.data[order]


def distances(points: Points, a: Labels, b: Labels) -> Floats:
    """``min(|p_a - p_b|, |p_a + p_b|)`` of pairs, a part of them at a time."""
    found = np.empty(len(a))
    step = max(1, _CHUNK // points.shape[1])
    for start in range(0, len(a), step):
        part = slice(start, start + step)
        p, q = points[a[part]], points[b[part]]
        minus, plus = ((p - q) ** 2).sum(1), ((p + q) ** 2).sum(1)
        found[part] = np.sqrt(np.minimum(minus, plus))
    return found


def cut_tree(n: int, tree: tuple[Labels, Labels, Floats], joins: int) -> Labels:
    """The classes after the first joins, ``[n]`` from 1 on; 0 is the origin's."""
    found = _components(n + 1, (tree[0][:joins], tree[1][:joins]))
    labels: Labels = np.where(found[:n] == found[n], 0, found[:n] + 1).astype(np.int64)
    return labels


def width(points: Points, labels: Labels) -> float:
    """The largest distance inside a class; for large classes an estimate."""
    order = np.argsort(labels, kind="stable")
    bounds = np.flatnonzero(np.diff(labels[order])) + 1
    widest = 0.0
    for members in np.split(order, bounds):
        inside = points[members].astype(np.float64)
        if labels[members[0]] == 0:
            lengths = np.sqrt((inside**2).sum(1))
            own = float(lengths.max())
            if len(members) <= _WHOLE and len(members) > 1:
                own = max(own, _diameter(inside))
        elif len(members) == 1:
            continue
        else:
            inside = inside * np.where(inside @ inside[0] < 0, -1.0, 1.0)[:, None]
            if len(members) <= _WHOLE:
                own = float(pdist(inside).max())
            else:
                own = _breadth(inside)
        widest = max(widest, own)
    return widest


def _breadth(inside: Floats) -> float:
    """An estimate of the diameter of many points: several times from a point to the one farthest from it.

    The largest distance met is at most the diameter and rarely more than a tenth below it, so a tenth is added.
    Twice the radius, which is never below the diameter, bounds the result.
    """
    away = np.sqrt(((inside - inside.mean(0)) ** 2).sum(1))
    radius, found, here = float(away.max()), 0.0, int(away.argmax())
    for _ in range(4):
        away = np.sqrt(((inside - inside[here]) ** 2).sum(1))
        found, here = max(found, float(away.max())), int(away.argmax())
    return min(1.1 * found, 2 * radius)


def _diameter(inside: Floats) -> float:
    """The largest distance, up to sign, between two of these points."""
    squares = (inside**2).sum(1)
    products = np.abs(inside @ inside.T)
    return float(np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0).max()))


def _to_origin(points: Points) -> tuple[Labels, Labels, Floats]:
    n = len(points)
    return np.arange(n), np.full(n, n), np.sqrt((points.astype(np.float32) ** 2).sum(1)).astype(np.float64)


def _coinciding(points: Points, draw: np.random.Generator) -> tuple[Labels, Labels]:
    """Pairs of points that coincide, up to sign: neighbours along a projection, checked by their true distance."""
    k = points.shape[1]
    firsts, seconds = [], []
    for _ in range(3):
        value = np.abs(points @ draw.standard_normal(k).astype(np.float32))
        order = np.argsort(value, kind="stable")
        near = np.flatnonzero(np.diff(value[order]) <= _EQUAL * np.sqrt(k))
        a, b = order[near], order[near + 1]
        good = distances(points, a, b) <= _EQUAL
        firsts.append(a[good])
        seconds.append(b[good])
    return np.concatenate(firsts), np.concatenate(seconds)


def _components(count: int, pairs: tuple[Labels, Labels]) -> Labels:
    edges = coo_array((np.ones(len(pairs[0]), dtype=np.int8), pairs), shape=(count, count))
    found: Labels = connected_components(edges, directed=False)[1].astype(np.int64)
    return found


def _representatives(label: Labels, n: int) -> Labels:
    """The first point of every component; the origin's own joins are known already."""
    _, first = np.unique(label[:n], return_index=True)
    found: Labels = np.sort(first)
    return found


def _nearest(points: Points, chosen: Labels, draw: np.random.Generator) -> tuple[Labels, Labels]:
    """Each chosen point with its nearest ones in a random projection, signs taken from its first coordinate."""
    k = points.shape[1]
    plane = draw.standard_normal((k, _DIMENSIONS)).astype(np.float32)
    low = points[chosen] @ plane
    low *= np.where(low[:, :1] < 0, -1, 1).astype(np.float32)
    tree = cKDTree(low)
    _, found = tree.query(low, k=min(_NEAREST + 1, len(chosen)))
    a = np.repeat(np.arange(len(chosen)), found.shape[1] - 1)
    b = found[:, 1:].ravel()
    keep = a != b
    return chosen[a[keep]], chosen[b[keep]]
