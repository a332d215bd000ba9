"""Symmetries of a function that can be called, from beginning to end: look, search, check at fresh points."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.call_certificate import idle_inputs
from metasym.discovery.callables.callable_flows import flows_in
from metasym.discovery.callables.callable_symmetries import (
    MOST_INPUTS,
    FiniteFindings,
    FiniteSearch,
    FoundGroup,
)
from metasym.discovery.callables.called_function import CalledFunction, called_function
from metasym.discovery.callables.input_draws import InputDraws, input_draws
from metasym.discovery.claim_thresholds import CALLS
from metasym.discovery.discovered import Discovered
from metasym.discovery.search_settings import Note, SearchSettings
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation, cycle_notation
from metasym.types import MetasymError
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.defects import Defect, share_of
from metasym.verdicts.discovery_reasons import (
    AnyDiscoveryReason,
    CallsAllow,
    NoneKept,
    NoneSeemsKept,
    RefutedByCalls,
    SearchDidNotEnd,
    TooManyInputs,
)
from metasym.verdicts.discovery_verdict import DiscoveryVerdict

_FINITE = "signed permutations"
_MOST_REFUSED = 3
"""Refused candidates that a report lists."""
_SHOWN = 60
"""Letters of an element in it."""
_MOST_SHOWN = 12
"""Numbers of a centre in a note."""


def looked_at(f: Any, x: Any, seed: int, *, names: tuple[str, ...] = ()) -> tuple[CalledFunction, InputDraws]:
    """A function and its inputs, checked; ``names`` of the inputs, where ``x`` does not carry them."""
    draws = input_draws(x, seed, names)
    return called_function(f, draws.search, draws.shape, draws.tensors), draws


def discover_function_in(
    called: CalledFunction,
    draws: InputDraws,
    options: SearchSettings,
    *,
    centre: npt.ArrayLike | None = None,
    matrix_output: bool = False,
    note: Note = lambda _: None,
) -> Discovered:
    """Look for symmetries of ``called``; ``centre`` is the point that moves keep, where it is known."""
    given = None if centre is None else _given_centre(centre, called)
    claims: list[Claim] = []
    refused: list[CandidateVerdict] = []
    notes = _notes(called)
    fresh = 0
    if options.continuous:
        note("searching for continuous symmetries by derivatives")
        flows = flows_in(called, draws, idle_inputs(called, draws), options)
        claims += flows.claims
        refused += flows.refused
        fresh = max((claim.tested_on for claim in flows.claims), default=0)
    if options.finite and called.inputs > MOST_INPUTS:
        refused.append(CandidateVerdict("finite", _FINITE, (TooManyInputs(MOST_INPUTS, called.inputs),)))
    elif options.finite:
        note(f"searching for signed permutations of {called.inputs} inputs that keep {called.name}")
        search = FiniteSearch(
            called,
            draws,
            tolerance=options.tolerance,
            centre=given,
            two_sided=matrix_output,
            seed=options.seed,
            note=note,
        )
        found = search.run()
        fresh = len(search.certificate.x)
        for group in (found.exact, found.near):
            if group is not None:
                claims.append(_claim(group, found.centre, fresh))
                notes += _covered(group.group, found.centre, draws)
        notes += _about(found, given=search.given)
        refused += _refused(found, search)
        if not found.near_complete:
            notes.append("the search for near symmetries did not end, so there may be more of them")
        if search.certificate.orbits_left and claims:
            notes.append(
                "the function does not take points that mix the inputs of two. A violation by inputs of small effect "
                "may be hidden behind others"
            )
        if found.idle:
            notes.append(
                f"the function does not depend on {_called('input', found.idle, draws.names)}, or they do not vary. "
                "No claim moves them"
            )
        still = search.certificate.still_outputs
        if still and claims:
            notes.append(
                f"no claim was checked on {_called('output', still)}: at the fresh points no change is larger than "
                "rounding may be"
            )
    verdict = DiscoveryVerdict.of(tuple(claims), tuple(refused), inputs=draws.names)
    notes.append(f"called at {called.points} points")
    return Discovered(verdict, None, None, None, "mse", len(draws.search) + fresh, fresh, notes)


def _notes(called: CalledFunction) -> list[str]:
    if not called.noise.any():
        return []
    return [
        f"repeated calls at one point differ by {math.sqrt(float(called.noise.mean())):.2g} (root mean square). This "
        "noise is subtracted, and the bounds are wider"
    ]


def _given_centre(centre: npt.ArrayLike, called: CalledFunction) -> Array:
    found = np.asarray(centre, dtype=np.float64).reshape(-1)
    if found.size == 1:
        found = np.full(called.inputs, float(found[0]))
    if found.shape != (called.inputs,) or not np.isfinite(found).all():
        raise MetasymError(
            f"expected a centre of {called.inputs} finite numbers, found {found.size}",
            about="centre",
            found=found.size,
        )
    return found


def _claim(found: FoundGroup, centre: Array, tested_on: int) -> Claim:
    signed = found.group.signed and centre.any()
    return Claim.of_group(
        found.group.name,
        found.group.order,
        found.group.generators,
        violation_upper=share_of(found.defect.upper),
        beta=math.nan,
        beta_ci=(math.nan, math.nan),
        tested_on=tested_on,
        defect=found.defect.value,
        centre=tuple(centre.tolist()) if signed else (),
        rows_upper=found.rows_upper,
    )


def _refused(found: FiniteFindings, search: FiniteSearch) -> list[CandidateVerdict]:
    reasons: list[AnyDiscoveryReason] = [_reason(g, d, search) for g, d in found.refused[:_MOST_REFUSED]]
    if not reasons and found.exact is None and found.near is None and found.complete:
        noise = search.f.noise_beside(search.quick.y)
        reasons.append(NoneSeemsKept(found.tried, noise) if noise else NoneKept(found.tried))
    if not found.complete:
        reasons.append(SearchDidNotEnd())
    return [CandidateVerdict("finite", _FINITE, tuple(reasons))] if reasons else []


def _reason(g: SignedPermutation, defect: Defect, search: FiniteSearch) -> AnyDiscoveryReason:
    most, noisy = search.limit, bool(search.f.noise.any())
    name = cycle_notation(g.inputs, g.input_signs, search.draws.names, most=_SHOWN)
    if defect.lower > most or (defect.value > most and not noisy):  # noise alone may make a value large
        return RefutedByCalls(name, defect.value, most)
    return CallsAllow(name, defect.value, defect.upper, most)


def _about(found: FiniteFindings, *, given: bool) -> list[str]:
    """What moves with signs are about, where that is not 0."""
    groups = [one.group for one in (found.exact, found.near) if one is not None]
    if not found.centre.any() or not any(group.signed for group in groups):
        return []
    shown = ", ".join(f"{value:.4g}" for value in found.centre[:_MOST_SHOWN])
    more = ", ..." if len(found.centre) > _MOST_SHOWN else ""
    return [f"signs change about the centre ({shown}{more}), which was {'given' if given else 'found'}"]


def _covered(group: SignedGroup, centre: Array, draws: InputDraws) -> list[str]:
    """Whether moved inputs are like the inputs themselves."""
    x = draws.search - centre
    mean, spread = x.mean(0), x.std(0)
    for g in group.generators:
        there = g.on_inputs(x)
        width = np.maximum(spread, there.std(0)) + 1e-300
        away = np.abs(there.mean(0) - mean) / width
        wider = np.abs(there.std(0) - spread) / width
        if max(away.max(), wider.max()) > CALLS.away:
            i = int(np.argmax(np.maximum(away, wider)))
            what = _called("input", (i,), draws.names)
            return [
                f"{group.name} moves inputs to where x has few points: {what} differs in mean or spread after a "
                "move. The function was called there too"
            ]
    return []


def _called(what: str, numbers: tuple[int, ...], names: tuple[str, ...] = ()) -> str:
    """``inputs 0, 1``, or the user's names of them."""
    shown = ", ".join(names[i] if names else str(i) for i in numbers[:12])
    shown += ", ..." if len(numbers) > 12 else ""
    return shown if names else f"{what}{'s' if len(numbers) > 1 else ''} {shown}"
