"""From the algebra of a polynomial to a claim, certified on held-out examples; or refused, with the reason.

The certificate needs no class of models. Let f be the true function, ``y = f(x) + noise`` with noise of mean 0, and
f_bar any symmetric function that was fitted to other examples. The violation is the distance of f from the nearest
symmetric function, so ``violation <= E|f - f_bar|^2 <= E|y - f_bar|^2``. Held-out examples estimate the last: its
upper confidence limit bounds the violation, whatever f is. The bound is sharp only where f_bar leaves almost
nothing, and a claim is made only there (a tenth of the tolerance). A violation that is confined to so few inputs that
no held-out example shows it is not seen; 200 examples show almost certainly what one in forty has.

The bound alone would name near symmetries. Among polynomials with the same terms these show far better: least squares
with the symmetry and without it are compared by an F test on the training examples, and by beta on held-out ones.
Both have to pass. f_bar is the least-squares fit among the polynomials that the algebra keeps.
"""

from __future__ import annotations

import numpy as np
from scipy.special import fdtri, stdtrit

from metasym.certification.beta import beta
from metasym.discovery.algebra.vector_fields import (
    Array,
    angle,
    conjugated,
    orthonormal,
    sides,
)
from metasym.discovery.beta_reasons import against
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.certified_algebras import CertifiedAlgebra, name_of_fields
from metasym.discovery.continuous.equivariance_search import at_round_numbers
from metasym.discovery.continuous.input_constraints import constraint_left
from metasym.discovery.continuous.invariance_claims import ideal_fields
from metasym.discovery.continuous.polynomial_algebra import kept_by, rotations_in
from metasym.discovery.models.local_residuals import largest_residuals
from metasym.discovery.models.polynomials import Support
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    HardlyMatters,
    InputsCarryTooLittle,
    NearSymmetry,
    NotAnAlgebra,
    RefutedBySameTerms,
)

ROUNDING = 1e-14
"""Parts of the variance that coefficients, generators and sums are not more exact than."""


def judge_polynomial(
    fields: Array,
    support: Support,
    train: tuple[Array, Array],
    held_out: tuple[Array, Array],
    generator: np.random.Generator,
    tolerance: float,
    units: Array,
) -> tuple[list[CertifiedAlgebra], tuple[AnyDiscoveryReason, ...]]:
    """What an algebra of pairs supports: all of it that is certified, then its rotations; and the reasons.

    Generators at round numbers, in these coordinates or in the data's (``units [n+m]``), come first, and stay
    unless they are refuted.
    """
    name = name_of_fields(orthonormal(fields))
    best: CertifiedAlgebra | None = None
    why: AnyDiscoveryReason | None = None
    scale = np.diag([*(1 / units), 1.0])  # from the data's units to these
    data = at_round_numbers(orthonormal(conjugated(fields, scale)))
    back = None if data is None else conjugated(data, np.linalg.inv(scale))
    for option in (back, at_round_numbers(fields), fields):
        if option is None:
            continue
        best, why = certified(option, support, train, held_out, name)
        if best is not None:
            fields = option
            break
    if best is None:
        return [], () if why is None else (why,)
    n = train[0].shape[1]
    away = constraint_left(name, sides(fields, n)[0], train[0])
    if away is not None:
        return [], (away,)
    shares = [
        (ideal, share(ideal, support, *train, generator)) for ideal in ideal_fields(orthonormal(fields))
    ]
    enough = [
        ideal for ideal, carried in shares if best.violation_upper <= CONTINUOUS.surely * tolerance * carried
    ]
    if not shares:
        return [], (NotAnAlgebra(name),)
    if max(carried for _, carried in shares) < CONTINUOUS.polynomial_share:
        return [], (HardlyMatters(name),)
    if not enough:
        surely, examples = CONTINUOUS.surely * tolerance, len(train[0]) + len(held_out[0])
        most = surely * max(carried for _, carried in shares)
        return [], (NearSymmetry(name, best.violation_upper, surely, most, examples),)
    left: tuple[AnyDiscoveryReason, ...] = ()
    if len(enough) < len(shares):
        weak = [ideal for ideal, _ in shares if not any(ideal is one for one in enough)]
        left = tuple(InputsCarryTooLittle(name_of_fields(one)) for one in weak)
        best, why = certified(np.concatenate(enough), support, train, held_out, name)
        if best is None:
            return [], () if why is None else (why,)
    turns = rotations_in(best.fields, n)
    whole = at_round_numbers(turns) if len(turns) else None
    turns = turns if whole is None or angle(turns, whole) > CONTINUOUS.same_space else whole
    if not 0 < len(turns) < len(best.fields):
        return [best], left
    # A subalgebra keeps what the whole keeps.
    part = CertifiedAlgebra(name_of_fields(orthonormal(turns)), turns, best.beta, best.violation_upper)
    return [best, part], left


def certified(
    fields: Array,
    support: Support,
    train: tuple[Array, Array],
    held_out: tuple[Array, Array],
    name: str = "",
) -> tuple[CertifiedAlgebra | None, AnyDiscoveryReason | None]:
    """The algebra with its bound; None where it is refuted, and by what. ``name`` is what a refusal calls it."""
    (x, y), (x_new, y_new) = train, held_out
    kept = kept_by(fields, support, x)
    symmetric, free = kept.fit(support, x, y), support.fit(x, y)
    variance = float(((y - y.mean(0)) ** 2).sum())
    left, least = (
        float(((y - support.values(c, x)) ** 2).sum()) + ROUNDING * variance for c in (symmetric, free)
    )
    bound, spare = support.size - kept.basis.shape[1], y.size - support.size
    ratio = (left - least) / max(bound, 1) / (least / spare)
    if bound and ratio > float(fdtri(bound, spare, CONTINUOUS.polynomial_level)):
        return None, RefutedBySameTerms(name, ratio)
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    rest = y_new - support.values(symmetric, x_new)
    found = beta(rest, support.values(free, x_new) - support.values(symmetric, x_new), variance)
    if found.contradicts:
        return None, against(name, found)
    squares = (rest**2).sum(1) / variance
    reach = (
        float(stdtrit(len(squares) - 1, CONTINUOUS.polynomial_level))
        * float(squares.std(ddof=1))
        / len(squares) ** 0.5
    )
    # A violation in few places may be among the examples that were fitted, too.
    every = np.concatenate([rest, y - support.values(symmetric, x)])
    local = largest_residuals(every, np.ones_like(every), np.concatenate([y_new, y]))
    violation = max(float(squares.mean()) + reach, local.upper, ROUNDING)
    return CertifiedAlgebra(name_of_fields(orthonormal(fields)), fields, found, violation), None


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
