"""``adapt(..., structured=True)``: tasks adapt with a U that obeys its symmetry exactly, layers are compiled."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch

from metasym.inspection.layers import inspect
from metasym.inspection.projection import project
from metasym.learners.base import Learner
from metasym.structured.compilation import StructurePlan, structure_plan
from metasym.symmetry.reparam import symmetries
from metasym.types import MetasymError
from metasym.verdicts.reports import NEARLY
from metasym.verdicts.symmetry_report import SymmetryReport

L = TypeVar("L", bound=Learner)
Key = tuple[object, ...]


class Compiler:
    """What compiling needs of a learner, worked out once and kept until its U is changed."""

    def __init__(self) -> None:
        self._kept: dict[Key, tuple[Learner, StructurePlan]] = {}

    def __deepcopy__(self, memo: dict[int, object]) -> Compiler:
        return Compiler()

    def of(self, learner: L, *, batch: int = 32, onnx: bool = False) -> tuple[L, StructurePlan]:
        """The learner with its U projected on what was found in it, and the plan for its layers.

        A U that has its symmetry only nearly, with a residual above 0.1, is refused.
        """
        parts = [p for s in symmetries(learner.model).values() for p in (*s.parameters(), *s.buffers())]
        key: Key = (batch, onnx, *((id(p), p._version) for p in parts))
        if key not in self._kept:
            self._kept = {key: _compiled(learner, batch=batch, onnx=onnx)}
        found, plan = self._kept[key]
        return found, plan  # type: ignore[return-value]


def _compiled(learner: L, *, batch: int, onnx: bool) -> tuple[L, StructurePlan]:
    exact = copy.deepcopy(learner)
    if not symmetries(exact.model):
        raise MetasymError(
            f"expected a reparameterized model with structured=True, found a plain {type(exact.model).__name__}"
        )
    report = inspect(exact.model)
    check_near(report)
    if any(layer.pattern is not None and layer.pattern.clear for layer in report):
        with torch.no_grad():
            project(exact.model, report)
    return exact, structure_plan(exact.model, report, batch=batch, training=False, onnx=onnx)


def check_near(report: SymmetryReport) -> None:
    """Refuse to snap a U to a symmetry that it has only nearly."""
    for layer in report:
        pattern = layer.pattern
        if (
            pattern is not None
            and pattern.clear
            and len(layer.weight_shape) == 2
            and pattern.residual > NEARLY
        ):
            raise MetasymError(
                f"layer {layer.name!r}: expected a U that has its symmetry up to {NEARLY:g}, found one that has it "
                f"only nearly, error {pattern.residual:.2g}: project it first (ms.project, metasym inspect --project)"
            )
