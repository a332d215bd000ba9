"""The algebra of pairs that a polynomial keeps, and the polynomials that an algebra keeps: two linear null spaces.

``J_f(x) (A x + a) = B f(x) + b`` is linear in the pair where the polynomial is known, and linear in the polynomial's
coefficients where the pair is. Noise is that of coefficients refitted without a part of the examples each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from metasym.discovery.algebra.nearest_algebra import closure_defect, nearest_algebra
from metasym.discovery.algebra.vector_fields import (
    Array,
    affine,
    beside,
    orthonormal,
    rotations,
    shifts_and_scalings,
    sides,
)
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.equivariance_search import MOST_UNKNOWNS
from metasym.discovery.continuous.generator_spectrum import pair_spectrum
from metasym.discovery.models.gaussian_processes import random_folds
from metasym.discovery.models.polynomials import FittedPolynomial, Support
from metasym.verdicts.discovery_reasons import (
    AffineFunction,
    AnyDiscoveryReason,
    BracketsLeave,
    DependentOutputs,
    EveryDirectionChanges,
    NoClearGap,
    NoDirectionTold,
    SizesOutOfReach,
)

GROUPS = 20
"""Of examples that the jackknife leaves out in turn."""
_POINTS = 5000
"""Examples times outputs that the equations are asked of."""


@dataclass(frozen=True, eq=False)
class Kept:
    """Polynomials that an algebra keeps: ``start + basis @ free`` are the coefficients."""

    start: Array
    basis: Array

    def fit(self, support: Support, x: Array, y: Array) -> Array:
        """Coefficients by least squares over all outputs together."""
        design = support.design(x).reshape(-1, support.size)
        targets = y.reshape(-1) - design @ self.start
        if not self.basis.shape[1]:
            return self.start
        free = np.linalg.lstsq(design @ self.basis, targets, rcond=None)[0]
        return np.asarray(self.start + self.basis @ free)


def jackknifed(support: Support, x: Array, y: Array, generator: np.random.Generator) -> list[Array]:
    """Coefficients, each fitted without a part of the examples."""
    found = []
    for left_out in random_folds(len(x), GROUPS, generator):
        kept = np.ones(len(x), dtype=bool)
        kept[left_out] = False
        found.append(support.fit(x[kept], y[kept]))
    return found


def algebra_of(
    support: Support,
    replicates: Sequence[Array],
    x: Array,
    note: Callable[[str], None] = lambda _: None,
) -> tuple[Array, AnyDiscoveryReason | None]:
    """Pairs ``[d, n+m, n+m+1]`` that a polynomial keeps up to the spread of its coefficients; and why there are none.

    ``replicates`` are its coefficients as estimated from parts of the examples (the same twice: without noise).
    One output stays as it is; several may move. Inputs that the polynomial does not have are left alone.
    """
    used = list(support.inputs)
    n, m, r = x.shape[1], len(support.monomials), len(used)
    empty = np.zeros((0, n + m, n + m + 1))
    if max(len(one) for terms in support.monomials for one in terms) < 2:
        return empty, AffineFunction()
    ambient = _ambient(r, m, len(x) * m // 2)
    if ambient is None:
        return empty, SizesOutOfReach(len(x), r, m)
    number = {old: new for new, old in enumerate(used)}
    small = Support(
        tuple(tuple(tuple(number[i] for i in one) for one in terms) for terms in support.monomials)
    )
    points = x[: max(_POINTS // m, 2 * len(ambient) // m + 1), used]
    seen = pair_spectrum(ambient, [FittedPolynomial(small, one) for one in replicates], points)
    count = seen.quiet()
    gap = seen.gap(count)
    if count == 0:
        return empty, EveryDirectionChanges("polynomial")
    if count == len(seen.signals):
        return empty, NoDirectionTold()
    note(f"{count} of {len(ambient)} directions are quiet, gap {gap:.1f}")
    if gap < CONTINUOUS.gap:
        return empty, NoClearGap(gap, CONTINUOUS.gap)
    found = orthonormal(np.einsum("dk,dij->kij", seen.vectors[:, :count], ambient))
    if len(orthonormal(sides(found, r)[0], CONTINUOUS.dependent_fields)) < count:
        return empty, DependentOutputs()
    if closure_defect(found) > CONTINUOUS.closed_exactly:
        closed = nearest_algebra(found, within=ambient)
        if closed.defect > CONTINUOUS.closed or closed.degrees > CONTINUOUS.farthest:
            return empty, BracketsLeave(count)
        found = orthonormal(closed.fields)
    return _on_all(found, used, n), None


def _ambient(n: int, m: int, most: int) -> Array | None:
    """The space of pairs that is examined: the largest with at most ``most`` unknowns, and not too many."""
    inner: list[tuple[int, Callable[[], Array]]] = [
        (n * (n + 1), lambda: affine(n)),
        (n * (n - 1) // 2, lambda: rotations(n)),
        (2 * n, lambda: shifts_and_scalings(n, np.zeros(n))),
    ]
    outer: list[tuple[int, Callable[[], Array]]] = [(0, lambda: np.zeros((0, m, m + 1)))]
    if m > 1:
        outer.insert(0, (m * (m + 1), lambda: affine(m)))
    for outer_size, outputs in outer:
        for inner_size, inputs in inner:
            if inner_size > 0 and inner_size + outer_size <= min(most, MOST_UNKNOWNS):
                return beside(inputs(), outputs())
    return None


def _on_all(fields: Array, used: list[int], n: int) -> Array:
    """Pairs on some inputs as pairs on all n."""
    m = fields.shape[1] - len(used)
    places = [*used, *range(n, n + m)]
    found = np.zeros((len(fields), n + m, n + m + 1))
    found[np.ix_(range(len(fields)), places, [*places, n + m])] = fields
    return found


def kept_by(fields: Array, support: Support, x: Array) -> Kept:
    """The polynomials with these terms that pairs ``[d, n+m, n+m+1]`` keep, by their values at ``x [points, n]``."""
    n = x.shape[1]
    points = x[: max(200, 2 * support.size)]
    size = np.sqrt((support.design(points) ** 2).sum(1).mean(0)) + 1e-300
    gram = np.zeros((support.size, support.size))
    right = np.zeros(support.size)
    for inner, outer in zip(*sides(fields, n), strict=True):
        first, second = support.broken(inner, outer, points)
        first = first / size
        flat = first.reshape(-1, support.size)
        gram += flat.T @ flat / len(points)
        right += np.einsum("pmk,m->k", first, second) / len(points)
    powers, vectors = np.linalg.eigh(gram)
    # Where the fields keep every term all of it is rounding: sizes are those of the fields, not of what they change.
    moved = float((fields**2).sum())
    null = powers < CONTINUOUS.null**2 * max(float(powers[-1]), moved, 1e-300)
    others = vectors[:, ~null]
    start = others @ ((others.T @ right) / powers[~null]) if others.shape[1] else np.zeros(support.size)
    return Kept(start / size, vectors[:, null] / size[:, None])


def rotations_in(fields: Array, n: int) -> Array:
    """The pairs in the span of ``fields`` that rotate the inputs about 0, as they are measured."""
    inner, _ = sides(fields, n)
    A = inner[:, :, :-1]
    rows = np.concatenate(
        [(A + A.transpose(0, 2, 1)).reshape(len(A), -1), inner[:, :, -1], np.zeros((len(A), len(A)))], axis=1
    )
    basis, sizes, _ = np.linalg.svd(rows)
    null = basis[:, sizes < CONTINUOUS.null * max(float(sizes.max()), float(np.abs(A).max()), 1e-300)]
    return np.asarray(np.einsum("dk,dij->kij", null, fields))
