"""Automorphisms of a coloured graph, by nauty or, where that is not installed, by igraph's BLISS.

pynauty has wheels for few systems; elsewhere pip compiles it, which needs make and a C compiler and does not work on
Windows. igraph has wheels for all, and is what macOS and Windows get. Both find the whole group, but may choose other
generators of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import NamedTuple

from metasym.types import MetasymError

_WHOLE = 10**10
"""Orders below this are exact, as in nauty."""


class GraphGroup(NamedTuple):
    """The group that keeps a graph and its colours."""

    generators: list[list[int]]
    mantissa: float
    exponent: int
    """The order is ``mantissa * 10^exponent``."""


def graph_automorphisms(
    vertices: int, adjacency: Mapping[int, Sequence[int]], colours: Sequence[set[int]]
) -> GraphGroup:
    """The automorphisms of an undirected graph; ``colours`` are sets of vertices that stay among themselves."""
    if find_spec("pynauty") is not None:
        return by_nauty(vertices, adjacency, colours)
    if find_spec("igraph") is not None:
        return by_igraph(vertices, adjacency, colours)
    raise MetasymError(
        "expected pynauty or igraph to be installed, found neither: pip install igraph",
        about="pynauty or igraph",
    )


def by_nauty(
    vertices: int, adjacency: Mapping[int, Sequence[int]], colours: Sequence[set[int]]
) -> GraphGroup:
    """As :func:`graph_automorphisms`, by pynauty."""
    import pynauty

    graph = pynauty.Graph(vertices, adjacency_dict=dict(adjacency), vertex_coloring=list(colours))
    generators, mantissa, exponent, _, _ = pynauty.autgrp(graph)
    moves = [[int(p) for p in g] for g in generators]
    return GraphGroup(moves, float(mantissa), int(exponent))


def by_igraph(
    vertices: int, adjacency: Mapping[int, Sequence[int]], colours: Sequence[set[int]]
) -> GraphGroup:
    """As :func:`graph_automorphisms`, by igraph."""
    import igraph

    graph = igraph.Graph(vertices, [(a, b) for a, others in adjacency.items() for b in others])
    colour = [0] * vertices
    for number, members in enumerate(colours):
        for vertex in members:
            colour[vertex] = number
    generators = [[int(p) for p in g] for g in graph.automorphism_group(color=colour)]
    order = int(graph.count_automorphisms(color=colour))
    exponent = 0 if order < _WHOLE else len(str(order)) - 1
    return GraphGroup(generators, order / 10**exponent, exponent)
