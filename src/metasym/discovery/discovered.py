"""What ``discover`` gives: the verdict, the errors with and without the symmetry, and the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn

from metasym.discovery.models.fitted_module import State, module_of
from metasym.types import MetasymError, shortened
from metasym.verdicts.asked_groups import FunctionAnswer
from metasym.verdicts.discovery_verdict import DiscoveryVerdict, candidate_json


@dataclass(frozen=True, eq=False)
class Scores:
    """A model's error on held-out examples."""

    error: float
    """Mean squared error over examples and outputs, in the units of y; for labels 1 - accuracy."""
    interval: float
    """Half of its 95 % interval."""
    relative: float
    """The mean squared error divided by the variance of y."""
    by_output: tuple[float, ...] = ()
    """The same of each output by its own variance; empty where there is one output, or labels."""

    def as_dict(self, metric: str) -> dict[str, Any]:
        """Plain types, for ``result.json``."""
        value = 1 - self.error if metric == "accuracy" else self.error
        found = {"metric": metric, "mean": value, "ci95": self.interval, "relative": self.relative}
        return {**found, "by_output": list(self.by_output)} if self.by_output else found


@dataclass(frozen=True, eq=False)
class Discovered:
    """What was found in one data set."""

    verdict: DiscoveryVerdict
    """What is claimed, and what became of every other candidate; ``str`` of it is one line."""
    plain: Scores | None
    """None where a function was called, and nothing fitted."""
    symmetric: Scores | None
    """The error with what is claimed built in; None where nothing is."""
    state: State | None
    """What defines the model; None where a function was called."""
    metric: str
    examples: int
    held_out: int
    notes: list[str] = field(default_factory=list)
    answer: FunctionAnswer | None = None
    """About the group that a user asked about; None where none was."""
    family: bool = False
    """Whether these are tasks of a family: ``examples`` and ``held_out`` count tasks then."""

    def __repr__(self) -> str:
        return shortened(f"Discovered({self.verdict})")

    @property
    def model(self) -> nn.Module:
        """Of one function: with the symmetry where that has the higher evidence, fitted to all examples."""
        if self.state is None:
            raise MetasymError(
                "expected a fitted model, found a function that was called: use the function itself",
                about="model",
                found="a function that was called",
            )
        return module_of(self.state)

    @property
    def symmetries(self) -> list[dict[str, Any]]:
        """What is claimed, as in ``result.json``; empty where nothing is."""
        return [claim.to_json() for claim in self.verdict.claims]

    @property
    def refused(self) -> list[dict[str, Any]]:
        """What is not claimed, as in ``result.json``, with the reasons."""
        return [candidate_json(one) for one in self.verdict.candidates]
