"""About a deep network, two subjects: what the tasks have, and what the network has learned of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from metasym.verdicts.defect_words import percent
from metasym.verdicts.discovery_verdict import DiscoveryVerdict
from metasym.verdicts.discovery_words import candidate_words, claim_words
from metasym.verdicts.function_reports import EXACT, NEAR, AdaptedFunctions
from metasym.verdicts.outcomes import Outcome


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
        said.append("The networks were not asked: there is no group to ask them about.")
    return said


def tasks_words(verdict: DiscoveryVerdict) -> str:
    """What the tasks share, by functions that were fitted to them."""
    if verdict.claims:
        claim = verdict.claims[0]
        return (
            f"The tasks share a {claim_words(claim)}. Functions fitted to {claim.tested_on} "
            f"tasks that took no part in finding it allow a deviation of at most "
            f"{percent(claim.defect_upper)} (95 %)."
        )
    told = [
        one for one in verdict.candidates if one.outcome is not Outcome.NOT_EXAMINED
    ] or verdict.candidates
    why = "; ".join(candidate_words(one) for one in told)
    return f"No symmetry was found that the tasks share: {why}."


def networks_words(asked: Sequence[tuple[str, AdaptedFunctions]]) -> str:
    """``The networks that MSR adapts to 40 tasks are within 28 % of D_16 (...); MAML's 140 %``."""
    (name, first), *others = asked
    bound = f"at most {percent(first.defect_upper)} at 95 %, at the worst of {len(first.elements)} elements"
    said = (
        f"The networks that {name} adapts to {first.tasks} test tasks are "
        f"{_within(first)} {first.group} ({bound}; 141 % is unrelated)"
    )
    return "; ".join([said, *(f"{other}'s {_short(found)}" for other, found in others)]) + "."


def _within(found: AdaptedFunctions) -> str:
    if found.worst.violation_upper <= EXACT:
        return "exactly equivariant to"
    near = found.defect <= NEAR
    return f"within {percent(found.defect)} equivariant to" if near else f"{percent(found.defect)} away from"


def _short(found: AdaptedFunctions) -> str:
    return "exactly" if found.worst.violation_upper <= EXACT else percent(found.defect)
