"""What a run has learned, read from its checkpoint: each layer's symmetry, and a weight to look at."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from metasym.learners import Learner
from metasym.report.page.run_folders import Run
from metasym.runs.finished_runs import open_run
from metasym.runs.reproducing.experiment_run import load_run
from metasym.storage.file_names import CURRENT
from metasym.storage.serialization import CheckpointError
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.symmetry.parametrized import JOINT, layer_of_filter, symmetry_name
from metasym.symmetry.pruning import completed_matrix
from metasym.symmetry.reparam import symmetries
from metasym.tasks.sampling import sample, seeded
from metasym.training.checkpoint import learner_state
from metasym.types import Batch, MetasymError

ADAPTED = "adapted to the first test task"
START = "where adaptation starts"
DRAWN = "made by U from a filter drawn at random"


@dataclass(frozen=True)
class Layer:
    """One layer with a weight of two or more dimensions."""

    name: str
    weight: Tensor | None
    """Float64; None where its shape is not known."""
    about: str
    """Which weight it is."""
    symmetry: Symmetry | None
    """None in a plain layer."""
    columns: Tensor | None = None
    """A dense U whose layer's shape is not known."""
    note: str = ""
    """Why something is missing."""


@dataclass(frozen=True)
class Learned:
    """The layers of a run's model."""

    layers: list[Layer]
    model: nn.Module | None
    """The model with what was learned, where it could be built again."""


def learned(run: Run) -> Learned:
    """The layers of a run with a checkpoint.

    A run whose tasks can be made again shows a weight adapted to a test task; a run whose model can be built
    again shows what its U makes. For other runs the checkpoint's tensors are shown, as far as their shapes are known.
    """
    path = run.folder / CURRENT
    state = learner_state(path)
    try:
        learner, support = _rebuilt(run)
    except CheckpointError:
        raise
    except MetasymError:
        report = run.report
        shapes = {} if report is None else {layer.name: layer.weight_shape for layer in report}
        given = (run.result or {}).get("completed")
        return Learned(_from_state(state, shapes, 0.0 if given is None else given["strength"]), None)
    if support is None:
        return Learned(_at_start(learner.model), learner.model)
    try:
        adapted = learner.adapt(support)
    except (
        MetasymError,
        RuntimeError,
    ):  # what was learned is not finite, so nothing can be solved with it
        return Learned(_at_start(learner.model), learner.model)
    return Learned(_layers(learner, adapted), learner.model)


def _rebuilt(run: Run) -> tuple[Learner, Batch | None]:
    """The run's learner as trained, and the support set of a test task where the catalogue can make it."""
    if run.config.get("command", "run") != "run":
        return open_run(run.folder).learner, None
    _, problem, learner = load_run(run.folder)
    episodes = sample(problem.test, torch.tensor([0]), 0)
    return learner, Batch(episodes.support.x[0], episodes.support.y[0])


def _at_start(model: nn.Module) -> list[Layer]:
    """The layers of a model that is not adapted to any task."""
    layers = [Layer(name, drawn_weight(one), DRAWN, one) for name, one in symmetries(model).items()]
    for name, parameter in model.named_parameters():
        layer, _, last = name.rpartition(".")
        if parameter.ndim >= 2 and last == "weight":
            layers.append(Layer(layer, parameter.detach().double().cpu(), START, None))
    return layers


def _layers(learner: Learner, adapted: nn.Module) -> list[Layer]:
    """The layers of ``learner``, with the weights they have in the plain module ``adapted``."""
    found = symmetries(learner.model)
    layers = []
    for name, parameter in adapted.named_parameters():
        layer, _, last = name.rpartition(".")
        if parameter.ndim >= 2 and last == "weight":
            layers.append(Layer(layer, parameter.detach().double().cpu(), ADAPTED, found.get(layer)))
    return layers


def _from_state(
    state: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], strength: float
) -> list[Layer]:
    """The layers as far as the names and shapes of the checkpoint's tensors tell.

    ``shapes`` are those of the layers' weights, where a stored report knows them. ``strength`` is that of the
    directions that were given back to U after the checkpoint, 0 if there were none: the report is about the
    completed U.
    """
    best = state.get("best")
    chosen = state["learner"] if best is None else best["state"]
    tensors = {
        key.removeprefix("model."): value.detach().double().cpu()
        for key, value in chosen.items()
        if isinstance(value, Tensor) and key.startswith("model.") and value.is_floating_point()
    }
    layers = []
    for key, value in tensors.items():
        layer = layer_of_filter(key)
        if layer is not None:
            layers.append(_reparameterized(layer, shapes, tensors, strength))
        elif re.fullmatch(r"(?:.*\.)?weight", key) and value.ndim >= 2:
            layers.append(Layer(key.removesuffix("weight").rstrip("."), value, START, None))
    return layers


def _reparameterized(
    name: str, shapes: Mapping[str, tuple[int, ...]], tensors: Mapping[str, Tensor], strength: float
) -> Layer:
    own = symmetry_name(name)
    for head in (f"{own}.", f"{own}.{JOINT}."):
        if f"{head}U1" in tensors:
            factors: list[Tensor] = []
            while f"{head}U{len(factors) + 1}" in tensors:
                factors.append(tensors[f"{head}U{len(factors) + 1}"])
            if not all(bool(torch.isfinite(factor).all()) for factor in factors):
                return Layer(name, None, "", None, note="U has entries of NaN or infinity: nothing is drawn.")
            symmetry = KroneckerSymmetry(shapes.get(name) or _kronecker_shape(factors), factors=factors)
            return Layer(name, drawn_weight(symmetry), DRAWN, symmetry)
        if f"{head}U" in tensors:
            U = tensors[f"{head}U"]
            if 0 < strength <= 1 and U.ndim == 2 and bool(torch.isfinite(U).all()):
                U = completed_matrix(U, strength)
            if math.prod(shapes.get(name, ())) == len(U) and bool(torch.isfinite(U).all()):
                dense = DenseSymmetry(shapes[name], U=U)
                return Layer(name, drawn_weight(dense), DRAWN, dense)
            missing = (
                "The checkpoint does not say which shape this layer's weight has, so that none is drawn."
            )
            return Layer(name, None, "", None, columns=U, note=missing)
    unknown = "This layer's symmetry is of a kind that cannot be read from the checkpoint alone."
    return Layer(name, None, "", None, note=unknown)


def _kronecker_shape(factors: list[Tensor]) -> list[int]:
    """The weight's shape: the factor of space counts a square kernel where it can."""
    sizes = [len(factor) for factor in factors]
    if len(sizes) == 3:
        side = math.isqrt(sizes[2])
        sizes[2:] = [side, side] if side * side == sizes[2] else [sizes[2]]
    return sizes


def drawn_weight(symmetry: Symmetry) -> Tensor:
    """``W = U v`` for a v drawn at random: which entries are tied shows without any task."""
    v = torch.randn(symmetry.filter_shape, generator=seeded(0), dtype=torch.float64)
    with torch.no_grad():
        weight: Tensor = copy.deepcopy(symmetry).cpu().double()(v)
    return weight
