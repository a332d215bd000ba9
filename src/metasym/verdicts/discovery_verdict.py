"""The verdict of ``discover``: what is claimed, and what became of every other candidate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from metasym.types import shortened
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.discovery_words import candidate_words, claim_words, claims_words, refusal_words
from metasym.verdicts.outcomes import Outcome
from metasym.verdicts.status_thresholds import EXACT_CLAIM
from metasym.verdicts.verdict import Status, Verdict


@dataclass(frozen=True)
class DiscoveryVerdict(Verdict):
    """What is known about the symmetries of a function, or of a family of them."""

    # A layer's reasons and these are different sets, which files keep apart.
    reasons: tuple[AnyDiscoveryReason, ...] = ()  # type: ignore[assignment]
    claims: tuple[Claim, ...] = ()
    candidates: tuple[CandidateVerdict, ...] = ()
    """What is not claimed, with the reasons."""

    @classmethod
    def of(
        cls,
        claims: tuple[Claim, ...],
        candidates: tuple[CandidateVerdict, ...],
        tasks: int | None = None,
        *,
        inputs: tuple[str, ...] = (),
        outputs: tuple[str, ...] = (),
    ) -> DiscoveryVerdict:
        """The verdict that claims and candidates lead to; ``tasks`` counts held-out ones of a family.

        ``inputs`` and ``outputs`` are the user's names.
        """
        if inputs or outputs:
            claims = tuple(replace(one, input_names=inputs, output_names=outputs) for one in claims)
        outcomes = {one.outcome for one in candidates}
        status = Status.NOT_READ
        if claims:
            near = all(claim.defect is not None and claim.defect > EXACT_CLAIM for claim in claims)
            status = Status.APPROXIMATE if near else Status.CERTIFIED
        elif Outcome.NOT_REFUTED in outcomes:
            status = Status.UNDECIDED
        elif Outcome.REFUTED in outcomes:
            status = Status.NONE
        reasons = tuple(reason for one in candidates for reason in one.reasons)
        return cls(status, reasons, tasks, None, claims, candidates)

    @classmethod
    def from_json(cls, result: Mapping[str, Any], tasks: int | None = None) -> DiscoveryVerdict:
        """The verdict in a ``result.json``, as :meth:`to_json` wrote it."""
        claims = tuple(Claim.from_json(one) for one in result["symmetries"])
        return cls.of(claims, tuple(CandidateVerdict.from_json(one) for one in result["refused"]), tasks)

    def __repr__(self) -> str:
        return shortened(f"DiscoveryVerdict({self.status}: {self}; {len(self.candidates)} not claimed)")

    def __str__(self) -> str:
        return claims_words(self.claims)

    def to_json(self) -> dict[str, Any]:
        """The keys ``verdict``, ``symmetries`` and ``refused`` of ``result.json``."""
        return {
            "verdict": {
                "status": str(self.status),
                "reasons": [reason_json(reason) for reason in self.reasons],
                "words": str(self),
            },
            "symmetries": [{**claim.to_json(), "words": claim_words(claim)} for claim in self.claims],
            "refused": [candidate_json(one) for one in self.candidates],
        }


def candidate_json(candidate: CandidateVerdict) -> dict[str, Any]:
    """Plain types, as ``result.json`` has them under ``refused``."""
    return {
        "kind": candidate.kind,
        "what": candidate.what,
        "outcome": str(candidate.outcome),
        "reasons": [reason_json(reason) for reason in candidate.reasons],
        "words": candidate_words(candidate),
    }


def reason_json(reason: AnyDiscoveryReason) -> dict[str, Any]:
    """Its kind, its numbers, its words."""
    return {**msgspec.to_builtins(reason), "words": refusal_words(reason)}
