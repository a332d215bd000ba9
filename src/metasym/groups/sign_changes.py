"""Which elements of a group change signs and move nothing: found without listing the group."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.groups.stabilizer_chain import StabilizerChain

Row = npt.NDArray[np.bool_]
_MOST_POINTS = 150
"""Moved outputs and inputs of a group that is looked at."""
_LISTED = 12
"""The products of so many changes are all listed, to name those with the fewest signs."""


def signs_of(group: SignedGroup) -> tuple[tuple[SignedPermutation, ...] | None, bool]:
    """Independent changes of signs that generate all of the group's, few signs first; None: too many points.

    And whether some move is in the group only together with changes of sign.
    """
    m, n = group.shape
    minus = SignedPermutation.of(range(m), range(n), [-1] * m, [-1] * n)
    generators = [g.doubled for g in (*group.generators, *([minus] if group.up_to_sign else []))]
    points = sorted({int(i) // 2 for g in generators for i in np.flatnonzero(g != np.arange(len(g)))})
    both = [g for g in group.generators if g.signed and g.permutes]
    if len(points) > _MOST_POINTS:
        return None, bool(both)
    k = len(points)
    doubled = np.array([2 * p + sign for p in points for sign in (0, 1)])
    place = np.zeros(2 * (m + n), dtype=np.int64)
    place[doubled] = np.arange(2 * k)

    def beside(g: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """On the points first, then on the points with their signs: what keeps the first k only changes signs."""
        own = place[g[doubled]]
        return np.concatenate([own[::2] // 2, k + own])

    chain = StabilizerChain(3 * k, base=range(k))
    for g in generators:
        chain.add(beside(g))
    rows = [(one[k::2] - k) % 2 == 1 for one in chain.keeping(k)]
    kept = _few_signs(rows, np.ones(k, dtype=bool) if group.up_to_sign else None)
    changes = []
    for row in kept:
        signs = np.ones(m + n, dtype=np.int64)
        signs[np.array(points)[row]] = -1
        changes.append(SignedPermutation.of(range(m), range(n), signs[:m], signs[m:]))
    plain = (SignedPermutation(g.outputs, g.inputs).doubled for g in both)
    return tuple(changes), not all(beside(g) in chain for g in plain)


def _few_signs(rows: list[Row], nothing: Row | None) -> list[Row]:
    """A basis of what ``rows`` span modulo ``nothing``, few signs first."""
    basis = _reduced([*([] if nothing is None else [nothing]), *rows])
    candidates = basis
    if len(basis) <= _LISTED:
        width = len(basis[0]) if basis else 0
        candidates = [
            np.logical_xor.reduce([np.zeros(width, dtype=bool), *some])
            for count in range(1, len(basis) + 1)
            for some in itertools.combinations(basis, count)
        ]
    candidates = sorted(candidates, key=lambda row: (int(row.sum()), np.flatnonzero(row).tolist()))
    kept: list[Row] = []
    span = [] if nothing is None else [nothing]
    for row in candidates:
        if len(span) == len(basis):
            break
        if len(_reduced([*span, row])) > len(span):
            span, kept = [*span, row], [*kept, row]
    return kept


def _reduced(rows: list[Row]) -> list[Row]:
    """The reduced echelon form, without rows of zeros."""
    left = np.array(rows, dtype=bool)
    done = 0
    for column in range(left.shape[1] if len(rows) else 0):
        at = np.flatnonzero(left[done:, column])
        if not len(at):
            continue
        left[[done, done + at[0]]] = left[[done + at[0], done]]
        others = left[:, column].copy()
        others[done] = False
        left[others] ^= left[done]
        done += 1
    return list(left[:done])
