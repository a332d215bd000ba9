"""What a search ended with: claims, and what it looked at without claiming it; kept by a run that may be killed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metasym.verdicts.claims import CandidateVerdict, Claim, Kind
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.discovery_verdict import candidate_json
from metasym.verdicts.discovery_words import candidate_words, kept_words


@dataclass(frozen=True)
class Findings:
    """Of one search."""

    claims: tuple[Claim, ...] = ()
    refused: tuple[CandidateVerdict, ...] = ()

    @classmethod
    def of(
        cls, kind: Kind, what: str, claims: tuple[Claim, ...], reasons: tuple[AnyDiscoveryReason, ...]
    ) -> Findings:
        """Of a search among ``what``."""
        return cls(claims, (CandidateVerdict(kind, what, reasons),) if reasons else ())

    @property
    def words(self) -> str:
        """What the search says of itself while it runs."""
        if self.claims:
            return kept_words(self.claims, self.refused)
        return "; ".join(candidate_words(one) for one in self.refused)

    def to_stage(self, **model: Any) -> dict[str, Any]:
        """Plain types; ``model`` is what the model with the symmetry is built from."""
        return {
            "claims": [claim.to_json() for claim in self.claims],
            "refused": [candidate_json(one) for one in self.refused],
            **model,
        }

    @classmethod
    def from_stage(cls, found: Mapping[str, Any]) -> Findings:
        """What :meth:`to_stage` made ``found`` of."""
        return cls(
            tuple(Claim.from_json(one) for one in found["claims"]),
            tuple(CandidateVerdict.from_json(one) for one in found["refused"]),
        )
