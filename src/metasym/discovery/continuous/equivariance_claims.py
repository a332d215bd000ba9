"""From an algebra of pairs to a claim: every generator's circle certified on held-out data, bounded; or refused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.compact_algebras import Circle, Frame, circle, frames, whole_turns
from metasym.discovery.algebra.nearest_algebra import closure_defect
from metasym.discovery.algebra.vector_fields import Array, beside, moved_inputs, orthonormal, sides, written
from metasym.discovery.continuous.equivariance_search import PairCandidate, at_round_numbers
from metasym.discovery.continuous.input_constraints import leads_away
from metasym.discovery.continuous.invariance_claims import SURELY, name_of_fields, near_symmetry, unexplained
from metasym.discovery.continuous.invariance_search import plain_fit
from metasym.discovery.models.circle_averaged_kernels import (
    MOST_JOINT,
    averaged,
    free_part,
    hidden_beside_turns,
    some,
    turned_evidence,
    turned_posterior,
)
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior

_CLOSED = 1e-6


@dataclass(frozen=True, eq=False)
class Turning:
    """An algebra of pairs where it rotates, and the circles that its generators run through."""

    fields: Array
    """``[d, n+m, n+m+1]``, in the coordinates of the search."""
    inner: Frame
    outer: Frame
    circles: list[Circle]


@dataclass(frozen=True, eq=False)
class PairClaim:
    """A continuous symmetry that moves inputs and outputs, in the coordinates of the search."""

    name: str
    turning: Turning
    hyper: Hyper
    """The kernel, in the coordinates where the algebra rotates."""
    beta: Beta
    violation_upper: float


def turning(fields: Array, n: int) -> tuple[Turning | None, str]:
    """The algebra with whole frequencies; or None, and why."""
    found = frames(fields, n)
    if found is None:
        return None, "is not made of rotations, so that no average over it exists"
    inner, outer = found
    circles, moved = [], []
    for a, b in zip(*(f.rotations(s) for f, s in zip(found, sides(fields, n), strict=True)), strict=True):
        whole = whole_turns(a, b)
        if whole is None:
            return None, "has turns that never come back"
        circles.append(circle(*whole))
        moved.append(beside(inner.fields(whole[0][None]), outer.fields(whole[1][None])).sum(0))
    exact = np.array(moved)
    if closure_defect(exact) > _CLOSED:
        return None, "is not closed under brackets at whole frequencies"
    return Turning(exact, inner, outer, circles), ""


def judge_pairs(
    candidate: PairCandidate,
    train: tuple[Array, Array],
    held_out: tuple[Array, Array],
    generator: np.random.Generator,
    tolerance: float,
) -> tuple[PairClaim | None, str]:
    """The claim that a candidate supports, or None; and the reason in words."""
    if not len(candidate.fields):
        return None, candidate.reason
    n = train[0].shape[1]
    name = name_of_fields(candidate.fields)
    away = leads_away(sides(candidate.fields, n)[0], train[0])
    if away:
        return None, f"{name} {away}"
    best: tuple[float, Turning, Hyper] | None = None
    why = ""
    seed = int(generator.integers(2**31))
    for fields in (at_round_numbers(candidate.fields), candidate.fields):
        if fields is None:
            continue
        found, reason = turning(fields, n)
        if found is None:
            why = reason
            continue
        x, y = found.inner(train[0]), found.outer(train[1])
        hyper = plain_fit(x, y, np.random.default_rng(seed))
        evidence = sum(turned_evidence(hyper, one, x, y) for one in found.circles) / len(found.circles)
        # Round numbers come first, and stay unless the data speak for others.
        if best is None or evidence > best[0] + 0.5 * np.log(len(x)) * candidate.asked:
            best = evidence, found, hyper
    if best is None:
        return None, f"{name} {why}"
    return _certified(*best[1:], train, held_out, generator, tolerance)


def _certified(
    found: Turning,
    hyper: Hyper,
    train: tuple[Array, Array],
    held_out: tuple[Array, Array],
    generator: np.random.Generator,
    tolerance: float,
) -> tuple[PairClaim | None, str]:
    name = name_of_fields(orthonormal(found.fields))
    x, y = found.inner(train[0]), found.outer(train[1])
    x_new, y_new = found.inner(held_out[0]), found.outer(held_out[1])
    fit = posterior(hyper, x, y)
    every = np.concatenate([x_new, x]), np.concatenate([y_new, y])
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    least, violation, worst = np.inf, 0.0, None
    joint = some(x, y, MOST_JOINT)
    floor = float(((posterior(hyper, *joint)(x_new) - y_new) ** 2).sum(1).mean()) / variance
    for one in found.circles:
        symmetric = turned_posterior(hyper, one, *joint)
        free = free_part(hyper, one, *joint)
        breaking = free(x_new) - averaged(free, one, x_new)
        judged = beta(y_new - symmetric(x_new), breaking, variance)
        interval = f"beta {judged.value:.2g} ({judged.low:.2g} to {judged.high:.2g})"
        if judged.refutes:
            return None, f"{name} is refuted on held-out data: {interval}"
        hidden = hidden_beside_turns(hyper, one, *every)
        if hidden.refutes:
            return None, f"{name} is refuted by the likelihood of a part that does not turn"
        if worst is None or judged.violation_upper > worst.violation_upper:
            worst = judged
        # Both bounds know smooth functions; a rougher violation is among what the symmetric model leaves.
        left = unexplained(float(((symmetric(x_new) - y_new) ** 2).sum(1).mean()) / variance, floor)
        if left > SURELY * tolerance:
            return None, near_symmetry(name, left, floor)
        violation = max(violation, judged.violation_upper, hidden.upper, left)
        least = min(least, _share(one, fit, x, generator))
    assert worst is not None
    if violation > tolerance * least:
        return None, (
            f"{name} cannot be told from a near symmetry: the data allow a violation of {violation:.2g} of the "
            f"variance, more than {tolerance:g} of what its inputs carry"
        )
    return PairClaim(name, found, hyper, worst, violation), f"{name} of inputs and outputs is kept"


def _share(one: Circle, fit: Posterior, x: Array, generator: np.random.Generator) -> float:
    """The part of the function's variance that the turned inputs carry; none where only outputs turn."""
    _, sizes, directions = np.linalg.svd((one.inner - np.eye(x.shape[1])).reshape(-1, x.shape[1]))
    moved = directions[sizes > 1e-6]
    base = fit(x)
    other = x[generator.permutation(len(x))]
    change = fit(x + (other - x) @ moved.T @ moved) - base
    return min(1.0, float(0.5 * (change**2).sum(1).mean() / ((base - base.mean(0)) ** 2).sum(1).mean()))


def as_dict(claim: PairClaim, inner: Array, outer: Array, units: tuple[Array, Array]) -> dict[str, Any]:
    """Plain types, for ``result.json``; generators of inputs and outputs in the data's coordinates and units."""
    return {
        "kind": "continuous",
        "name": claim.name,
        "dimension": len(claim.turning.fields),
        "inputs": list(moved_inputs(inner, units[0])),
        "outputs": list(moved_inputs(outer, units[1])),
        "generators": written(inner, units[0]),
        "output_generators": written(outer, units[1]),
        "violation_upper": claim.violation_upper,
        "beta": claim.beta.value,
        "beta_ci": [claim.beta.low, claim.beta.high],
    }
