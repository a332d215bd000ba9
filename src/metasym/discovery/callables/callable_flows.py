"""Continuous symmetries of a function that can be called: pairs of fields with ``J_f(x) (A x + a) = B f(x) + b``.

The equation is linear in the pair, and derivatives of f are known: the pairs are the null space of a matrix. What is
claimed is checked at fresh points by calls along the flow, ``f(exp(t A) x)`` beside ``exp(t B) f(x)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from metasym.discovery.algebra.vector_fields import (
    Array,
    affine,
    beside,
    orthonormal,
    rotations,
    sides,
    squared,
    values,
)
from metasym.discovery.callables.call_certificate import CallCertificate, share_upper
from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.input_draws import InputDraws
from metasym.discovery.claim_thresholds import CALLS, CONTINUOUS
from metasym.discovery.continuous.certified_algebras import name_of_fields
from metasym.discovery.continuous.equivariance_search import MOST_UNKNOWNS, at_round_numbers
from metasym.discovery.continuous.equivariance_symmetries import independent_outputs
from metasym.discovery.search_settings import SearchSettings
from metasym.types import MetasymError
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.defects import Defect, defect_of, share_of
from metasym.verdicts.discovery_reasons import (
    AffineFunction,
    AnyDiscoveryReason,
    CallsAllow,
    EveryDirectionChanges,
    FewDirectionsTold,
    NoisyFunction,
    NoPointsBeside,
    RefutedByCalls,
    StepFunction,
    TooManyInputs,
)

_FLOWS = 12
"""Random elements of the group that are called."""
_REACHES = 0.5, 0.05, 0.005
"""How far they take inputs, in standard deviations: less where f does not take the points there."""


@dataclass(frozen=True, eq=False)
class FlowFindings:
    """What a search for fields found."""

    claims: tuple[Claim, ...]
    refused: tuple[CandidateVerdict, ...]


def flows_in(
    f: CalledFunction, draws: InputDraws, idle: tuple[int, ...], options: SearchSettings
) -> FlowFindings:
    """The largest algebra of fields that f keeps exactly: affine ones where there are few, else rotations."""
    n = f.inputs
    what = "affine maps of inputs and outputs"
    if f.noise.any():
        return _refused(what, NoisyFunction())
    kept = independent_outputs(f(draws.search))
    m = len(kept)  # outputs that follow from others move with them
    if n * (n - 1) // 2 + m * (m - 1) // 2 > MOST_UNKNOWNS or n * m > 4096:
        return _refused("rotations of inputs and outputs", TooManyInputs(_most_rotated(m), n))
    inner, outer = affine(n), affine(m)
    if len(inner) + len(outer) > MOST_UNKNOWNS:
        what, inner, outer = "rotations of inputs and outputs", rotations(n), rotations(m)
    # What f does not depend on may move in any way; that is no symmetry to speak of.
    inner = inner[[not fields[list(idle)].any() for fields in inner]] if idle else inner
    certificate = CallCertificate(f, draws.fresh(512), np.zeros(n))
    try:
        fields, why = _null_fields(f, draws, beside(inner, outer), kept)
    except MetasymError:
        return _refused(what, NoPointsBeside())
    if why is not None:
        return _refused(what, why)
    fields = _with_all_outputs(fields, kept, f(draws.search), n)
    measured = _defect(certificate, fields, draws.spread, options.seed)
    if measured is None:
        return _refused(what, NoPointsBeside())
    defect, by_point = measured
    rounded = at_round_numbers(fields)
    if rounded is not None:  # only where it is no worse: the true numbers may be near round ones
        again = _defect(certificate, rounded, draws.spread, options.seed)
        if again is not None and again[0].upper <= max(CALLS.round_worse * defect.upper, 100 * f.rounding):
            fields, (defect, by_point) = rounded, again
    name = name_of_fields(fields)
    most = defect_of(options.tolerance)
    if defect.upper > most:
        reason = RefutedByCalls(name, defect.value, most)
        return _refused(
            what, reason if defect.value > most else CallsAllow(name, defect.value, defect.upper, most)
        )
    return FlowFindings((_claim(name, fields, n, defect, by_point),), ())


def _most_rotated(m: int) -> int:
    left = max(0, MOST_UNKNOWNS - m * (m - 1) // 2)
    return int((1 + math.isqrt(1 + 8 * left)) // 2)


def _refused(what: str, reason: AnyDiscoveryReason) -> FlowFindings:
    return FlowFindings((), (CandidateVerdict("continuous", what, (reason,)),))


def _with_all_outputs(fields: Array, kept: list[int], y: Array, n: int) -> Array:
    """Fields on some outputs, from which the others of ``y [points, m]`` follow, as fields on all."""
    m = y.shape[1]
    if len(kept) == m:
        return fields
    follow = np.linalg.lstsq(np.c_[y[:, kept], np.ones(len(y))], y, rcond=None)[0][:-1].T
    found = np.zeros((len(fields), n + m, n + m + 1))
    found[:, :n, :n], found[:, :n, -1] = fields[:, :n, :n], fields[:, :n, -1]
    outer = follow @ fields[:, n:, n:]
    found[:, n:, [n + k for k in kept]], found[:, n:, -1] = outer[:, :, :-1], outer[:, :, -1]
    return found


def _null_fields(
    f: CalledFunction, draws: InputDraws, ambient: Array, kept: list[int]
) -> tuple[Array, AnyDiscoveryReason | None]:
    """The pairs in ``ambient [D, n+m, n+m+1]`` that the outputs ``kept`` keep, or why there are none."""
    n, m = f.inputs, len(kept)
    count = max(32, -(-3 * len(ambient) // m))
    x = np.resize(draws.search, (min(count, len(draws.search)), n))
    jacobians, y = f.jacobian(x)[:, kept], f(x)[:, kept]
    if np.abs(jacobians - jacobians.mean(0)).max() <= CALLS.affine * np.abs(jacobians).max():
        slopes = np.concatenate([jacobians.mean(0), (y - x @ jacobians.mean(0).T).mean(0)[:, None]], 1)
        left = y - np.c_[x, np.ones(len(x))] @ slopes.T
        steps = np.abs(left).max(0) > CALLS.steps * (np.abs(y - y.mean(0)).max(0) + 1e-300)
        return ambient[:0], StepFunction() if steps.any() else AffineFunction()
    # In units of the spreads of inputs and of each output: every entry of a pair counts alike then.
    into, out = draws.spread + 1e-300, y.std(0) + 1e-300
    units = np.r_[into, out]
    scaled = ambient * np.c_[np.tile(1 / units, (n + m, 1)), np.ones(n + m)][None] * units[None, :, None]
    inner, outer = sides(scaled, n)
    changes = np.einsum("pmi,pdi->pmd", jacobians, values(inner, x))
    turned = values(outer, y).transpose(0, 2, 1)
    rows = ((changes - turned) / out[None, :, None]).reshape(-1, len(ambient))
    if len(rows) < len(ambient):
        return ambient[:0], FewDirectionsTold(len(rows))
    sizes = np.linalg.norm(rows, axis=0) + 1e-300
    _, values_, vectors = np.linalg.svd(rows / sizes, full_matrices=False)
    exact = 1e-6 if f.rounding < 1e-8 and f.as_tensor is not None else 1e-3 if f.rounding > 1e-8 else 1e-5
    quiet = values_ < exact * values_[0]
    if not quiet.any():
        return ambient[:0], EveryDirectionChanges()
    if quiet.sum() > CONTINUOUS.most_quiet:
        return ambient[:0], FewDirectionsTold(int((~quiet).sum()))
    return orthonormal(np.einsum("kd,dij->kij", vectors[quiet] / sizes, scaled)), None


def _defect(
    certificate: CallCertificate, fields: Array, spread: Array, seed: int
) -> tuple[Defect, Array] | None:
    """Along random elements of the group, relative to what random moves of the same length change; and by point."""
    for reach in _REACHES:
        try:
            return _defect_within(certificate, fields, spread, reach, np.random.default_rng([seed, 33]))
        except MetasymError:  # f may not take points along the flow
            continue
    return None


def _defect_within(
    certificate: CallCertificate, fields: Array, spread: Array, reach: float, draw: np.random.Generator
) -> tuple[Defect, Array]:
    f, x = certificate.f, certificate.x
    n = f.inputs
    inner, outer = (squared(side) for side in sides(fields, n))
    worst, by_point = Defect(0.0, 0.0), np.zeros(len(x))
    extended, images = np.c_[x, np.ones(len(x))], np.c_[certificate.y, np.ones(len(x))]
    for _ in range(_FLOWS):
        weights = draw.normal(size=len(fields))
        a, b = (np.einsum("d,dij->ij", weights, side) for side in (inner, outer))
        moves = (extended @ a.T)[:, :n]
        size = float(np.sqrt(((moves / (spread + 1e-300)) ** 2).mean()))
        t = reach / size if size > 0 else 0.0
        there = (extended @ scipy.linalg.expm(t * a).T)[:, :n]
        goal = (images @ scipy.linalg.expm(t * b).T)[:, : f.outputs]
        length = np.abs(there - x)
        beside_it = f(x + length * draw.choice([-1.0, 1.0], size=x.shape))
        apart, change = (f(there) - goal) ** 2, (beside_it - certificate.y) ** 2
        moved = change.mean(0) > (100 * f.rounding) ** 2 * (certificate.y**2).mean(0)
        least = (100 * f.rounding) ** 2 * (certificate.y**2).mean(0)
        worst = worst.worst(certificate.relative(apart.sum(1), change.sum(1), 0.0, 0.0, least.sum()))
        scale = change.sum(1).mean() + least.sum() + np.finfo(float).tiny
        by_point = np.maximum(by_point, np.sqrt(apart.sum(1) / scale))
        worst = worst.worst(certificate.relative(apart[:, moved], change[:, moved], 0.0, 0.0, least[moved]))
    return worst, by_point


def _claim(name: str, fields: Array, n: int, defect: Defect, by_point: Array) -> Claim:
    inner, outer = sides(fields, n)
    moves_outputs = np.abs(outer).max() > 1e-9
    rows = [tuple(tuple(map(tuple, field.tolist())) for field in side) for side in (inner, outer)]
    return Claim(
        "continuous",
        name,
        len(fields),
        rows[0],
        tuple(np.flatnonzero(np.abs(inner).max((0, 2)) > 1e-9).tolist()),
        tuple(np.flatnonzero(np.abs(outer).max((0, 2)) > 1e-9).tolist()) if moves_outputs else (),
        share_of(defect.upper),
        math.nan,
        (math.nan, math.nan),
        len(by_point),
        rows[1] if moves_outputs else (),
        defect=defect.value,
        rows_upper=share_upper(by_point, defect.upper),
    )
