"""From the algebra of a polynomial to a claim, certified on held-out examples; or refused, with the reason.

The certificate needs no class of models. Let f be the true function, ``y = f(x) + noise`` with noise of mean 0, and
f_bar any symmetric function that was fitted to other examples. The violation is the distance of f from the nearest
symmetric function, so ``violation <= E|f - f_bar|^2 <= E|y - f_bar|^2``. Held-out examples estimate the last: its
upper confidence limit bounds the violation, whatever f is. The bound is sharp only where f_bar leaves next to
nothing, and a claim is made only there (a tenth of the tolerance). A violation that is confined to so few inputs that
no held-out example shows it is not seen; 200 examples nearly surely show what one in forty has.

The bound alone would name near symmetries. Among polynomials with the same terms these show far better: least squares
with the symmetry and without it are compared by an F test on the training examples, and by beta on held-out ones.
Both have to pass. f_bar is the least-squares fit among the polynomials that the algebra keeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import fdtri, stdtrit

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import (
    Array,
    angle,
    conjugated,
    moved_inputs,
    orthonormal,
    sides,
    written,
)
from metasym.discovery.continuous.equivariance_search import at_round_numbers
from metasym.discovery.continuous.input_constraints import leads_away
from metasym.discovery.continuous.invariance_claims import NOT_CLOSED, SURELY, ideal_fields, name_of_fields
from metasym.discovery.continuous.polynomial_algebra import Kept, kept_by, rotations_in
from metasym.discovery.models.polynomials import Support

ROUNDING = 1e-14
"""Parts of the variance that coefficients, generators and sums are not more exact than."""
_LEVEL = 0.99
_NOTHING = 1e-6
"""A part of the variance that is none."""
_SAME_SPACE = 1e-4
"""Degrees."""


@dataclass(frozen=True, eq=False)
class PolynomialClaim:
    """A symmetry of a polynomial, in the coordinates of the fit."""

    name: str
    fields: Array
    """``[d, n+m, n+m+1]``"""
    kept: Kept
    """The polynomials that it keeps."""
    beta: Beta
    violation_upper: float
    """As a part of the variance of y."""

    def part(self, fields: Array) -> PolynomialClaim:
        """A subalgebra, which keeps what the whole keeps."""
        return PolynomialClaim(
            name_of_fields(orthonormal(fields)), fields, self.kept, self.beta, self.violation_upper
        )

    def as_dict(self, inner: Array, outer: Array, units: tuple[Array, Array]) -> dict[str, Any]:
        """Plain types, for ``result.json``; generators of inputs and outputs in the data's coordinates and units."""
        outputs = list(moved_inputs(outer, units[1]))
        found: dict[str, Any] = {
            "kind": "continuous",
            "name": self.name,
            "dimension": len(self.fields),
            "inputs": list(moved_inputs(inner, units[0])),
            "generators": written(inner, units[0]),
            "violation_upper": self.violation_upper,
            "beta": self.beta.value,
            "beta_ci": [self.beta.low, self.beta.high],
        }
        if outputs:
            found["outputs"] = outputs
            found["output_generators"] = written(outer, units[1])
        return found


def judge_polynomial(
    fields: Array,
    support: Support,
    train: tuple[Array, Array],
    held_out: tuple[Array, Array],
    generator: np.random.Generator,
    tolerance: float,
    units: Array,
) -> tuple[list[PolynomialClaim], str]:
    """What an algebra of pairs supports: all of it that is certified, then its rotations; and the reason in words.

    Generators at round numbers, in these coordinates or in the data's (``units [n+m]``), come first, and stay
    unless they are refuted.
    """
    name = name_of_fields(orthonormal(fields))
    best: PolynomialClaim | None = None
    why = ""
    scale = np.diag([*(1 / units), 1.0])  # from the data's units to these
    data = at_round_numbers(orthonormal(conjugated(fields, scale)))
    back = None if data is None else conjugated(data, np.linalg.inv(scale))
    for option in (back, at_round_numbers(fields), fields):
        if option is None:
            continue
        best, why = certified(option, support, train, held_out)
        if best is not None:
            fields = option
            break
    if best is None:
        return [], f"{name} {why}"
    n = train[0].shape[1]
    away = leads_away(sides(fields, n)[0], train[0])
    if away:
        return [], f"{name} {away}"
    shares = [
        (ideal, share(ideal, support, *train, generator)) for ideal in ideal_fields(orthonormal(fields))
    ]
    enough = [ideal for ideal, carried in shares if best.violation_upper <= SURELY * tolerance * carried]
    if not shares:
        return [], NOT_CLOSED.format(name)
    if max(carried for _, carried in shares) < _NOTHING:
        return [], f"{name} moves only what the function does not depend on"
    if not enough:
        return [], (
            f"{name} cannot be told from a near symmetry: the data allow a violation of {best.violation_upper:.2g} "
            f"of the variance, more than {SURELY * tolerance:g} of what its inputs carry"
        )
    left = ""
    if len(enough) < len(shares):
        weak = [ideal for ideal, _ in shares if not any(ideal is one for one in enough)]
        left = f"; not claimed, its inputs carry too little: {', '.join(map(name_of_fields, weak))}"
        best, why = certified(np.concatenate(enough), support, train, held_out)
        if best is None:
            return [], f"{name} {why}"
    turns = rotations_in(best.fields, n)
    whole = at_round_numbers(turns) if len(turns) else None
    turns = turns if whole is None or angle(turns, whole) > _SAME_SPACE else whole
    parts = [best.part(turns)] if 0 < len(turns) < len(best.fields) else []
    return [best, *parts], f"{best.name} is kept{left}"


def certified(
    fields: Array, support: Support, train: tuple[Array, Array], held_out: tuple[Array, Array]
) -> tuple[PolynomialClaim | None, str]:
    """The claim with its bound; None where it is refuted, and by what."""
    (x, y), (x_new, y_new) = train, held_out
    kept = kept_by(fields, support, x)
    symmetric, free = kept.fit(support, x, y), support.fit(x, y)
    variance = float(((y - y.mean(0)) ** 2).sum())
    left, least = (
        float(((y - support.values(c, x)) ** 2).sum()) + ROUNDING * variance for c in (symmetric, free)
    )
    bound, spare = support.size - kept.basis.shape[1], y.size - support.size
    ratio = (left - least) / max(bound, 1) / (least / spare)
    if bound and ratio > float(fdtri(bound, spare, _LEVEL)):
        return None, f"is refuted by polynomials with the same terms that do not have it (F = {ratio:.3g})"
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    rest = y_new - support.values(symmetric, x_new)
    found = beta(rest, support.values(free, x_new) - support.values(symmetric, x_new), variance)
    if found.refutes:
        interval = f"beta {found.value:.2g} ({found.low:.2g} to {found.high:.2g})"
        return None, f"is refuted on held-out data: {interval}"
    squares = (rest**2).sum(1) / variance
    reach = float(stdtrit(len(squares) - 1, _LEVEL)) * float(squares.std(ddof=1)) / len(squares) ** 0.5
    violation = max(float(squares.mean()) + reach, ROUNDING)
    return PolynomialClaim(name_of_fields(orthonormal(fields)), fields, kept, found, violation), ""


def share(fields: Array, support: Support, x: Array, y: Array, generator: np.random.Generator) -> float:
    """The part of the polynomial's variance that the inputs carry which the fields move (a total Sobol index)."""
    n = x.shape[1]
    inner, _ = sides(fields, n)
    if not np.abs(inner).max() > 1e-9:
        return 0.0
    directions = orthonormal(inner.transpose(0, 2, 1).reshape(-1, 1, n))[:, 0]
    coefficients = support.fit(x, y)
    other = x[generator.permutation(len(x))]
    mixed = x + (other - x) @ directions.T @ directions
    change = support.values(coefficients, mixed) - support.values(coefficients, x)
    return min(1.0, float(0.5 * (change**2).sum(1).mean() / ((y - y.mean(0)) ** 2).sum(1).mean()))
