"""Continuous symmetries of one function: from all fields of an ambient algebra down to those that the data keep.

A model that knows nothing sees only the largest effects, so that the first algebra may be too large. Its invariants
then explain most of the data, and what they leave is small enough to be looked at again, inside the algebra.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from metasym.discovery.algebra.nearest_algebra import nearest_algebra
from metasym.discovery.algebra.polynomial_invariants import (
    invariants,
    lengths,
    moved_polynomials,
    rounded,
    separated,
    stabiliser,
)
from metasym.discovery.algebra.vector_fields import (
    Array,
    affine,
    moved_by,
    rotations,
    shifts_and_scalings,
    values,
)
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.algebra_alignment import refine
from metasym.discovery.continuous.generator_spectrum import Spectrum, spectrum
from metasym.discovery.continuous.idle_directions import translations
from metasym.discovery.models.gaussian_processes import (
    Hyper,
    choose_kernel,
    jackknife,
    random_folds,
    squares,
)
from metasym.discovery.models.invariant_features import (
    KINDS,
    SymmetricFit,
    definite,
    products,
    symmetric_fit,
    with_rest,
)
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    BracketsLeave,
    EveryDirectionChanges,
    FewDirectionsTold,
    NoClearGap,
    NoDirectionTold,
    NumberOfInvariants,
    SearchDidNotEnd,
)
from metasym.verdicts.discovery_words import refusal_words

GROUPS = 8
"""Of examples that the jackknife leaves out in turn."""
LEVELS = 6
"""Times that an algebra is searched for inside the one before it."""
ROTATIONS = "rotations"
TRANSLATIONS = "translations"
MOST_INVARIANTS = 12
"""Invariants up to which a function of them is fitted."""
MOST_AFFINE = 16
"""Inputs up to which affine maps are examined: the memory grows with their fourth power."""
MOST_ROTATED = 40
"""The same for rotations, which are half as many."""
MOST_SHIFTED = 64
"""Inputs up to which translations and scalings are examined: the memory of closing grows with their fourth power."""


@dataclass(frozen=True, eq=False)
class Level:
    """One look at the data: how many fields were asked, how many are quiet, and how clearly."""

    asked: int
    quiet: int
    gap: float
    degrees: float


@dataclass(frozen=True, eq=False)
class Candidate:
    """An algebra that the training data keep, in the coordinates of the search."""

    ambient: str
    fields: Array
    """``[d, n, n+1]``, orthonormal; none where the search found none."""
    polynomials: Array
    """Its invariants."""
    fit: SymmetricFit | None
    rest: Hyper | None
    """The kernel with a part for what the symmetry leaves."""
    levels: list[Level] = field(default_factory=list)
    reason: AnyDiscoveryReason | None = None
    """Why there is none."""
    asked: bool = False
    """Whether it was a hypothesis, at round numbers, and not placed where it fits best."""


def plain_fit(x: Array, y: Array, generator: np.random.Generator) -> Hyper:
    """The model that knows nothing: a kernel on the coordinates ``x [examples, n]``."""
    n = x.shape[1]
    size = float(np.mean((x**2).sum(1)))
    starts = [squares(n, 0.1, n**0.5, 1 / size**2), squares(n, 1.0, 3 * n**0.5, 0.1 / size**2)]
    return choose_kernel(x, y, starts, 1e-2, generator)


def ambients(x: Array) -> dict[str, Array]:
    """The spaces of fields that are examined, by name."""
    n = x.shape[1]
    found = {}
    if 2 <= n <= MOST_ROTATED:
        found[ROTATIONS] = rotations(n)
    if 2 <= n <= MOST_SHIFTED:
        found[TRANSLATIONS] = translations(n)
    if 2 <= n <= MOST_AFFINE:
        found["affine"] = affine(n)
    elif n <= MOST_SHIFTED:
        found["translations and scalings"] = shifts_and_scalings(n, np.zeros(n))
    return found


def search(
    name: str,
    ambient: Array,
    x: Array,
    y: Array,
    plain: Hyper,
    generator: np.random.Generator,
    note: Callable[[str], None] = lambda _: None,
) -> Candidate:
    """The algebra inside ``ambient`` that ``y [examples, outputs]`` keeps as a function of ``x [examples, n]``."""
    n = x.shape[1]
    empty = np.zeros((0, n, n + 1))
    levels: list[Level] = []

    def none(reason: AnyDiscoveryReason) -> Candidate:
        note(f"{name}: {refusal_words(reason)}")
        return Candidate(name, empty, empty, None, None, levels, reason)

    inside, hyper, inputs = ambient, plain, x
    polynomials: Array = empty
    for _ in range(LEVELS):
        seen = _generator_signals(inside, hyper, inputs, x, y, generator)
        count = seen.quiet()
        gap = seen.gap(count)
        if count == 0:
            return none(EveryDirectionChanges())
        if count == len(seen.signals):
            return none(NoDirectionTold())
        enough = CONTINUOUS.gap_inside if levels and name == ROTATIONS else CONTINUOUS.gap
        if gap < enough:
            return none(NoClearGap(gap, enough))
        # Each number of y is one equation; where these are too few, directions are quiet for any function.
        if len(seen.signals) - count >= y.size:
            return none(FewDirectionsTold(len(seen.signals) - count))
        closed = nearest_algebra(np.einsum("dk,dij->kij", seen.vectors[:, :count], inside))
        levels.append(Level(len(inside), count, gap, closed.degrees))
        note(f"{name}: {count} of {len(inside)} directions are quiet, gap {gap:.1f}")
        if not closed.is_algebra or closed.degrees > CONTINUOUS.farthest:
            return none(BracketsLeave(count))
        found = invariants(closed.fields)
        if name == ROTATIONS:  # lengths and cosines fit better than combinations of them
            found = separated(found, polynomials) if levels[1:] else lengths(found)
        polynomials = found
        if not 0 < len(polynomials) <= MOST_INVARIANTS:
            return none(NumberOfInvariants(count, len(polynomials)))
        # Translations commute: where they point is a choice among all linear maps.
        movers = affine(n) if name == TRANSLATIONS and n <= MOST_AFFINE else ambient
        inside, polynomials = _placed(closed.fields, polynomials, ambient, movers, x, y, generator)
        fit = symmetric_fit(polynomials, x, y, generator)
        hyper, inputs = with_rest(fit, x, y, generator), fit.inputs(x)
        if hyper.evidence - fit.hyper.evidence < CONTINUOUS.evidence:
            return Candidate(name, inside, polynomials, fit, hyper, levels)
    return none(SearchDidNotEnd())


def _generator_signals(
    inside: Array, hyper: Hyper, inputs: Array, x: Array, y: Array, generator: np.random.Generator
) -> Spectrum:
    """The spectrum of the fields ``inside``, for the part of the model that looks at the raw coordinates."""
    n = x.shape[1]
    directions = values(inside, x)
    replicates = []
    for fit in jackknife(hyper, inputs, y, random_folds(len(x), GROUPS, generator)):
        slopes = fit.jacobian(inputs, n)
        replicates.append(np.einsum("pmi,pdi->pmd", slopes, directions).reshape(-1, len(inside)))
    return spectrum(replicates)


def _placed(
    fields: Array,
    polynomials: Array,
    ambient: Array,
    movers: Array,
    x: Array,
    y: Array,
    generator: np.random.Generator,
) -> tuple[Array, Array]:
    """The algebra where it fits best, moved by ``movers``; at round numbers if these fit nearly as well as any."""
    moved = _moved(fields, polynomials, movers, x, y, generator, ("plain",))
    simple = rounded(moved[1])
    kept = stabiliser(simple, ambient)
    if len(kept) != len(fields) or len(invariants(kept)) != len(simple):
        return _moved(*moved, movers, x, y, generator, KINDS)
    penalty = 0.5 * np.log(len(x)) * len(movers)
    if _explained(simple, x, y, generator) > _explained(moved[1], x, y, generator) - penalty:
        return kept, simple
    return _moved(*moved, movers, x, y, generator, KINDS)


def _moved(
    fields: Array,
    polynomials: Array,
    ambient: Array,
    x: Array,
    y: Array,
    generator: np.random.Generator,
    kinds: tuple[str, ...],
) -> tuple[Array, Array]:
    """The algebra and its invariants where functions of the likeliest kind of features fit best."""
    start = symmetric_fit(polynomials, x, y, generator, kinds)
    kernel, kind = start.hyper.kernel.kernel, start.features.kind
    lengths = definite(polynomials) if kind != "plain" else []
    matrix = refine(
        polynomials,
        ambient,
        x,
        y,
        np.broadcast_to(kernel.k2.length_scale, len(polynomials)),
        float(kernel.k1.constant_value),
        start.hyper.noise,
        roots=lengths,
        cosines=products(polynomials, lengths) if kind == "cosines" else None,
    )
    return moved_by(fields, matrix), moved_polynomials(polynomials, matrix)


def _explained(polynomials: Array, x: Array, y: Array, generator: np.random.Generator) -> float:
    """The evidence of a function of the invariants with anything else beside it."""
    seed = int(generator.integers(2**31))
    fit = symmetric_fit(polynomials, x, y, np.random.default_rng(seed), kinds=("plain",))
    return with_rest(fit, x, y, np.random.default_rng(seed), starts=1).evidence
