"""Held-out tasks of a training, and the state that did best on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from metasym.training.evaluation import MetricChoice
from metasym.types import Tasks


@dataclass(frozen=True)
class HeldOut:
    """Held-out tasks, with the name of their metric, its goal and the number of tasks all decided."""

    tasks: Tasks
    every: int
    metric: MetricChoice
    name: str
    goal: str
    count: int

    def better(self, value: float, than: float) -> bool:
        """Whether ``value`` is the better score; never for NaN."""
        return value > than if self.goal == "max" else value < than


class Best(NamedTuple):
    """The learner's state at the validation that went best."""

    value: float
    step: int
    state: dict[str, Any]
