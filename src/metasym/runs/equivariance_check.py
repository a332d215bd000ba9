"""``ms.check_equivariance``: how far a function, or the networks that a learner adapts, are from a given group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from metasym.discovery.callables.call_certificate import CallCertificate
from metasym.discovery.callables.function_symmetries import looked_at
from metasym.inspection.given_groups import GivenGroup, given_group
from metasym.learners.base import Learner
from metasym.runs.adapted_functions import TASKS, LearnerOnTasks, adapted_functions
from metasym.runs.discovering.function_files import as_function
from metasym.runs.run import Run
from metasym.types import MetasymError
from metasym.verdicts.function_reports import AdaptedFunctions

POINTS = 512
"""At which a function is called."""


@dataclass(frozen=True)
class ElementDefect:
    """How far a function is from keeping one element g."""

    name: str
    defect: float
    """The root mean square of ``f(g x) - g' f(x)`` over the deviation of ``f(x)``: 0 exact, 1.4 unrelated."""
    defect_upper: float
    """Its upper bound at 95 %."""
    worst_output: float
    """The same of the worst output, on its own scale."""
    worst_output_upper: float


@dataclass(frozen=True)
class FunctionEquivariance:
    """How far a function is from equivariance to a group, element by element."""

    group: str
    points: int
    elements: tuple[ElementDefect, ...]
    note: str = ""

    @property
    def worst(self) -> ElementDefect:
        """The element with the largest bound."""
        return max(self.elements, key=lambda one: max(one.defect_upper, one.worst_output_upper))

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)

    def __str__(self) -> str:
        worst = self.worst
        return (
            f"{self.group}: {worst.defect:.2g} off at the worst element, {worst.name}; at most "
            f"{max(worst.defect_upper, worst.worst_output_upper):.2g} for any output ({len(self.elements)} elements, "
            f"{self.points} points)"
        )


def check_equivariance(
    f: Callable[[Any], Any] | Learner | Run | Any,
    x: Any = None,
    group: GivenGroup | None = None,
    *,
    tasks: int = TASKS,
    seed: int = 0,
) -> FunctionEquivariance | AdaptedFunctions:
    """How far ``f`` is from equivariance to ``group``: ``f(g x)`` beside ``g f(x)``, for each element g.

    Args:
        f: a function as ``ms.discover(f, x)`` takes, a learner, or a run (``ms.open_run``) with a learner.
        x: for a function a sample of inputs or a function that draws them; for a learner its test tasks; for a run
            nothing.
        group: a name as ``metasym inspect --group`` takes (``"dihedral"``), a group of ``ms.groups``, a
            ``SignedGroup`` or a list of its elements. A learner of square images has turns and flips by default.
        tasks: the test tasks that a learner adapts to, at most.
        seed: of the points, or of the tasks' episodes.

    """
    if isinstance(f, Run):
        if x is not None:
            raise MetasymError("expected no x for a run, which has its own test tasks, found one", about="x")
        if not hasattr(f, "test_tasks"):
            raise MetasymError(
                "expected a run with test tasks, found one without: give its learner and the tasks", about="f"
            )
        return adapted_functions(f, group, tasks=tasks)
    if isinstance(f, Learner):
        return adapted_functions(LearnerOnTasks(f, x, seed), group, tasks=tasks)
    if group is None:
        raise MetasymError("expected a group to ask about, found none", about="group")
    function = as_function(f)
    if function is None:
        raise MetasymError(f"expected a function, a learner or a run, found {type(f).__name__}", about="f")
    return _of_function(function, x, group, seed)


def _of_function(f: Callable[[Any], Any], x: Any, group: GivenGroup, seed: int) -> FunctionEquivariance:
    called, draws = looked_at(f, x, seed)
    points = draws.fresh(POINTS)
    certificate = CallCertificate(called, points, np.zeros(called.inputs))
    name, moves_of = given_group(group)
    given, y = (
        torch.from_numpy(values).reshape(len(points), *shape)
        for values, shape in ((points, called.input_shape), (certificate.y, called.output_shape))
    )
    moves, note = moves_of(given, y)
    spread = (certificate.y - certificate.y.mean(0)) ** 2
    least = (called.rounding**2) * (certificate.y**2).mean(0)
    elements = []
    for move in moves:
        there = move.inputs(given).reshape(len(points), -1).numpy()
        goal = move.outputs(y).reshape(len(points), -1).numpy()
        apart = (called(there) - goal) ** 2
        noise = called.noise
        together = certificate.relative(
            apart.sum(1), spread.sum(1), 2 * noise.sum(), noise.sum(), float(least.sum())
        )
        varies = spread.mean(0) > least
        each = certificate.relative(
            apart[:, varies], spread[:, varies], 2 * noise[varies], noise[varies], least[varies]
        )
        elements.append(ElementDefect(move.name, together.value, together.upper, each.value, each.upper))
    return FunctionEquivariance(name, len(points), tuple(elements), note)
