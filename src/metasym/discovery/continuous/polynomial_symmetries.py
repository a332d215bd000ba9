"""A polynomial with few terms as the first model: where it leaves almost nothing it decides about symmetries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasym.discovery.algebra.vector_fields import Array, conjugated, sides
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.certified_algebras import CertifiedAlgebra
from metasym.discovery.continuous.coefficient_ties import with_tied_sizes
from metasym.discovery.continuous.equivariance_symmetries import Outputs, independent_outputs, lifted
from metasym.discovery.continuous.polynomial_algebra import Kept, algebra_of, jackknifed, kept_by
from metasym.discovery.continuous.polynomial_claims import ROUNDING, judge_polynomial
from metasym.discovery.models.fitted_module import State, polynomial_state
from metasym.discovery.models.function_models import ComparedBy
from metasym.discovery.models.gaussian_processes import Hyper, out_of_fold, random_folds
from metasym.discovery.models.polynomial_recovery import recover
from metasym.discovery.models.polynomials import Support, all_monomials, columns
from metasym.discovery.models.preprocessing import Prepared
from metasym.discovery.models.shared_units import Coordinates, coordinates
from metasym.discovery.search_findings import Findings
from metasym.discovery.search_settings import Memory, Note, SearchSettings
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason

STAGE = "polynomial"
SPACE = "polynomials"
_FOLDS = 5
"""Of cross-validation."""


@dataclass(frozen=True, eq=False)
class PolynomialModel:
    """Polynomials with the terms of ``support``; with ``kept`` those of them that a symmetry keeps."""

    prepared: Prepared
    place: Coordinates
    """Of the used inputs: about the data's own zero, where monomials are fewest."""
    outputs: Outputs
    support: Support
    kept: Kept | None = None
    symmetry: Claim | None = None
    compared_by: ComparedBy = ComparedBy.NOTHING
    evidence: float = math.nan

    def inputs(self, x: Array) -> Array:
        """Prepared inputs in the coordinates of the polynomial."""
        return _placed(x, self.prepared, self.place)

    def fit(self, x: Array, y: Array) -> Array:
        """Coefficients, from prepared examples."""
        points, targets = self.inputs(x), self.outputs(y)
        if self.kept is None:
            return self.support.fit(points, targets)
        return self.kept.fit(self.support, points, targets)

    def predict(self, fit: Array, x: Array) -> Array:
        """``[points, m]``, in prepared units."""
        found = self.outputs.data(self.support.values(fit, self.inputs(x)))
        return np.asarray((found - self.outputs.offset) / self.outputs.unit)

    def state(self, fit: Array, shape: tuple[int, ...]) -> State:
        """What defines the module."""
        every = sorted({one for terms in self.support.monomials for one in terms})
        found = np.zeros((len(every), len(self.support.monomials)))
        for k, (terms, part) in enumerate(zip(self.support.monomials, self.support.parts(fit), strict=True)):
            for one, value in zip(terms, part, strict=True):
                found[every.index(one), k] = value
        weights = (found * self.outputs.place.scale) @ self.outputs.lift
        zero = self.outputs.data(np.zeros((1, found.shape[1])))[0]
        return polynomial_state(self.place, self.prepared.inputs, every, weights, zero, shape)


def polynomial_in(
    prepared: Prepared, plain: Hyper, options: SearchSettings, note: Note, memory: Memory
) -> tuple[Findings, PolynomialModel | None, PolynomialModel | None]:
    """What is claimed of a polynomial and what is not; the plain polynomial, and the one with the symmetry.

    No polynomial: it leaves too much, or out of fold more than a Gaussian process does.
    """
    outputs = _outputs(prepared)
    if outputs is None or not prepared.inputs:
        return Findings(), None, None
    place = _place(prepared)
    x, y = _placed(prepared.train[0], prepared, place), outputs(prepared.train[1])

    def look() -> dict[str, Any]:
        note("searching for a polynomial with few terms")
        support = _first_model(x, y, prepared, plain, options, note)
        if support is None:
            return Findings().to_stage()
        draw = np.random.default_rng([options.seed, 7])
        held_out = _placed(prepared.held_out[0], prepared, place), outputs(prepared.held_out[1])
        units = np.concatenate([place.scale, outputs.place.scale])
        reasons: tuple[AnyDiscoveryReason, ...] = ()
        for terms, replicates in _coefficients(support, x, y, units, draw):
            certified: list[CertifiedAlgebra] = []
            fields, reason = algebra_of(terms, replicates, x, note)
            reasons = () if reason is None else (reason,)
            if len(fields):
                certified, reasons = judge_polynomial(
                    fields, terms, (x, y), held_out, draw, options.tolerance, units
                )
            if certified:
                claims = tuple(_claim(one, prepared, place, outputs) for one in certified)
                found = Findings.of("continuous", SPACE, claims, reasons)
                return found.to_stage(supports=_listed(terms), pairs=certified[0].fields.tolist())
        return Findings.of("continuous", SPACE, (), reasons).to_stage(supports=_listed(support))

    stage = memory(STAGE, look)
    if "supports" not in stage:
        return Findings(), None, None
    found = Findings.from_stage(stage)
    note(f"{STAGE}: {found.words}")
    support = Support(tuple(tuple(tuple(one) for one in terms) for terms in stage["supports"]))
    model = PolynomialModel(prepared, place, outputs, support)
    if not found.claims:
        return found, model, None
    kept = kept_by(np.array(stage["pairs"]), support, x)
    return found, model, PolynomialModel(prepared, place, outputs, support, kept, found.claims[0])


def _claim(found: CertifiedAlgebra, prepared: Prepared, place: Coordinates, outputs: Outputs) -> Claim:
    inner, outer = sides(found.fields, len(place.scale))
    back = prepared.on_all(conjugated(inner, place.matrix))
    return found.claim(back, prepared.units, lifted(outer, outputs), prepared.output_units)


def _first_model(
    x: Array, y: Array, prepared: Prepared, plain: Hyper, options: SearchSettings, note: Note
) -> Support | None:
    """The polynomial, where examples that it was not fitted to show it to be almost exact, and the better model."""
    if not _in_general_position(x):
        return None
    enough = CONTINUOUS.surely * options.tolerance
    support = recover(x, y, enough)
    if support is None:
        return None
    groups = random_folds(len(x), _FOLDS, np.random.default_rng([options.seed, 8]))
    errors = np.empty_like(y)
    for left_out in groups:
        kept = np.ones(len(x), dtype=bool)
        kept[left_out] = False
        coefficients = support.fit(x[kept], y[kept])
        errors[left_out] = y[left_out] - support.values(coefficients, x[left_out])
    each = (errors**2).mean(0) / y.var(0)
    inputs, targets = prepared.train
    smooth = float(((out_of_fold(plain, inputs, targets, groups) - targets) ** 2).mean())
    note(
        f"a polynomial of {support.size} terms leaves {each.max():.2g} of the variance out of fold, a Gaussian "
        f"process {smooth:.2g}"
    )
    return support if each.max() <= enough and each.mean() < smooth else None


def _coefficients(
    support: Support, x: Array, y: Array, units: Array, generator: np.random.Generator
) -> Iterator[tuple[Support, list[Array]]]:
    """Coefficients in which symmetries are searched for: with noise first those of tied sizes, then as they are.

    Terms that are within errors of 0, given that the largest of thousands were taken, are left out with the ties.
    """
    fitted = support.fit(x, y)
    left = ((y - support.values(fitted, x)) ** 2).mean(0) / y.var(0)
    if left.max() > ROUNDING:
        n = x.shape[1]
        scales = np.array(
            [
                units[n + k] / np.prod(units[list(one)])
                for k, terms in enumerate(support.monomials)
                for one in terms
            ]
        )
        exact = with_tied_sizes(support, fitted, support.errors(fitted, x, y), scales)
        real = [part != 0 for part in support.parts(exact)]
        if all(one.any() for one in real):
            terms = Support(
                tuple(
                    tuple(one for one, ok in zip(terms, kept, strict=True) if ok)
                    for terms, kept in zip(support.monomials, real, strict=True)
                )
            )
            yield terms, [exact[exact != 0]] * 2
    yield support, jackknifed(support, x, y, generator)


def _listed(support: Support) -> list[list[list[int]]]:
    return [[list(one) for one in terms] for terms in support.monomials]


def _in_general_position(x: Array) -> bool:
    """Whether no polynomial of degree 2 (or 1, with many inputs) is 0 on all examples: fields would be ambiguous."""
    n = x.shape[1]
    degree = 2 if 2 * (n + 1) * (n + 2) // 2 <= len(x) else 1
    design = columns(x, all_monomials(n, degree))
    if design.shape[1] > len(x):
        return False
    sizes = np.linalg.svd(design / np.sqrt((design**2).mean(0)), compute_uv=False)
    return bool(sizes[-1] > 1e-6 * sizes[0])


def _place(prepared: Prepared) -> Coordinates:
    return _uncentred(prepared.place, prepared.train[0] * prepared.place.scale + prepared.place.centre)


def _uncentred(place: Coordinates, x: Array) -> Coordinates:
    """About the data's own zero where the means are not too far from it."""
    near = np.abs(x.mean(0)) <= CONTINUOUS.own_zero * x.std(0)
    return Coordinates(np.where(near, 0.0, place.centre), place.scale)


def _placed(x: Array, prepared: Prepared, place: Coordinates) -> Array:
    return place(x * prepared.place.scale + prepared.place.centre)


def _outputs(prepared: Prepared) -> Outputs | None:
    y = prepared.train[1] * prepared.unit + prepared.offset
    kept = independent_outputs(y)
    if not kept:
        return None
    lift: Array = np.linalg.lstsq(np.c_[y[:, kept], np.ones(len(y))], y, rcond=None)[0].astype(np.float64)
    place = _uncentred(coordinates(y[:, kept]), y[:, kept])
    return Outputs(tuple(kept), place, lift[:-1], lift[-1], prepared.offset, prepared.unit)
