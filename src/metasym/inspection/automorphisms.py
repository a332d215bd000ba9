"""The symmetry group of a sharing pattern: all permutations of outputs and inputs that keep every class.

The pattern is a bipartite graph whose edge from input j to output i has the colour of entry (i, j). Programs for
graphs know colours of vertices only, so that the graph is drawn in layers, one for each binary digit of the colour:
an edge appears in the layers where its colour's digit is 1, and copies of a vertex are joined from layer to layer.
Signed permutations act on twice as many points, +i and -i.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metasym.groups.graph_automorphisms import graph_automorphisms

Permutation = tuple[int, ...]


@dataclass(frozen=True)
class Automorphisms:
    """Generators as permutations of points: first the outputs, then the inputs.

    Signed, every output and input stands for two points, ``2 i`` for plus and ``2 i + 1`` for minus.
    """

    outputs: int
    inputs: int
    signed: bool
    generators: tuple[Permutation, ...]
    mantissa: float
    exponent: int
    """The order is ``mantissa * 10^exponent``; signed, modulo -1 on both sides."""
    orbits: tuple[int, ...]
    """``[outputs + inputs]``: points with equal numbers are taken to each other (up to sign)."""

    @property
    def trivial(self) -> bool:
        """Whether the identity is all there is."""
        return self.exponent == 0 and self.mantissa < 1.5

    def transitive(self, part: str) -> bool:
        """Whether every point of ``part``, ``"outputs"`` or ``"inputs"``, goes to every other."""
        points = self.orbits[: self.outputs] if part == "outputs" else self.orbits[self.outputs :]
        return len(set(points)) == 1


def automorphisms(classes: npt.NDArray[np.int64]) -> Automorphisms:
    """The group of the pattern ``classes [m, n]``: 0 zero, equal numbers tied, opposite ones up to sign.

    Signs are looked at where some entries are tied with opposite signs; elsewhere they could only flip
    blocks that no weight connects.
    """
    m, n = classes.shape
    signed = len(set(np.unique(classes)) & set(-np.unique(classes[classes != 0]))) > 0
    colours = _doubled(classes) if signed else classes
    generators, mantissa, exponent, orbits = _nauty(colours, paired=signed)
    if signed:
        mantissa /= 2
        if mantissa < 1 and exponent > 0:
            mantissa, exponent = mantissa * 10, exponent - 1
        # A generator and its product with -1 are one element; -1 itself is none.
        minus = tuple(point ^ 1 for point in range(2 * (m + n)))
        distinct = {min(g, tuple(minus[p] for p in g)): g for g in generators}
        identity = tuple(range(2 * (m + n)))
        generators = [g for g in distinct.values() if g not in (identity, minus)]
        orbits = [orbits[2 * p] // 2 for p in range(m + n)]
    return Automorphisms(m, n, signed, tuple(generators), mantissa, exponent, tuple(orbits))


def _doubled(classes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """``[2 m, 2 n]``: the entry from point +-j to point +-i has the sign of both."""
    signs = np.array([[1, -1], [-1, 1]])
    return np.asarray(np.kron(classes, signs), dtype=np.int64)


def _nauty(
    colours: npt.NDArray[np.int64], *, paired: bool
) -> tuple[list[Permutation], float, int, list[int]]:
    """Generators on rows and columns, the order, and the orbits, of a matrix of edge colours."""
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
    return found, group.mantissa, group.exponent, group.orbits[:points]
