"""The symmetry group of a sharing pattern: all permutations of outputs and inputs that keep every class.

The pattern is a bipartite graph whose edge from input j to output i has the colour of entry (i, j). Programs for
graphs know colours of vertices only, so that the graph is drawn in layers, one for each binary digit of the colour:
an edge appears in the layers where its colour's digit is 1, and copies of a vertex are joined from layer to layer.
Signed permutations act on twice as many points, +i and -i.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from metasym.groups.graph_automorphisms import graph_automorphisms
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation

Permutation = tuple[int, ...]
_EXACT = 10
"""Programs for graphs return orders with up to this many digits exactly; larger ones are counted."""


def pattern_group(classes: npt.NDArray[np.int64]) -> SignedGroup:
    """The largest group that keeps the pattern ``classes [m, n]``: 0 zero, equal numbers tied, opposite up to sign.

    Signs are examined where some entries are tied with opposite signs; elsewhere they could only flip
    blocks that no weight connects. Elements count up to the sign of all outputs and inputs, which no weight sees.
    """
    m, n = classes.shape
    signed = len(set(np.unique(classes)) & set(-np.unique(classes[classes != 0]))) > 0
    found, mantissa, exponent = _nauty(_doubled(classes) if signed else classes, paired=signed)
    order = round(mantissa * 10.0**exponent) if exponent < _EXACT else None
    if not signed:
        elements = [SignedPermutation.of(g[:m], np.array(g[m:]) - m) for g in found]
        return SignedGroup(tuple(elements), (m, n), known_order=order)
    # A generator and its product with -1 are one element; -1 itself is none.
    minus = tuple(point ^ 1 for point in range(2 * (m + n)))
    distinct = {min(g, tuple(minus[p] for p in g)): g for g in found}
    trivial = (tuple(range(2 * (m + n))), minus)
    elements = [SignedPermutation.from_doubled(g, m) for g in distinct.values() if g not in trivial]
    return SignedGroup(tuple(elements), (m, n), True, None if order is None else order // 2)


def _doubled(classes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``[2 m, 2 n]``: the entry from point +-j to point +-i has the sign of both."""
    signs = np.array([[1, -1], [-1, 1]])
    return np.asarray(np.kron(classes, signs), dtype=np.int64)


def _nauty(colours: npt.NDArray[np.int64], *, paired: bool) -> tuple[list[Permutation], float, int]:
    """Generators on rows and columns, and the order, mantissa and exponent, for a matrix of edge colours."""
    m, n = colours.shape
    numbers = np.unique(colours, return_inverse=True)[1].reshape(m, n)
    layers = max(1, int(numbers.max()).bit_length())
    points = m + n
    adjacency: dict[int, list[int]] = {v: [] for v in range(points * layers)}
    for layer in range(layers):
        first = layer * points
        if layer + 1 < layers:
            for v in range(first, first + points):
                adjacency[v].append(v + points)
        for i, j in zip(*np.nonzero((numbers >> layer) & 1), strict=True):
            adjacency[first + int(i)].append(first + m + int(j))
    if paired:  # +i and -i belong together: an edge in the first layer, where rows have none among themselves
        for v in range(0, points, 2):
            adjacency[v].append(v + 1)
    sides = [
        set(range(layer * points + start, layer * points + stop))
        for layer in range(layers)
        for start, stop in ((0, m), (m, points))
    ]
    group = graph_automorphisms(points * layers, adjacency, sides)
    found = [tuple(g[:points]) for g in group.generators]
    return found, group.mantissa, group.exponent
