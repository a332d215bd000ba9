"""Symmetries from input to output of the networks that a run adapts to its test tasks.

A deep network may have a symmetry that no single layer shows. So the functions themselves are asked: on each test
task the run adapts to the support set, and its answers for the query inputs are compared with those for the moved
ones, ``f(g x)`` with ``g f(x)``. Test tasks took no part in training, so an interval over them holds for new ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from scipy.special import stdtrit
from torch import Tensor

from metasym.adaptation.functional import evaluating
from metasym.certification.certificate_thresholds import TOLERANCE
from metasym.inspection.given_groups import GivenGroup, Moves, given_group
from metasym.inspection.network import Move
from metasym.learners.base import Learner, accuracy
from metasym.tasks.sampling import sample
from metasym.types import Batch, MetasymError, Tasks

TASKS = 50
EXACT = 1e-8
"""Of the outputs' variance: what rounding in float32 may leave of an exact symmetry."""

Note = Callable[[int, int], None]


class Adapting(Protocol):
    """A run, as far as its adapted networks are asked."""

    @property
    def learner(self) -> Learner:
        """As trained."""
        ...

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one example."""
        ...

    @property
    def labels(self) -> bool:
        """Whether targets are classes."""
        ...

    @property
    def test_seed(self) -> int:
        """Of the episodes."""
        ...

    def test_tasks(self) -> Tasks:
        """Tasks that took no part in training."""
        ...


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

    @property
    def words(self) -> str:
        """What can be said of it."""
        if self.violation_upper <= EXACT:
            return "holds"
        return "holds nearly" if math.sqrt(self.violation_upper) <= TOLERANCE else "does not hold"


@dataclass(frozen=True)
class AdaptedFunctions:
    """What a group does to the networks that a run adapts to its test tasks."""

    group: str
    tasks: int
    score: float
    """On the queries as they are."""
    labels: bool
    elements: tuple[ElementOfFunctions, ...]
    note: str

    def to_json(self) -> dict[str, Any]:
        """Plain numbers and strings."""
        kept = ("name", "violation", "violation_upper", "same_class", "score", "words")
        elements = [{key: getattr(element, key) for key in kept} for element in self.elements]
        shown = ("group", "tasks", "score", "labels", "note")
        return {**{key: getattr(self, key) for key in shown}, "elements": elements}


def adapted_functions(
    opened: Adapting,
    group: GivenGroup | None = None,
    *,
    tasks: int = TASKS,
    note: Note = lambda _done, _of: None,
) -> AdaptedFunctions:
    """Ask the networks adapted to the first ``tasks`` test tasks about ``group``.

    Without a group, square images are asked about turns by quarters and flips. Classes are compared by their
    probabilities. ``note`` is told how many tasks are done.
    """
    name, moves_of = given_group(_by_default(opened.input_shape) if group is None else group)
    family = opened.test_tasks()
    count = min(tasks, len(family))
    if count < 2:
        raise MetasymError(f"expected at least 2 test tasks to ask, found {count}")
    rows = []
    for index in range(count):
        episode = sample(family, torch.tensor([index]), opened.test_seed)
        support, query = (Batch(part.x[0], part.y[0]) for part in (episode.support, episode.query))
        network = opened.learner.adapt(support)
        with torch.no_grad(), evaluating(network):
            row, moves, said = _task(network, moves_of, query, labels=opened.labels)
        rows.append(row)
        note(index + 1, count)
    return _joined(name, rows, moves, said, labels=opened.labels)


def _by_default(shape: tuple[int, ...]) -> str:
    if len(shape) == 3 and shape[1] == shape[2]:
        return "rotations-flips:4"
    raise MetasymError(f"expected --group: only square images have a group by default, found inputs {shape}")


@dataclass(frozen=True, eq=False)
class _Row:
    """One task: sums of squares and scores, a number for each element."""

    changed: list[float]
    spread: float
    same: list[float]
    scores: list[float]
    score: float


def _task(
    network: torch.nn.Module, moves_of: Moves, query: Batch, *, labels: bool
) -> tuple[_Row, list[Move], str]:
    answers = network(query.x)
    moves, said = moves_of(query.x, answers)
    outputs = _compared(answers, labels)
    row = _Row(
        [], float((outputs - outputs.mean(0)).square().mean()), [], [], _score(answers, query.y, labels)
    )
    for move in moves:
        found = network(move.inputs(query.x))
        goal = move.outputs(outputs)
        row.changed.append(float((_compared(found, labels) - goal).square().mean()))
        row.same.append(
            float((found.argmax(-1) == answers.argmax(-1)).double().mean()) if labels else math.nan
        )
        wanted = query.y if labels else move.outputs(query.y)
        row.scores.append(_score(found, wanted, labels))
    return row, moves, said


def _compared(answers: Tensor, labels: bool) -> Tensor:
    """Numbers that mean something: scores of classes only up to a constant, their probabilities do."""
    return answers.double().softmax(-1) if labels else answers.double()


def _score(answers: Tensor, y: Tensor, labels: bool) -> float:
    return float(accuracy(answers, y)) if labels else float((answers.double() - y.double()).square().mean())


def _joined(name: str, rows: list[_Row], moves: list[Move], said: str, *, labels: bool) -> AdaptedFunctions:
    spread = np.array([row.spread for row in rows])
    if not spread.sum() > 0:
        raise MetasymError(
            "expected adapted networks whose answers vary, found the same answer for every query"
        )
    elements = []
    for g, move in enumerate(moves):
        changed = np.array([row.changed[g] for row in rows])
        ratio, upper = _ratio(changed, spread)
        same = float(np.mean([row.same[g] for row in rows])) if labels else None
        score = float(np.mean([row.scores[g] for row in rows]))
        elements.append(ElementOfFunctions(move.name, ratio, upper, same, score))
    whole = float(np.mean([row.score for row in rows]))
    return AdaptedFunctions(name, len(rows), whole, labels, tuple(elements), said)


def _ratio(above: np.ndarray[Any, Any], below: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The ratio of two means over tasks and its upper limit at 95 %, by leaving out one task at a time."""
    count = len(above)
    ratio = float(above.sum() / below.sum())
    left_out = (above.sum() - above) / (below.sum() - below)
    error = math.sqrt((count - 1) / count * float(np.square(left_out - left_out.mean()).sum()))
    return ratio, ratio + float(stdtrit(count - 1, 0.95)) * error
