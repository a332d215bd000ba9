"""About a deep network, two subjects: what the tasks have, and what the network has learned of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metasym.verdicts.defect_words import measured, percent
from metasym.verdicts.discovery_verdict import DiscoveryVerdict
from metasym.verdicts.discovery_words import candidate_words, claim_words
from metasym.verdicts.function_reports import AdaptedFunctions
from metasym.verdicts.outcomes import Outcome
from metasym.verdicts.status_thresholds import EXACT_FUNCTION, NEAR_FUNCTION


def deep_words(result: Mapping[str, Any], plain: Mapping[str, Any] | None) -> list[str]:
    """Sentences about the tasks and about the networks, from results of ``learn``; none of a single layer."""
    said = []
    if "tasks_share" in result:
        said.append(tasks_words(DiscoveryVerdict.from_json(result["tasks_share"])))
    asked = [
        (name, AdaptedFunctions.from_json(one["function"]))
        for name, one in (("MSR", result), ("MAML", plain or {}))
        if "function" in one
    ]
    if asked and asked[0][0] == "MSR":
        said.append(networks_words(asked))
    elif said:
        said.append("The networks were not tested: there is no group to test.")
    return said


def tasks_words(verdict: DiscoveryVerdict) -> str:
    """What the tasks share, by functions that were fitted to them."""
    if verdict.claims:
        claim = verdict.claims[0]
        return (
            f"The tasks share a {claim_words(claim)}. Functions fitted to {claim.tested_on} held-out tasks allow a "
            f"defect of at most {percent(claim.defect_upper)} (95 %)."
        )
    examined = [one for one in verdict.candidates if one.outcome is not Outcome.NOT_EXAMINED]
    why = "; ".join(candidate_words(one) for one in examined or verdict.candidates)
    return f"No symmetry was found that the tasks share: {why}."


def networks_words(asked: Sequence[tuple[str, AdaptedFunctions]]) -> str:
    """``The networks that MSR adapts to 40 tasks are equivariant to D_16 within 28 % (...). For MAML: 140 %.``"""
    (name, first), *others = asked
    bound = f"at most {percent(first.defect_upper)} at 95 %, for the worst of {len(first.elements)} elements"
    said = (
        f"The networks that {name} adapts to {first.tasks} test tasks are {_equivariant(first)} ({bound}; 141 % "
        "means unrelated)."
    )
    return " ".join([said, *(f"For {other}: {_short(found)}." for other, found in others)])


def _equivariant(found: AdaptedFunctions) -> str:
    if found.worst.violation_upper <= EXACT_FUNCTION:
        return f"exactly equivariant to {found.group}"
    if found.defect <= NEAR_FUNCTION:
        return f"equivariant to {found.group} within {percent(found.defect)}"
    return f"not equivariant to {found.group}: their defect is {measured(found.defect)}"


def _short(found: AdaptedFunctions) -> str:
    return "exact" if found.worst.violation_upper <= EXACT_FUNCTION else measured(found.defect)
