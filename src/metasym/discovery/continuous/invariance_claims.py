"""From a candidate to a claim: certified on held-out data, bounded, named; or refused, with the reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.special import stdtrit

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import Array, orthonormal, squared
from metasym.discovery.beta_reasons import against
from metasym.discovery.claim_thresholds import CONTINUOUS, TOLERANCE
from metasym.discovery.continuous.certified_algebras import CertifiedAlgebra, name_of_fields
from metasym.discovery.continuous.idle_directions import along, apart, worth_a_name
from metasym.discovery.continuous.input_constraints import constraint_left
from metasym.discovery.continuous.invariance_search import Candidate
from metasym.discovery.continuous.violation_bound import largest_hidden_violation
from metasym.discovery.models.gaussian_processes import LEAST_NOISE, Hyper, Posterior, posterior, squares
from metasym.discovery.models.invariant_features import SymmetricFit
from metasym.discovery.models.local_residuals import LocalResiduals, local_residuals
from metasym.discovery.models.preprocessing import Prepared
from metasym.groups.lie_algebra import LieAlgebra, ideals, radical
from metasym.types import MetasymError
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    FewRowsDiffer,
    HardlyMatters,
    InputsCarryTooLittle,
    NearSymmetry,
    NotAnAlgebra,
    NotShownToBeNoise,
)

MOST_LOCAL = 900
"""Examples that are examined one by one: the cost grows with the cube."""


def certificate(
    candidate: Candidate, train: tuple[Array, Array], held_out: tuple[Array, Array]
) -> tuple[Beta, float]:
    """Beta on held-out examples, and the largest violation that train and held-out data together allow."""
    fit, rest = candidate.fit, candidate.rest
    assert fit is not None
    assert rest is not None
    (x, y), (x_new, y_new) = train, held_out
    symmetric = fit.fit(x, y)
    # A part that breaks the symmetry has to be there to be judged: at least as strong as the noise.
    breaking = _breaking(fit, rest, x, y)
    a, a_new = breaking(x), breaking(x_new)
    own = fit.fit(x, a)  # what of it is symmetric after all
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    found = beta(y_new - symmetric(fit.inputs(x_new)), a_new - own(fit.inputs(x_new)), variance)
    every = np.concatenate([x_new, x]), np.concatenate([y_new, y])
    return found, max(found.violation_upper, largest_hidden_violation(fit, *every))


def _breaking(fit: SymmetricFit, rest: Hyper, x: Array, y: Array) -> Any:
    """The function that a flexible model adds to the symmetric one."""
    n = x.shape[1]
    noise = max(rest.noise, fit.hyper.noise, 1e-6)
    size = float(np.mean((x**2).sum(1)))
    kernel = squares(n, noise, n**0.5, noise / size**2)
    whole: Posterior = posterior(Hyper(fit.hyper.kernel + kernel, noise, 0.0), fit.inputs(x), y)
    only = Posterior(kernel, whole.inputs, whole.weights, np.zeros(y.shape[1]))

    def breaking(points: Array) -> Array:
        return only(fit.inputs(points))

    return breaking


def _left_over(fit: SymmetricFit, plain: Hyper, prepared: Prepared) -> tuple[float, float, float]:
    """What the symmetric model leaves of the variance of held-out examples, its upper bound; what a plain one leaves.

    The distance to the nearest symmetric function is no larger than that to any, so that the upper bound holds for
    every violation, smooth or not.
    """
    (x, y), (x_new, y_new) = prepared.train, prepared.held_out
    variance = float(((y_new - y.mean(0)) ** 2).mean())
    found = fit.fit(x, y)(fit.inputs(x_new)), posterior(plain, x, y)(x_new)
    first, floor = (((one - y_new) ** 2).mean(1) / variance for one in found)
    reach = (
        float(stdtrit(len(first) - 1, CONTINUOUS.left_level)) * float(first.std(ddof=1)) / len(first) ** 0.5
    )
    return float(first.mean()), float(first.mean()) + reach, float(floor.mean())


def _local(fit: SymmetricFit, prepared: Prepared) -> LocalResiduals:
    """Examples that are far from what the others say, among functions that the symmetry keeps."""
    x, y = (
        np.concatenate(parts)[:MOST_LOCAL] for parts in zip(prepared.held_out, prepared.train, strict=True)
    )
    noise = max(fit.hyper.noise, LEAST_NOISE)
    return local_residuals(fit.hyper.kernel(fit.inputs(x)), noise, y - y.mean(0), 1)


def unexplained(left_over: float, floor: float) -> float:
    """What a symmetric model leaves of held-out examples, 0 where one that knows nothing comes to that floor too."""
    return 0.0 if floor <= CONTINUOUS.floor * left_over else left_over


def ideal_fields(fields: Array) -> list[Array]:
    """The algebra as a list of ideals: the simple ones, and the radical; all of it where it is no such sum.

    None where brackets leave the fields farther than rounding takes them: the search ends near an algebra, and what
    is moved to where functions fit best may be a little off it.
    """
    try:
        algebra = LieAlgebra(torch.from_numpy(squared(fields)))
    except MetasymError:
        return []
    simple, _ = ideals(algebra)
    spaces = [*simple]
    outer = radical(algebra)
    if len(outer):
        spaces.append(outer)
    if sum(len(space) for space in spaces) != len(fields):
        return [fields]
    return [orthonormal(np.einsum("kd,dij->kij", space, fields)) for space in spaces]


def share(fields: Array, fit: SymmetricFit, x: Array, y: Array, generator: np.random.Generator) -> float:
    """The part of the model's variance that the inputs carry which the fields move (a total Sobol index)."""
    n = x.shape[1]
    directions = orthonormal(fields[:, :, :].transpose(0, 2, 1).reshape(-1, 1, n))[:, 0]
    model = fit.fit(x, y)
    other = x[generator.permutation(len(x))]
    mixed = x + (other - x) @ directions.T @ directions
    change = model(fit.inputs(mixed)) - model(fit.inputs(x))
    return min(1.0, float(0.5 * (change**2).sum(1).mean() / ((y - y.mean(0)) ** 2).sum(1).mean()))


def judge(
    candidate: Candidate,
    prepared: Prepared,
    plain: Hyper,
    generator: np.random.Generator,
    tolerance: float = TOLERANCE,
) -> tuple[Claim | None, tuple[AnyDiscoveryReason, ...]]:
    """The claim that a candidate supports, or None; and the reasons: of all of it, or of parts that are not claimed.

    Ideals whose inputs carry too little of the variance for the bound to say anything about them are not claimed.
    The bound knows smooth functions. What the symmetric model leaves may be a rougher violation, unless it is almost
    nothing or a model that knows nothing comes to the same floor: then it is noise.
    """
    if candidate.fit is None or not len(candidate.fields):
        return None, () if candidate.reason is None else (candidate.reason,)
    directions, others = apart(candidate.fields, candidate.polynomials)
    name = name_of_fields(np.concatenate([others, along(directions)]))
    away = constraint_left(name, candidate.fields, prepared.train[0])
    if away is not None:
        return None, (away,)
    found, violation = certificate(candidate, prepared.train, prepared.held_out)
    if found.contradicts:
        return None, (against(name, found),)
    left_over, most_left, floor = _left_over(candidate.fit, plain, prepared)
    rough = unexplained(left_over, floor)
    unknown = rough / CONTINUOUS.surely
    if candidate.asked and rough:  # at round numbers, not where it fits best: no near one passes for it
        rough = unknown = most_left
    if unknown > tolerance:
        return None, (NotShownToBeNoise(name, rough, floor),)
    violation = max(violation, rough)
    parts = _parts(others, directions, candidate.fit, prepared, generator)
    if not parts:
        return None, (NotAnAlgebra(name),)
    local = _local(candidate.fit, prepared)
    most = max(carried for _, carried in parts)
    whole = max(violation, unknown)
    kept = [fields for fields, carried in parts if max(whole, local.upper) <= tolerance * carried]
    if not kept and most < CONTINUOUS.hardly:
        return None, (HardlyMatters(name, most),)
    if not kept and whole <= tolerance * most:
        listed = tuple(int(prepared.order[i]) for i in local.rows[:10])
        return None, (FewRowsDiffer(name, listed, len(local.rows), local.share, local.upper, tolerance),)
    if not kept:
        examples = len(prepared.train[0]) + len(prepared.held_out[0])
        return None, (NearSymmetry(name, max(whole, local.upper), tolerance, tolerance * most, examples),)
    fields = prepared.whole(np.concatenate(kept))
    # Named in these coordinates: in the data's units, which may differ by a million, entries would pass for 0.
    name = name_of_fields(orthonormal(np.concatenate(kept)))
    certified = CertifiedAlgebra(name, fields, found, max(violation, local.upper))
    weak = [one for one, carried in parts if max(whole, local.upper) > tolerance * carried]
    claim = replace(certified.claim(fields, prepared.units), rows_upper=local.share_upper)
    return claim, tuple(InputsCarryTooLittle(name_of_fields(one)) for one in weak)


def _parts(
    others: Array, directions: Array, fit: SymmetricFit, prepared: Prepared, generator: np.random.Generator
) -> list[tuple[Array, float]]:
    """Ideals, each with what the inputs that it moves carry: those of ``others``, and translations.

    None where brackets of ``others`` leave them.
    """
    ideals_of = ideal_fields(others) if len(others) else []
    if len(others) and not ideals_of:
        return []
    found = [(ideal, share(ideal, fit, *prepared.train, generator)) for ideal in ideals_of]
    if len(directions):
        moving, carried = worth_a_name(directions, fit, *prepared.train, generator)
        found.append((along(moving if len(moving) else directions), carried))
    return found
