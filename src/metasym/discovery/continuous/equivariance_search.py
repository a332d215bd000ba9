"""Symmetries that move the outputs too: pairs of fields with ``J_f(x) (A x + a) = B f(x) + b``.

A pair is one affine field on inputs and outputs together, ``[n+m, n+m+1]``, that mixes neither with the other; its
brackets are those of both. The equation is linear in the pair, so that the same spectrum in units of noise finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metasym.discovery.algebra.nearest_algebra import nearest_algebra
from metasym.discovery.algebra.vector_fields import (
    Array,
    affine,
    angle,
    beside,
    orthonormal,
    rotations,
)
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.generator_spectrum import pair_spectrum
from metasym.discovery.continuous.invariance_search import GROUPS
from metasym.discovery.models.gaussian_processes import Hyper, jackknife, random_folds
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    BracketsLeave,
    EveryDirectionChanges,
    FewDirectionsTold,
    NoClearGap,
    NoDirectionTold,
)

MOST_UNKNOWNS = 700
"""Fields of inputs and outputs together up to which the search covers them: the memory grows with their square."""


@dataclass(frozen=True, eq=False)
class PairCandidate:
    """An algebra of pairs that the fitted function keeps up to its noise."""

    fields: Array
    """``[d, n+m, n+m+1]``, orthonormal; none where the search found none."""
    asked: int
    gap: float
    degrees: float
    reason: AnyDiscoveryReason | None = None


def pair_ambients(n: int, m: int) -> dict[str, Array]:
    """The spaces of pairs that are examined, by name."""
    found = {}  # counted before they are made: those of hundreds of inputs take gigabytes
    if n * (n - 1) // 2 + m * (m - 1) // 2 <= MOST_UNKNOWNS:
        found["rotations of inputs and outputs"] = beside(rotations(n), rotations(m))
    if n * (n + 1) + m * (m + 1) <= MOST_UNKNOWNS:
        found["affine maps of inputs and outputs"] = beside(affine(n), affine(m))
    return found


def search_pairs(
    ambient: Array,
    x: Array,
    y: Array,
    plain: Hyper,
    generator: np.random.Generator,
    note: Callable[[str], None] = lambda _: None,
) -> PairCandidate:
    """The algebra of pairs inside ``ambient`` that ``y [examples, m]`` keeps as a function of ``x [examples, n]``."""
    empty = ambient[:0]
    fits = jackknife(plain, x, y, random_folds(len(x), GROUPS, generator))
    seen = pair_spectrum(ambient, fits, x)
    count = seen.quiet()
    gap = seen.gap(count)
    if count == 0:
        return PairCandidate(empty, len(ambient), gap, 0.0, EveryDirectionChanges())
    if count == len(seen.signals):
        return PairCandidate(empty, len(ambient), gap, 0.0, NoDirectionTold())
    note(f"{count} of {len(ambient)} directions are quiet, gap {gap:.1f}")
    if gap < CONTINUOUS.gap:
        return PairCandidate(empty, len(ambient), gap, 0.0, NoClearGap(gap, CONTINUOUS.gap))
    if count > CONTINUOUS.most_quiet:
        return PairCandidate(empty, len(ambient), gap, 0.0, FewDirectionsTold(len(ambient) - count))
    quiet = orthonormal(np.einsum("dk,dij->kij", seen.vectors[:, :count], ambient))
    closed = nearest_algebra(quiet, within=ambient)
    if not closed.is_algebra or closed.degrees > CONTINUOUS.farthest:
        return PairCandidate(empty, len(ambient), gap, closed.degrees, BracketsLeave(count))
    return PairCandidate(orthonormal(closed.fields), len(ambient), gap, closed.degrees)


def at_round_numbers(fields: Array) -> Array | None:
    """The space spanned by generators with entries that are multiples of a half, where it is near; or None."""
    rows = fields.reshape(len(fields), -1).copy()
    for i in range(len(rows)):
        best = np.unravel_index(np.argmax(np.abs(rows[i:])), rows[i:].shape)
        row, column = int(best[0]) + i, int(best[1])
        rows[[i, row]] = rows[[row, i]]
        rows[i] /= rows[i, column]
        for j in range(len(rows)):
            if j != i:
                rows[j] -= rows[j, column] * rows[i]
    rounded = np.round(2 * rows) / 2
    if np.abs(rounded - rows).max() > CONTINUOUS.round_entry:
        return None
    found = rounded.reshape(fields.shape)
    return found if angle(fields, found) < CONTINUOUS.round_degrees else None
