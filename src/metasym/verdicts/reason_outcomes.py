"""What follows from a reason for a candidate of ``discover``."""

from __future__ import annotations

import enum
from typing import ClassVar

from metasym.verdicts.verdict import Reason


class Outcome(enum.StrEnum):
    """What became of a candidate."""

    CERTIFIED = "certified"
    REFUTED = "refuted"
    NOT_REFUTED = "not refuted"
    """The data can neither certify nor refute it."""
    NOT_EXAMINED = "not examined"


class DiscoveryReason(Reason, frozen=True):
    """Why a candidate of ``discover`` was not claimed."""

    outcome: ClassVar[Outcome] = Outcome.NOT_REFUTED


class About(DiscoveryReason, frozen=True):
    """About a group or an algebra that has a name."""

    name: str
