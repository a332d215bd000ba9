"""Over which range the usual transforms of images hold: "turns up to 35 degrees"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from metasym.verdicts.status_thresholds import TRANSFORM_TOLERANCE


class Transformed(Protocol):
    """An element of a report, if it is a transform of images."""

    @property
    def name(self) -> str:
        """What it does."""
        ...

    @property
    def family(self) -> str:
        """Transforms of one family differ by an amount; empty for elements of a group."""
        ...

    @property
    def amount(self) -> float:
        """Degrees, pixels, or a factor."""
        ...

    @property
    def bound(self) -> float:
        """What the defect is at most, at 95 %."""
        ...


@dataclass(frozen=True)
class TransformRange:
    """How far transforms of one family may go until the function changes."""

    family: str
    least: float
    """The smallest amount that holds, with all between it and none (for scales 1, else 0)."""
    most: float
    """The largest one."""
    all_hold: bool
    """Whether every amount that was tried holds."""

    @property
    def some_hold(self) -> bool:
        """Whether any amount does, with all between it and none."""
        return self.least != self.most

    @property
    def words(self) -> str:
        """In plain words; only the family's name where none holds."""
        units = {"turns": "degree", "shifts": "pixel"}
        if not self.some_hold:
            return self.family
        if self.family == "scales":
            return f"scales from {self.least:g} to {self.most:g}"
        if self.family not in units:
            return self.family
        more = " and perhaps more" if self.all_hold else ""
        return f"{self.family} up to {self.most:g} {units[self.family]}{'s' if self.most != 1 else ''}{more}"


def transform_ranges(
    elements: Iterable[Transformed], tolerance: float = TRANSFORM_TOLERANCE
) -> tuple[TransformRange, ...]:
    """Of every family: the amounts around none for which all defects are at most ``tolerance`` with their bounds."""
    families: dict[str, list[Transformed]] = {}
    for one in elements:
        if one.family:
            families.setdefault(one.family, []).append(one)
    found = []
    for family, members in families.items():
        start = 1.0 if family == "scales" else 0.0
        least, most = (
            _reach([one for one in members if (one.amount > start) == above], start, tolerance)
            for above in (False, True)
        )
        holds = all(one.bound <= tolerance for one in members)
        found.append(TransformRange(family, least, most, holds))
    return tuple(found)


def _reach(members: list[Transformed], start: float, tolerance: float) -> float:
    reached = start
    for amount in sorted({one.amount for one in members}, key=lambda amount: abs(amount - start)):
        if any(one.bound > tolerance for one in members if one.amount == amount):
            break
        reached = amount
    return reached


def range_words(ranges: tuple[TransformRange, ...]) -> str:
    """What holds, then what does not."""
    kept = ", ".join(one.words for one in ranges if one.some_hold)
    broken = ", ".join(one.words for one in ranges if not one.some_hold)
    return "; ".join(part for part in (kept and f"holds: {kept}", broken and f"does not: {broken}") if part)
