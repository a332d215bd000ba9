"""Signed permutations that keep the terms of polynomials: a graph for places, linear equations for signs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.models.matching_pursuit import Term
from metasym.groups.graph_automorphisms import graph_automorphisms
from metasym.groups.signed_permutations import SignedPermutation

_CUTS = 3
"""Gaps between the sizes of terms above which the terms are examined alone."""
_MOST_TERMS = 4000
"""Terms that are compared: the graph grows with them."""

Bits = npt.NDArray[np.uint8]


def kept_by(terms: Sequence[Term], kinds: Sequence[int], m: int) -> list[list[SignedPermutation]]:
    """Generators of groups on ``len(kinds)`` inputs and m outputs that keep the terms; kinds of inputs do not mix.

    Terms near the limit of what shows may be missing: they are examined with the weak ones left out, too, so that
    there may be several groups.
    """
    found: dict[frozenset[SignedPermutation], list[SignedPermutation]] = {}
    for some in _levels(terms):
        moves = _of_terms(some, kinds, m)
        if moves:
            found.setdefault(frozenset(moves), moves)
    return list(found.values())


def _levels(terms: Sequence[Term]) -> list[list[Term]]:
    """All terms, and those above the widest gaps between strengths."""
    ordered = sorted(terms, key=lambda t: -abs(t.value) / max(t.error, 1e-12 * abs(t.value)))[:_MOST_TERMS]
    strengths = np.array([abs(t.value) / max(t.error, 1e-12 * abs(t.value)) for t in ordered])
    levels = [list(ordered)] if ordered else []
    if len(ordered) > 2:
        ratios = strengths[:-1] / strengths[1:]
        for i in np.argsort(-ratios)[:_CUTS]:
            levels.append(list(ordered[: int(i) + 1]))
    return levels


def _classes(terms: Sequence[Term]) -> list[int]:
    """A number for each term: equal where sizes are equal up to their errors, or nearly."""
    order = sorted(range(len(terms)), key=lambda i: abs(terms[i].value))
    found, number = [0] * len(terms), 0
    for before, here in zip([None, *order[:-1]], order, strict=True):
        if before is not None:
            a, b = terms[before], terms[here]
            apart = abs(b.value) - abs(a.value)
            error = (a.error**2 + b.error**2) ** 0.5 + 1e-9 * abs(b.value)
            if apart > FINITE.same_term_errors * error and apart > min(
                FINITE.same_term * abs(b.value), FINITE.other_term_errors * error
            ):
                number += 1
        found[here] = number
    return found


def _of_terms(terms: Sequence[Term], kinds: Sequence[int], m: int) -> list[SignedPermutation]:
    n = len(kinds)
    rows, signs = _equations(terms, n, m)
    found = []
    for images in _permutations(terms, kinds, m):
        inner, outer = images[:n], images[n:] - n
        if (signs[_targets(terms, inner, outer)] == signs).all():
            found.append(SignedPermutation.of(outer, inner))
            continue
        # Signs s of inputs and t of outputs with t_k prod s_i = sign of the term here times that where it goes.
        wanted = signs ^ signs[_targets(terms, inner, outer)]
        solution = _solved(rows, wanted)
        if solution is not None:
            plus = 1 - 2 * solution.astype(np.int64)
            found.append(SignedPermutation.of(outer, inner, plus[n:], plus[:n]))
    used = {i for t in terms for i in t.inputs}
    for change in _null(rows):
        plus = 1 - 2 * change.astype(np.int64)
        if all(i in used for i in np.flatnonzero(plus[:n] < 0)):
            found.append(SignedPermutation.of(np.arange(m), np.arange(n), plus[n:], plus[:n]))
    return [one for one in found if one.moved_inputs]


def _equations(terms: Sequence[Term], n: int, m: int) -> tuple[Bits, Bits]:
    """A row for each term over inputs and outputs: which signs change it; and whether its value is negative."""
    rows = np.zeros((len(terms), n + m), dtype=np.uint8)
    for r, term in enumerate(terms):
        for i in term.inputs:
            rows[r, i] ^= 1
        rows[r, n + term.output] ^= 1
    # Outputs and inputs in no term have no sign to speak of.
    return rows, np.array([t.value < 0 for t in terms], dtype=np.uint8)


def _targets(
    terms: Sequence[Term], inner: npt.NDArray[np.int64], outer: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Where each term goes."""
    place = {(t.output, t.inputs): r for r, t in enumerate(terms)}
    return np.array(
        [place[(int(outer[t.output]), tuple(sorted(int(inner[i]) for i in t.inputs)))] for t in terms]
    )


def _permutations(terms: Sequence[Term], kinds: Sequence[int], m: int) -> list[npt.NDArray[np.int64]]:
    """Generators on inputs, then outputs, of what keeps the sizes of terms."""
    n = len(kinds)
    adjacency: dict[int, list[int]] = {}
    colours: dict[tuple[str, int], set[int]] = {}
    # What is in no term could go anywhere: it stays.
    used = {i for t in terms for i in t.inputs} | {n + t.output for t in terms}
    for i in range(n + m):
        colour = ("input", kinds[i]) if i < n else ("output", 0)
        colours.setdefault(colour if i in used else ("unused", i), set()).add(i)
    following = n + m
    for term, size in zip(terms, _classes(terms), strict=True):
        here, following = following, following + 1
        colours.setdefault(("term", size), set()).add(here)
        adjacency[here] = [n + term.output]
        for i, power in Counter(term.inputs).items():
            if power == 1:
                adjacency[here].append(i)
            else:  # a vertex between tells x_i^2 from x_i
                adjacency[here].append(following)
                adjacency[following] = [i]
                colours.setdefault(("power", power), set()).add(following)
                following += 1
    group = graph_automorphisms(following, adjacency, [colours[key] for key in sorted(colours)])
    return [np.asarray(g[: n + m], dtype=np.int64) for g in group.generators]


def _solved(rows: Bits, wanted: Bits) -> Bits | None:
    """Bits s with ``rows s = wanted`` modulo 2, or None."""
    reduced, pivots = _reduced(np.c_[rows, wanted])
    if rows.shape[1] in pivots:
        return None
    found = np.zeros(rows.shape[1], dtype=np.uint8)
    for r, pivot in enumerate(pivots):
        found[pivot] = reduced[r, -1]
    return found


def _null(rows: Bits) -> list[Bits]:
    """A basis of the bits with ``rows s = 0`` modulo 2."""
    reduced, pivots = _reduced(rows)
    found: list[Bits] = []
    for free in (j for j in range(rows.shape[1]) if j not in pivots):
        one = np.zeros(rows.shape[1], dtype=np.uint8)
        one[free] = 1
        for r, pivot in enumerate(pivots):
            one[pivot] = reduced[r, free]
        found.append(one)
    return found


def _reduced(rows: Bits) -> tuple[Bits, list[int]]:
    """The reduced echelon form modulo 2, and its pivots."""
    found, pivots, r = rows.copy(), [], 0
    for column in range(rows.shape[1]):
        below = np.flatnonzero(found[r:, column])
        if r == len(found) or not len(below):
            continue
        found[[r, r + int(below[0])]] = found[[r + int(below[0]), r]]
        others = np.flatnonzero(found[:, column])
        others = others[others != r]
        found[others] ^= found[r]
        pivots.append(column)
        r += 1
    return found, pivots
