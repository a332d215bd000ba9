"""``ms.structured``: a copy of a model, or of what a learner adapts, whose layers are the cheapest equal ones."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, overload

import torch
from torch import nn

from metasym.argument_types import checked
from metasym.fast_layers.compilation import StructurePlan, structure_plan
from metasym.fast_layers.replaceable import linear_layers, replaced
from metasym.inspection.layers import inspect
from metasym.inspection.projection import project
from metasym.learners.base import Learner
from metasym.learners.evidence_msr import EvidenceMSR
from metasym.symmetry.reparam import symmetries
from metasym.types import Batch, MetasymError
from metasym.verdicts.status_thresholds import NEARLY
from metasym.verdicts.symmetry_report import SymmetryReport


@dataclass(frozen=True, eq=False)
class StructuredLearner:
    """What :func:`metasym.structured` makes of a learner: worked out once, for the adapted networks of all tasks."""

    learner: Learner
    """A copy with U projected on the symmetry that was found in it."""
    plan: StructurePlan
    """What becomes of each layer."""

    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """An ordinary ``nn.Module`` adapted to one task, its layers compiled where that pays."""
        found = self.learner.adapt(support, inner_steps=inner_steps)
        # A posterior mean has U's symmetry only as nearly as the mean of all tasks does: it is averaged.
        return _with_compiled(found, self.plan, project=isinstance(self.learner, EvidenceMSR))


@overload  # a learner is a module too: the first that fits is taken
def structured(  # type: ignore[overload-overlap]
    module: Learner, structure: None = None, *, batch: int = 32, onnx: bool = False
) -> StructuredLearner: ...
@overload
def structured(
    module: nn.Module,
    structure: Any = None,
    *,
    project: bool = False,
    batch: int = 32,
    training: bool = True,
    onnx: bool = False,
    always: bool = False,
) -> nn.Module: ...
@checked
def structured(
    module: nn.Module | Learner,
    structure: Any = None,
    *,
    project: bool = False,
    batch: int = 32,
    training: bool = True,
    onnx: bool = False,
    always: bool = False,
) -> nn.Module | StructuredLearner:
    """Return a copy of ``module`` in which each layer with a structure becomes the cheapest equal computation.

    Other layers stay as they are, with symmetries baked. The copy has plain modules only.

    Args:
        module: A network; or a learner, which gives a :class:`StructuredLearner` (it takes ``batch`` and ``onnx``
            only): U is projected on the symmetry found in it, and ``adapt`` gives compiled networks.
        structure: What :func:`metasym.inspect` finds in the U of each layer, unless given: its report; or, for plain
            layers too, ``{layer name: structure}``, or the structure alone for a single layer. A structure is a
            ``Group`` (or a pair, for outputs and inputs), a ``SharingPattern``, or whole numbers
            ``[outputs, inputs]``: 0 is zero, equal numbers are tied, opposite ones tied up to sign.
        project: Average a weight that has its structure only nearly. Without it such a weight is refused.
        batch: Number of examples in a batch, for the estimate of what pays. :func:`structure_plan` shows the
            estimate.
        training: Whether the backward pass counts in the estimate.
        onnx: Leave out Fourier transforms, which ONNX runtimes compute slowly.
        always: Compile even where the estimate says that it does not pay.

    Returns:
        A new module; ``module`` does not change.

    Example:
        >>> import torch, metasym as ms
        >>> layer = torch.nn.Linear(2, 2, bias=False)
        >>> _ = layer.weight.data.copy_(torch.tensor([[1.0, 3.0], [3.0, 1.0]]))
        >>> fast = ms.structured(layer, torch.tensor([[1, 2], [2, 1]]), always=True)
        >>> fast.state_dict()["filter"].tolist()
        [1.0, 3.0]
    """
    if isinstance(module, Learner):
        if structure is not None or project or always or not training:
            raise MetasymError(
                "expected a learner with batch= and onnx= alone, found other options too",
                about="learner",
                found="other options",
            )
        return _structured_learner(module, batch=batch, onnx=onnx)
    plan = structure_plan(
        module, structure, project=project, batch=batch, training=training, onnx=onnx, always=always
    )
    return plan.apply(module, project=project)


def _structured_learner(learner: Learner, *, batch: int = 32, onnx: bool = False) -> StructuredLearner:
    """Project a learner's U and plan its layers for batches of ``batch`` examples.

    A U that has its symmetry only nearly, with a residual above 0.1, is refused.
    """
    exact = copy.deepcopy(learner)
    if not symmetries(exact.model):
        raise MetasymError(
            f"expected a learner of a reparameterized model, found one of a plain {type(exact.model).__name__}",
            about="learner",
            found=type(exact.model).__name__,
        )
    report = inspect(exact.model)
    _check_near(report)
    if any(layer.pattern is not None and layer.pattern.clear for layer in report):
        with torch.no_grad():
            project(exact.model, report)
    return StructuredLearner(
        exact, structure_plan(exact.model, report, batch=batch, training=False, onnx=onnx)
    )


def _with_compiled(adapted: nn.Module, plan: StructurePlan, *, project: bool) -> nn.Module:
    """The adapted module with its network compiled: itself, or the part of it that the learner's model became."""
    wanted = {layer.name: layer.shape for layer in plan.layers}
    for part in adapted.modules():
        found = {name: tuple(layer.weight.shape) for name, layer in linear_layers(part).items()}
        if found == wanted:
            return replaced(adapted, part, plan.apply(part, project=project))
    raise MetasymError(
        f"expected adapt to give a module with the learner's linear layers {wanted}, found a "
        f"{type(adapted).__name__} without them",
        about="adapt",
        found=type(adapted).__name__,
    )


def _check_near(report: SymmetryReport) -> None:
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
                f"only nearly, error {pattern.residual:.2g}: "
                "project it first (ms.project, metasym inspect --project)",
                about=f"layer {layer.name!r}",
                found=pattern.residual,
            )
