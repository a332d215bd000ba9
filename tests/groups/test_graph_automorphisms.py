"""nauty and BLISS, two programs of different people, find the same group of the same graph."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sympy.combinatorics import Permutation, PermutationGroup

from metasym.groups import graph_automorphisms as module
from metasym.groups.graph_automorphisms import GraphGroup, by_igraph, by_nauty, graph_automorphisms
from tests.refusals import refused


def cycle(n: int) -> tuple[int, dict[int, list[int]], list[set[int]]]:
    return n, {v: [(v + 1) % n] for v in range(n)}, [set(range(n))]


def drawn(seed: int) -> tuple[int, dict[int, list[int]], list[set[int]]]:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 9))
    edges = {v: [w for w in range(v + 1, n) if rng.random() < 0.4] for v in range(n)}
    colour = rng.integers(0, 2, n)
    return n, edges, [found for c in (0, 1) if (found := {v for v in range(n) if colour[v] == c})]


def group(found: GraphGroup, n: int) -> PermutationGroup:
    return PermutationGroup([Permutation(range(n)), *(Permutation(g) for g in found.generators)])


@pytest.mark.parametrize("seed", range(30))
def test_both_find_the_same_group(seed: int) -> None:
    pytest.importorskip("igraph", reason="igraph, used where there is no pynauty, is not installed")
    problem = drawn(seed)
    one, other = by_nauty(*problem), by_igraph(*problem)
    assert group(one, problem[0]).equals(group(other, problem[0]))
    assert (one.mantissa, one.exponent) == (other.mantissa, other.exponent)
    assert one.mantissa == group(other, problem[0]).order()


def test_the_order_of_a_large_group_is_told_in_powers_of_ten() -> None:
    pytest.importorskip("igraph", reason="igraph, used where there is no pynauty, is not installed")
    n = 60
    for found in (by_igraph(n, {}, [set(range(n))]), by_nauty(n, {}, [set(range(n))])):
        told = math.log10(found.mantissa) + found.exponent
        assert told == pytest.approx(math.lgamma(n + 1) / math.log(10), rel=1e-12)


def test_a_ring_turns_and_reflects() -> None:
    assert graph_automorphisms(*cycle(7)).mantissa == 14


def test_without_either_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with refused("pynauty or igraph"):
        graph_automorphisms(*cycle(5))
