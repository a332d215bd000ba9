"""What was noticed about the data: a sentence, how much it matters, and the numbers behind it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CAUTION, NOTE = "caution", "note"
"""A caution bears on what the verdict means or whether there can be one; a note is good to know."""
_NAMED = 6


@dataclass(frozen=True)
class Finding:
    """One thing that was noticed."""

    kind: str
    """A fixed word for programs, as docs/own-data.md lists them."""
    severity: str
    sentence: str
    numbers: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``config.json``."""
        return dataclasses.asdict(self)


@dataclass(frozen=True)
class Standard:
    """What x and y may be moved and divided by: an entry for each number of an example.

    Columns whose scales are alike have one number to be divided by, so that exchanging them is the same before and
    after; where all are alike there is none.
    """

    x_mean: tuple[float, ...]
    x_spread: tuple[float, ...]
    x_within: tuple[float, ...]
    """The spread around each task's own mean: what is left where an offset takes the rest."""
    y_mean: tuple[float, ...]
    y_spread: tuple[float, ...]
    y_within: tuple[float, ...]
    x_columns: tuple[float, ...] = ()
    y_columns: tuple[float, ...] = ()


@dataclass(frozen=True)
class Diagnosis:
    """Everything that was noticed, cautions first, and what the choices follow from."""

    findings: tuple[Finding, ...]
    standard: Standard
    offset: bool = False
    """Whether outputs have an offset that a linear map without a bias cannot have."""
    centre: bool = False
    """Whether inputs have means so large that a linear map is better fitted around them."""
    outliers: tuple[int, ...] = ()
    """Tasks unlike all others: too few to learn from, enough to spoil a mean."""

    def with_more(self, findings: Sequence[Finding]) -> Diagnosis:
        """The same with something more that was noticed."""
        return dataclasses.replace(self, findings=ordered((*self.findings, *findings)))

    def has(self, kind: str) -> bool:
        """Whether something of this kind was noticed."""
        return any(finding.kind == kind for finding in self.findings)

    def as_list(self) -> list[dict[str, Any]]:
        """Plain types, for ``config.json``."""
        return [finding.as_dict() for finding in self.findings]


def ordered(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Cautions before notes, otherwise as they were found."""
    return tuple(sorted(findings, key=lambda finding: finding.severity != CAUTION))


def listed(what: str, columns: Sequence[int], names: Sequence[str]) -> str:
    """``input 3``, ``inputs torque_1, torque_2 and 4 more``: columns by their names, or by numbers from 0."""
    words = [names[c] if names else str(c) for c in columns[:_NAMED]]
    more = f" and {len(columns) - _NAMED} more" if len(columns) > _NAMED else ""
    return f"{what}{'s' if len(columns) > 1 else ''} {', '.join(words)}{more}"


def percent(share: float) -> str:
    """A share of one, as percent with as many digits as matter near 0 and 100."""
    if share > 0.5:
        rest = 100 * (1 - share)
        return (
            f"{100 * share:.0f} %"
            if rest >= 5
            else f"{100 * share:.1f} %"
            if rest >= 0.1
            else f"{100 * share:.3f} %"
        )
    return f"{100 * share:.2g} %"
