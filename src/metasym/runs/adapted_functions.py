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
from metasym.inspection.given_groups import GivenGroup, Moves, given_group
from metasym.inspection.network import Move
from metasym.learners.base import Learner, accuracy
from metasym.tasks.sampling import sample
from metasym.types import Batch, MetasymError, Tasks
from metasym.verdicts.function_reports import AdaptedFunctions, ElementOfFunctions

TASKS = 50

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


@dataclass(frozen=True, eq=False)
class LearnerOnTasks:
    """A learner with its test tasks, as :func:`adapted_functions` asks them."""

    learner: Learner
    tasks: Any
    test_seed: int

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one example."""
        return tuple(self._example.support.x.shape[1:])

    @property
    def labels(self) -> bool:
        """Whether targets are classes."""
        return not self._example.support.y.is_floating_point()

    @property
    def _example(self) -> Any:
        return self.test_tasks().episode(0, torch.Generator().manual_seed(self.test_seed))

    def test_tasks(self) -> Tasks:
        """Tasks that took no part in training."""
        if not hasattr(self.tasks, "episode") or not hasattr(self.tasks, "__len__"):
            raise MetasymError(
                f"expected the test tasks of a learner, found {type(self.tasks).__name__}", about="x"
            )
        found: Tasks = self.tasks
        return found


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
