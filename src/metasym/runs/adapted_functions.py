"""Symmetries from input to output of the networks that a run adapts to its test tasks.

A deep network may have a symmetry that no single layer shows. So the functions themselves are asked: on each test
task the run adapts to the support set, and its answers for the query inputs are compared with those for the moved
ones, ``f(g x)`` with ``g f(x)``. Test tasks are held out, so an interval over them holds for new ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import torch
from scipy.special import stdtrit
from torch import Tensor

from metasym.adaptation.functional import evaluating
from metasym.groups.signed_groups import SignedGroup
from metasym.inspection.element_actions import Move
from metasym.inspection.given_groups import GivenGroup, Moves, given_group
from metasym.learners.base import Learner, accuracy
from metasym.runs.proposed_groups import MOST_ENTRIES, linear_part, proposed_by_linear_parts
from metasym.tasks.sampling import sample
from metasym.types import Batch, MetasymError, Tasks
from metasym.verdicts.function_reports import AdaptedFunctions, ElementOfFunctions
from metasym.verdicts.status_thresholds import NEAR_FUNCTION, TRANSFORM_TOLERANCE

TASKS = 50
LEAST_PROPOSING = 8
"""Tasks that may propose a group."""

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
        """Held-out tasks."""
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
        """Held-out tasks."""
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
    first: int = 0,
    tolerance: float = TRANSFORM_TOLERANCE,
    note: Note = lambda _done, _of: None,
) -> AdaptedFunctions:
    """Ask the networks adapted to the test tasks from number ``first`` to ``tasks`` about ``group``.

    Without a group, :func:`default_group` has one. Classes are compared by their probabilities. Transforms of images
    hold up to ``tolerance``. ``note`` receives how many tasks are done.
    """
    if group is None:
        group, first = default_group(opened, tasks)
    count = min(tasks, len(opened.test_tasks()))
    if count - first < 2:
        raise MetasymError(
            f"expected at least 2 test tasks to ask, found {count - first}",
            about="tasks",
            found=count - first,
        )
    name, moves_of = given_group(group)
    rows = []
    for index in range(first, count):
        network, query = _adapted(opened, index)
        with torch.no_grad(), evaluating(network):
            row, moves, said = _task(network, moves_of, query, labels=opened.labels)
        rows.append(row)
        note(index + 1, count)
    return replace(_joined(name, rows, moves, said, labels=opened.labels), tolerance=tolerance)


def default_group(opened: Adapting, tasks: int = TASKS) -> tuple[GivenGroup, int]:
    """A group to ask about, and the first task that was not used to propose it.

    For images, ``[channels, height, width]``, the usual transforms. Else half of the tasks propose a group, by the
    mean derivatives of their networks.
    """
    if len(opened.input_shape) == 3:
        return "images", 0
    half = min(tasks, len(opened.test_tasks())) // 2
    return _proposed(opened, half), half


def _adapted(opened: Adapting, index: int) -> tuple[torch.nn.Module, Batch]:
    """The network adapted to a test task, and the task's queries."""
    episode = sample(opened.test_tasks(), torch.tensor([index]), opened.test_seed)
    support, query = (Batch(part.x[0], part.y[0]) for part in (episode.support, episode.query))
    return opened.learner.adapt(support), query


def _proposed(opened: Adapting, count: int) -> SignedGroup:
    """The largest group that the first ``count`` tasks suggest and that their networks are near to."""
    if count < LEAST_PROPOSING:
        raise MetasymError(
            f"expected a group, or {2 * LEAST_PROPOSING} test tasks of which half propose one, found {2 * count}",
            about="group",
            found=2 * count,
        )
    networks = [_adapted(opened, index) for index in range(count)]
    entries = networks[0][1].x[0].numel() * networks[0][0](networks[0][1].x[:1]).numel()
    groups = []
    if entries <= MOST_ENTRIES:
        parts = []
        for network, query in networks:
            with evaluating(network):
                parts.append(linear_part(network, query.x))
        groups = proposed_by_linear_parts(torch.stack(parts))
    for group in groups:
        rows: list[_Row] = []
        moves: list[Move] = []
        said = ""
        for network, query in networks:
            with torch.no_grad(), evaluating(network):
                row, moves, said = _task(network, given_group(group)[1], query, labels=opened.labels)
            rows.append(row)
        if _joined(group.name, rows, moves, said, labels=opened.labels).defect <= NEAR_FUNCTION:
            return group
    raise MetasymError(
        "expected a group to ask about, found none: the adapted networks suggest none", about="group"
    )


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
            "expected adapted networks whose answers vary, found the same answer for every query",
            about="answers",
            found="the same answer for every query",
        )
    elements = []
    for g, move in enumerate(moves):
        changed = np.array([row.changed[g] for row in rows])
        ratio, upper = _ratio(changed, spread)
        same = float(np.mean([row.same[g] for row in rows])) if labels else None
        score = float(np.mean([row.scores[g] for row in rows]))
        elements.append(ElementOfFunctions(move.name, ratio, upper, same, score, move.family, move.amount))
    whole = float(np.mean([row.score for row in rows]))
    return AdaptedFunctions(name, len(rows), whole, labels, tuple(elements), said)


def _ratio(above: np.ndarray[Any, Any], below: np.ndarray[Any, Any]) -> tuple[float, float]:
    """The ratio of two means over tasks and its upper limit at 95 %, by leaving out one task at a time."""
    count = len(above)
    ratio = float(above.sum() / below.sum())
    left_out = (above.sum() - above) / (below.sum() - below)
    error = math.sqrt((count - 1) / count * float(np.square(left_out - left_out.mean()).sum()))
    return ratio, ratio + float(stdtrit(count - 1, 0.95)) * error
