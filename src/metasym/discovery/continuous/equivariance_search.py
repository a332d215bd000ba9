"""Symmetries that move the outputs too: pairs of fields with ``J_f(x) (A x + a) = B f(x) + b``.

A pair is one affine field on inputs and outputs together, ``[n+m, n+m+1]``, that mixes neither with the other; its
brackets are those of both. The equation is linear in the pair, so that the same spectrum in units of noise finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from metasym.discovery.algebra.nearest_algebra import close
from metasym.discovery.algebra.vector_fields import (
    Array,
    affine,
    angle,
    beside,
    orthonormal,
    rotations,
    sides,
    values,
)
from metasym.discovery.continuous.generator_spectrum import GAP, Spectrum, spectrum
from metasym.discovery.continuous.invariance_search import FARTHEST, GROUPS
from metasym.discovery.models.gaussian_processes import Hyper, jackknife, parts

MOST_UNKNOWNS = 700
MOST_QUIET = 200
"""Quiet directions that are closed to an algebra: all brackets of more take hours, for functions of nothing."""
_ROUND = 0.12
"""How far an entry may be from a multiple of a half to be taken for it."""
_FAR_ROUND = 8.0
"""Degrees that a space may be moved to be at round numbers."""


@dataclass(frozen=True, eq=False)
class PairCandidate:
    """An algebra of pairs that the fitted function keeps up to its noise."""

    fields: Array
    """``[d, n+m, n+m+1]``, orthonormal; none where the search found none."""
    asked: int
    gap: float
    degrees: float
    reason: str


def pair_ambients(n: int, m: int) -> dict[str, Array]:
    """The spaces of pairs that are looked at, by name."""
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
    seen = _look(ambient, x, y, plain, generator)
    count = seen.quiet()
    gap = seen.gap(count)
    if count == 0:
        return PairCandidate(empty, len(ambient), gap, 0.0, "every direction changes the function")
    if count == len(seen.signals):
        return PairCandidate(empty, len(ambient), gap, 0.0, "the data tell no direction from any other")
    note(f"{count} of {len(ambient)} directions are quiet, gap {gap:.1f}")
    if gap < GAP:
        reason = f"no clear gap between directions that are kept and others ({gap:.1f} < {GAP:g})"
        return PairCandidate(empty, len(ambient), gap, 0.0, reason)
    if count > MOST_QUIET:
        return PairCandidate(
            empty, len(ambient), gap, 0.0, f"the data tell only {len(ambient) - count} directions from others"
        )
    quiet = orthonormal(np.einsum("dk,dij->kij", seen.vectors[:, :count], ambient))
    closed = close(quiet, within=ambient)
    if not closed.is_algebra or closed.degrees > FARTHEST:
        reason = f"{count} quiet directions are not closed under brackets"
        return PairCandidate(empty, len(ambient), gap, closed.degrees, reason)
    return PairCandidate(orthonormal(closed.fields), len(ambient), gap, closed.degrees, "")


def _look(ambient: Array, x: Array, y: Array, plain: Hyper, generator: np.random.Generator) -> Spectrum:
    n, m = x.shape[1], y.shape[1]
    inner, outer = sides(ambient, n)
    moves = values(inner, x)
    replicates = []
    for fit in jackknife(plain, x, y, parts(len(x), GROUPS, generator)):
        changes = np.einsum("pmi,pdi->pmd", fit.jacobian(x, n), moves)
        turned = values(outer, fit(x)).transpose(0, 2, 1)
        replicates.append((changes - turned).reshape(len(x) * m, len(ambient)))
    return spectrum(replicates)


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
    if np.abs(rounded - rows).max() > _ROUND:
        return None
    found = rounded.reshape(fields.shape)
    return found if angle(fields, found) < _FAR_ROUND else None
