"""What a run has learned, out of its checkpoint: each layer's symmetry, and a weight to look at."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from metasym.checkpoint import CURRENT, read_bytes
from metasym.experiments.run import load_run
from metasym.learners import Learner
from metasym.reparam import symmetries
from metasym.report.page.read import Run
from metasym.serialization import CheckpointError, unpack
from metasym.symmetry import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.tasks.sampling import sample, seeded
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


@dataclass(frozen=True)
class Learned:
    """The layers of a run's model."""

    layers: list[Layer]
    model: nn.Module | None
    """The model with what was learned, where it could be built again."""


def learned(run: Run) -> Learned:
    """The layers of a run with a checkpoint.

    A run whose tasks and model can be built again shows a weight adapted to a test task. Of others the
    checkpoint's tensors are shown as they are.
    """
    state = unpack(read_bytes(run.folder / CURRENT), str(run.folder / CURRENT))
    try:
        experiment, problem, learner = load_run(run.folder)
    except CheckpointError:
        raise
    except MetasymError:
        return Learned(_from_state(state), None)
    del experiment
    episodes = sample(problem.test, torch.tensor([0]), 0)
    support = Batch(episodes.support.x[0], episodes.support.y[0])
    return Learned(_layers(learner, learner.adapt(support)), learner.model)


def _layers(learner: Learner, adapted: nn.Module) -> list[Layer]:
    """The layers of ``learner``, with the weights they have in the plain module ``adapted``."""
    found = symmetries(learner.model)
    layers = []
    for name, parameter in adapted.named_parameters():
        layer, _, last = name.rpartition(".")
        if parameter.ndim >= 2 and last == "weight":
            layers.append(Layer(layer, parameter.detach().double().cpu(), ADAPTED, found.get(layer)))
    return layers


def _from_state(state: Mapping[str, Any]) -> list[Layer]:
    """The layers as far as the names and shapes of the checkpoint's tensors tell."""
    best = state.get("best")
    chosen = best["state"] if isinstance(best, dict) and "state" in best else state.get("learner", {})
    tensors = {
        key.removeprefix("model."): value.detach().double().cpu()
        for key, value in chosen.items()
        if isinstance(value, Tensor) and key.startswith("model.") and value.is_floating_point()
    }
    layers = []
    for key, value in tensors.items():
        found = re.fullmatch(r"(?:(.*)\.)?parametrizations\.weight\.original", key)
        if found:
            layers.append(_reparameterized(found[1] or "", value, tensors, key.removesuffix("original")))
        elif re.fullmatch(r"(?:.*\.)?weight", key) and value.ndim >= 2:
            layers.append(Layer(key.removesuffix("weight").rstrip("."), value, START, None))
    return layers


def _reparameterized(name: str, v: Tensor, tensors: Mapping[str, Tensor], prefix: str) -> Layer:
    for head in (f"{prefix}0.", f"{prefix}0.symmetry."):
        if f"{head}U1" in tensors:
            factors = []
            while f"{head}U{len(factors) + 1}" in tensors:
                factors.append(tensors[f"{head}U{len(factors) + 1}"])
            symmetry = KroneckerSymmetry(_kronecker_shape(factors), factors=factors, learnable=False)
            return Layer(name, symmetry(v), START, symmetry)
        if f"{head}U" in tensors:
            return Layer(name, None, START, None, columns=tensors[f"{head}U"])
    return Layer(name, None, START, None)


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
    if isinstance(symmetry, DenseSymmetry):
        return (symmetry.U.detach().double().cpu() @ v).reshape(symmetry.weight_shape)
    assert isinstance(symmetry, KroneckerSymmetry)
    factors = [factor.detach().double().cpu() for factor in symmetry.factors]
    return KroneckerSymmetry(symmetry.weight_shape, factors=factors, learnable=False)(v).detach()
