"""From an algebra of pairs to a claim: every generator's circle certified on held-out data, bounded; or refused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metasym.certification.beta import beta
from metasym.discovery.algebra.compact_algebras import Circle, Frame, circle, frames, whole_turns
from metasym.discovery.algebra.nearest_algebra import closure_defect
from metasym.discovery.algebra.vector_fields import Array, beside, orthonormal, sides
from metasym.discovery.beta_reasons import against
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.certified_algebras import CertifiedAlgebra, name_of_fields
from metasym.discovery.continuous.equivariance_search import PairCandidate, at_round_numbers
from metasym.discovery.continuous.input_constraints import constraint_left
from metasym.discovery.continuous.invariance_claims import unexplained
from metasym.discovery.continuous.invariance_search import plain_fit
from metasym.discovery.models.circle_averaged_kernels import (
    MOST_JOINT,
    averaged,
    breaking_part,
    circle_evidence,
    circle_posterior,
    first_rows,
    hidden_beside_circle,
)
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior
from metasym.discovery.models.local_residuals import largest_residuals
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    LikelierWithout,
    NearSymmetry,
    NeverComesBack,
    NotClosedAtWholeFrequencies,
    NotRotations,
    NotShownToBeNoise,
)


@dataclass(frozen=True, eq=False)
class RotationAction:
    """An algebra of pairs where it rotates, and the circles that its generators run through."""

    fields: Array
    """``[d, n+m, n+m+1]``, in the coordinates of the search."""
    inner: Frame
    outer: Frame
    circles: list[Circle]


def rotation_action(
    fields: Array, n: int, name: str = ""
) -> RotationAction | NotRotations | NeverComesBack | NotClosedAtWholeFrequencies:
    """The algebra with whole frequencies; or why there is none."""
    found = frames(fields, n)
    if found is None:
        return NotRotations(name)
    inner, outer = found
    circles, moved = [], []
    for a, b in zip(*(f.rotations(s) for f, s in zip(found, sides(fields, n), strict=True)), strict=True):
        whole = whole_turns(a, b)
        if whole is None:
            return NeverComesBack(name)
        circles.append(circle(*whole))
        moved.append(beside(inner.fields(whole[0][None]), outer.fields(whole[1][None])).sum(0))
    exact = np.array(moved)
    if closure_defect(exact) > CONTINUOUS.closed_turns:
        return NotClosedAtWholeFrequencies(name)
    return RotationAction(exact, inner, outer, circles)


def judge_pairs(
    candidate: PairCandidate,
    train: tuple[Array, Array],
    held_out: tuple[Array, Array],
    generator: np.random.Generator,
    tolerance: float,
) -> tuple[CertifiedAlgebra | None, AnyDiscoveryReason | None]:
    """What a candidate supports, in the coordinates of the search, or None; and the reason."""
    if not len(candidate.fields):
        return None, candidate.reason
    n = train[0].shape[1]
    name = name_of_fields(candidate.fields)
    away = constraint_left(name, sides(candidate.fields, n)[0], train[0])
    if away is not None:
        return None, away
    best: tuple[float, RotationAction, Hyper] | None = None
    why: AnyDiscoveryReason | None = None
    seed = int(generator.integers(2**31))
    for fields in (at_round_numbers(candidate.fields), candidate.fields):
        if fields is None:
            continue
        found = rotation_action(fields, n, name)
        if not isinstance(found, RotationAction):
            why = found
            continue
        x, y = found.inner(train[0]), found.outer(train[1])
        hyper = plain_fit(x, y, np.random.default_rng(seed))
        evidence = sum(circle_evidence(hyper, one, x, y) for one in found.circles) / len(found.circles)
        # Round numbers come first, and stay unless the data speak for others.
        if best is None or evidence > best[0] + 0.5 * np.log(len(x)) * candidate.asked:
            best = evidence, found, hyper
    if best is None:
        return None, why
    return _certified(*best[1:], train, held_out, generator, tolerance)


def _certified(
    found: RotationAction,
    hyper: Hyper,
    train: tuple[Array, Array],
    held_out: tuple[Array, Array],
    generator: np.random.Generator,
    tolerance: float,
) -> tuple[CertifiedAlgebra | None, AnyDiscoveryReason | None]:
    name = name_of_fields(orthonormal(found.fields))
    x, y = found.inner(train[0]), found.outer(train[1])
    x_new, y_new = found.inner(held_out[0]), found.outer(held_out[1])
    fit = posterior(hyper, x, y)
    every = np.concatenate([x_new, x]), np.concatenate([y_new, y])
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    least, violation, worst = np.inf, 0.0, None
    joint = first_rows(x, y, MOST_JOINT)
    floor = float(((posterior(hyper, *joint)(x_new) - y_new) ** 2).sum(1).mean()) / variance
    for one in found.circles:
        symmetric = circle_posterior(hyper, one, *joint)
        free = breaking_part(hyper, one, *joint)
        breaking = free(x_new) - averaged(free, one, x_new)
        judged = beta(y_new - symmetric(x_new), breaking, variance)
        if judged.contradicts:
            return None, against(name, judged)
        hidden = hidden_beside_circle(hyper, one, *every)
        if hidden.refutes:
            return None, LikelierWithout(name, hidden.upper)
        if worst is None or judged.violation_upper > worst.violation_upper:
            worst = judged
        # Both bounds know smooth functions; a rougher violation is among what the symmetric model leaves.
        left = unexplained(float(((symmetric(x_new) - y_new) ** 2).sum(1).mean()) / variance, floor)
        if left > CONTINUOUS.surely * tolerance:
            return None, NotShownToBeNoise(name, left, floor)
        rest = y_new - symmetric(x_new)
        local = largest_residuals(rest, np.ones_like(rest), y_new)
        violation = max(violation, judged.violation_upper, hidden.upper, left, local.upper)
        least = min(least, _share(one, fit, x, generator))
    assert worst is not None
    if violation > tolerance * least:
        return None, NearSymmetry(name, violation, tolerance, tolerance * least, len(every[0]))
    return CertifiedAlgebra(name, found.fields, worst, violation), None


def _share(one: Circle, fit: Posterior, x: Array, generator: np.random.Generator) -> float:
    """The part of the function's variance that the turned inputs carry; none where only outputs turn."""
    _, sizes, directions = np.linalg.svd((one.inner - np.eye(x.shape[1])).reshape(-1, x.shape[1]))
    moved = directions[sizes > 1e-6]
    base = fit(x)
    other = x[generator.permutation(len(x))]
    change = fit(x + (other - x) @ moved.T @ moved) - base
    return min(1.0, float(0.5 * (change**2).sum(1).mean() / ((base - base.mean(0)) ** 2).sum(1).mean()))
