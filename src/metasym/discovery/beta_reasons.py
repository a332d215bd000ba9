"""What beta says against a candidate that it contradicts: refuted, or not determined well enough for that."""

from __future__ import annotations

from typing import Literal

from metasym.certification.beta import Beta
from metasym.verdicts.discovery_reasons import BetaUndetermined, RefutedByBeta


def against(
    name: str, found: Beta, on: Literal["examples", "tasks"] = "examples"
) -> RefutedByBeta | BetaUndetermined:
    """Why what is called ``name`` is not claimed, where beta contradicts it."""
    if not found.refutes:
        return BetaUndetermined(name, found.value, found.low, found.high)
    return RefutedByBeta(name, found.value, found.low, found.high, on)
