"""How far networks that were adapted to tasks are from a group, element by element: values."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from metasym.types import shortened
from metasym.verdicts.status_thresholds import (
    EXACT_FUNCTION,
    NEAR_FUNCTION,
    NEARLY_FUNCTION,
    TRANSFORM_TOLERANCE,
)
from metasym.verdicts.transform_ranges import TransformRange, range_words, transform_ranges


class Held(enum.StrEnum):
    """How well functions keep to an element, best first; the value is what is printed."""

    EXACTLY = "holds"
    NEARLY = "holds nearly"
    NEAR = "near"
    NOT = "does not hold"


@dataclass(frozen=True)
class ElementOfFunctions:
    """How well the adapted networks keep to one element g of a group."""

    name: str
    violation: float
    """``mean |f(g x) - g f(x)|^2`` over that of ``f(x)`` about its task's mean: 0 exact, 2 unrelated."""
    violation_upper: float
    """What it is at most, at 95 %, for tasks like these."""
    same_class: float | None
    """The share of queries whose predicted class stays; None without classes."""
    score: float
    """Accuracy, or mean squared error, on the moved queries."""
    family: str = ""
    """Of the usual transforms of images, empty for elements of a group: those of one family differ by ``amount``."""
    amount: float = 0.0

    @property
    def bound(self) -> float:
        """What the defect is at most, at 95 %."""
        return self.defect_upper

    @property
    def defect(self) -> float:
        """The root of the violation: 0 exact, 1.4 unrelated."""
        return math.sqrt(max(0.0, self.violation))

    @property
    def defect_upper(self) -> float:
        """What the defect is at most, at 95 %, for tasks like these."""
        return math.sqrt(max(0.0, self.violation_upper))

    @property
    def held(self) -> Held:
        """How well the networks keep to it."""
        if self.violation_upper <= EXACT_FUNCTION:
            return Held.EXACTLY
        if self.defect_upper <= NEARLY_FUNCTION:
            return Held.NEARLY
        return Held.NEAR if self.defect <= NEAR_FUNCTION else Held.NOT


@dataclass(frozen=True)
class AdaptedFunctions:
    """What a group does to the networks that a learner adapts to its test tasks."""

    group: str
    tasks: int
    score: float
    """On the queries as they are."""
    labels: bool
    elements: tuple[ElementOfFunctions, ...]
    note: str
    tolerance: float = TRANSFORM_TOLERANCE
    """The defect, with its bound, up to which a transform of images holds."""

    @property
    def worst(self) -> ElementOfFunctions:
        """The element with the largest bound."""
        return max(self.elements, key=lambda one: one.violation_upper)

    @property
    def defect(self) -> float:
        """That of the worst element."""
        return self.worst.defect

    @property
    def defect_upper(self) -> float:
        """That of the worst element."""
        return self.worst.defect_upper

    @property
    def ranges(self) -> tuple[TransformRange, ...]:
        """Of the usual transforms of images: how far each may go."""
        return transform_ranges(self.elements, self.tolerance)

    def __repr__(self) -> str:
        return shortened(f"AdaptedFunctions({self})")

    def __str__(self) -> str:
        if self.ranges:
            return (
                f"{self.group}: {range_words(self.ranges)} (within {self.tolerance:.2g}, {self.tasks} tasks)"
            )
        worst = self.worst
        return (
            f"{self.group}: largest defect {worst.defect:.2g} ({worst.name}); at most "
            f"{worst.defect_upper:.2g} ({len(self.elements)} elements, {self.tasks} tasks)"
        )

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        elements = []
        for one in self.elements:
            derived = {"defect": one.defect, "defect_upper": one.defect_upper, "words": str(one.held)}
            found = {**asdict(one), **derived}
            if not one.family:
                del found["family"], found["amount"]
            elements.append(found)
        return {**asdict(self), "elements": elements}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AdaptedFunctions:
        """What :meth:`to_json` made ``value`` of."""
        kept = tuple(field.name for field in fields(ElementOfFunctions))
        elements = tuple(
            ElementOfFunctions(**{key: one[key] for key in kept if key in one}) for one in value["elements"]
        )
        rest = (value["group"], value["tasks"], value["score"], value["labels"], elements, value["note"])
        return cls(*rest, value.get("tolerance", TRANSFORM_TOLERANCE))
