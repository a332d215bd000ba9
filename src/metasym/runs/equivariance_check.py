"""``ms.check_equivariance``: how far a function, or the networks that a learner adapts, are from a given group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from metasym.argument_types import checked
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.call_certificate import CallCertificate
from metasym.discovery.callables.function_symmetries import looked_at
from metasym.inspection.given_groups import GivenGroup, given_group
from metasym.learners.base import Learner
from metasym.runs.adapted_functions import TASKS, LearnerOnTasks, adapted_functions
from metasym.runs.discovering.function_files import as_function
from metasym.runs.proposed_groups import proposed_by_calls
from metasym.runs.run import Run
from metasym.runs.trained_run import TrainedRun
from metasym.types import MetasymError, shortened
from metasym.verdicts.function_reports import AdaptedFunctions
from metasym.verdicts.status_thresholds import TRANSFORM_TOLERANCE
from metasym.verdicts.transform_ranges import TransformRange, range_words, transform_ranges

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
    family: str = ""
    """Of the usual transforms of images, empty for elements of a group: those of one family differ by ``amount``."""
    amount: float = 0.0

    @property
    def bound(self) -> float:
        """What both are at most, at 95 %."""
        return max(self.defect_upper, self.worst_output_upper)


@dataclass(frozen=True)
class FunctionEquivariance:
    """How far a function is from equivariance to a group, element by element."""

    group: str
    points: int
    elements: tuple[ElementDefect, ...]
    note: str = ""
    tolerance: float = TRANSFORM_TOLERANCE
    """The defect, with its bound, up to which a transform of images holds."""

    @property
    def worst(self) -> ElementDefect:
        """The element with the largest bound."""
        return max(self.elements, key=lambda one: one.bound)

    @property
    def ranges(self) -> tuple[TransformRange, ...]:
        """Of the usual transforms of images: how far each may go."""
        return transform_ranges(self.elements, self.tolerance)

    def to_json(self) -> dict[str, Any]:
        """Plain types."""
        return asdict(self)

    def __repr__(self) -> str:
        return shortened(f"FunctionEquivariance({self})")

    def __str__(self) -> str:
        if self.ranges:
            return f"{self.group}: {range_words(self.ranges)} (within {self.tolerance:.2g}, {self.points} points)"
        worst = self.worst
        return (
            f"{self.group}: largest defect {worst.defect:.2g} ({worst.name}); at most "
            f"{worst.bound:.2g} for any output ({len(self.elements)} elements, "
            f"{self.points} points)"
        )


@checked
def check_equivariance(
    f: Callable[[Any], Any] | Learner | Run | Any,
    x: Any = None,
    group: GivenGroup | None = None,
    *,
    tasks: int = TASKS,
    tolerance: float = TRANSFORM_TOLERANCE,
    seed: int = 0,
) -> FunctionEquivariance | AdaptedFunctions:
    """How far ``f`` is from equivariance to ``group``: ``f(g x)`` beside ``g f(x)``, for each element g.

    Args:
        f: a function as ``ms.discover(f, x)`` takes, a learner, or a run (``ms.open_run``) with a learner.
        x: for a function a sample of inputs or a function that draws them; for a learner its test tasks; for a run
            nothing, but for one of ``ms.train`` its test tasks.
        group: a name as ``metasym inspect --group`` takes (``"dihedral"``), a group of ``ms.groups``, a
            ``SignedGroup`` or a list of its elements. Default: for images ``[channels, height, width]``
            ``"images"``, the usual transforms and how far each may go; else a group that other calls, or other
            tasks, propose.
        tasks: the test tasks that a learner adapts to, at most.
        tolerance: the defect, with its bound, up to which a transform of images holds.
        seed: of the points, or of the tasks' episodes.


    Example:
        >>> import torch, metasym as ms
        >>> ring = torch.nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular", bias=False)
        >>> found = ms.check_equivariance(lambda x: ring(x[:, None])[:, 0], torch.randn(100, 8), "shifts")
        >>> max(element.defect for element in found.elements) < 1e-5
        True
    """
    if isinstance(f, TrainedRun):
        f = f.learner
    if isinstance(f, Run):
        if x is not None:
            raise MetasymError("expected no x for a run with test tasks of its own, found one", about="x")
        return adapted_functions(f, group, tasks=tasks, tolerance=tolerance)
    if isinstance(f, Learner):
        return adapted_functions(LearnerOnTasks(f, x, seed), group, tasks=tasks, tolerance=tolerance)
    function = as_function(f)
    if function is None:
        raise MetasymError(f"expected a function, a learner or a run, found {type(f).__name__}", about="f")
    return _of_function(function, x, group, tolerance, seed)


def _of_function(
    f: Callable[[Any], Any], x: Any, group: GivenGroup | None, tolerance: float, seed: int
) -> FunctionEquivariance:
    called, draws = looked_at(f, x, seed)
    centre: Array = np.zeros(called.inputs)
    if group is None and len(called.input_shape) == 3:
        group = "images"
    elif group is None:
        group, centre = proposed_by_calls(called, draws, seed)
    points = draws.fresh(POINTS)
    certificate = CallCertificate(called, points, centre)
    name, moves_of = given_group(group)
    given, y = (
        torch.from_numpy(values).reshape(len(points), *shape)
        for values, shape in ((points - centre, called.input_shape), (certificate.y, called.output_shape))
    )
    moves, note = moves_of(given, y)
    spread = (certificate.y - certificate.y.mean(0)) ** 2
    least = (called.rounding**2) * (certificate.y**2).mean(0)
    elements = []
    for move in moves:
        there = move.inputs(given).reshape(len(points), -1).numpy() + centre
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
        elements.append(
            ElementDefect(
                move.name, together.value, together.upper, each.value, each.upper, move.family, move.amount
            )
        )
    return FunctionEquivariance(name, len(points), tuple(elements), note, tolerance)
