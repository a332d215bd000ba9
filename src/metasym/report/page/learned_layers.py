"""What a run has learned, read from its files: each layer's symmetry, and a weight to look at."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from metasym.report.page.run_folders import Run
from metasym.runs.files.model_files import read_model_file, symmetry_of
from metasym.storage.atomic import read_bytes
from metasym.storage.file_names import CURRENT, MODEL
from metasym.storage.serialization import unpack
from metasym.symmetry.matrices import KroneckerSymmetry, Symmetry
from metasym.symmetry.parametrized import JOINT, layer_of_filter, symmetry_name
from metasym.tasks.sampling import seeded

ADAPTED = "adapted to the first test task"
START = "where adaptation starts"
DRAWN = "made by U from a filter drawn at random"
_UNKNOWN = "This layer's symmetry is of a kind that cannot be read from the file alone."
_NOT_FINITE = "U has entries of NaN or infinity: nothing is drawn."


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
    joint: bool = False
    """Whether the symmetry makes the bias too."""
    bias: bool = False
    """Whether the layer has a bias of its own."""
    columns: Tensor | None = None
    """A dense U whose layer's shape is not known."""
    note: str = ""
    """Why something is missing."""


def learned(run: Run) -> list[Layer]:
    """The layers of a run: of the model that was scored, or of the latest checkpoint as far as its tensors tell."""
    if (run.folder / MODEL).exists():
        return _scored(read_model_file(run.folder))
    return _from_state(unpack(read_bytes(run.folder / CURRENT), str(run.folder / CURRENT)))


def _scored(stored: Mapping[str, Any]) -> list[Layer]:
    """The layers of a model as it was scored; those with weights for a test task show these."""
    layers = []
    tensors = _model_tensors(stored["learner"])
    named = {name: symmetry_of(stored, name) for name in stored["layers"]}
    for name, weight in stored["adapted"].items():
        layers.append(Layer(name, weight.double(), ADAPTED, named.pop(name, None), *_about(stored, name)))
    for name, symmetry in named.items():
        if symmetry is None:
            layers.append(Layer(name, None, "", None, note=_UNKNOWN))
        elif not _finite(symmetry):
            layers.append(Layer(name, None, "", None, note=_NOT_FINITE))
        else:
            layers.append(Layer(name, drawn_weight(symmetry), DRAWN, symmetry, *_about(stored, name)))
    shown = {layer.name for layer in layers}
    return [*layers, *(layer for layer in _plain(tensors) if layer.name not in shown)]


def _about(stored: Mapping[str, Any], name: str) -> tuple[bool, bool]:
    layer = stored["layers"].get(name)
    return (False, False) if layer is None else (layer["joint"], layer["bias"])


def _finite(symmetry: Symmetry) -> bool:
    return all(bool(torch.isfinite(value).all()) for value in symmetry.state_dict().values())


def _from_state(state: Mapping[str, Any]) -> list[Layer]:
    """The layers as far as the names and shapes of a checkpoint's tensors tell."""
    best = state.get("best")
    tensors = _model_tensors(state["learner"] if best is None else best["state"])
    symmetric = [layer for key in tensors if (layer := layer_of_filter(key)) is not None]
    return [*(_reparameterized(layer, tensors) for layer in symmetric), *_plain(tensors)]


def _model_tensors(state: Mapping[str, Any]) -> dict[str, Tensor]:
    return {
        key.removeprefix("model."): value.detach().double().cpu()
        for key, value in state.items()
        if isinstance(value, Tensor) and key.startswith("model.") and value.is_floating_point()
    }


def _plain(tensors: Mapping[str, Tensor]) -> list[Layer]:
    return [
        Layer(key.removesuffix("weight").rstrip("."), value, START, None)
        for key, value in tensors.items()
        if re.fullmatch(r"(?:.*\.)?weight", key) and value.ndim >= 2
    ]


def _reparameterized(name: str, tensors: Mapping[str, Tensor]) -> Layer:
    own = symmetry_name(name)
    for head in (f"{own}.", f"{own}.{JOINT}."):
        if f"{head}U1" in tensors:
            factors: list[Tensor] = []
            while f"{head}U{len(factors) + 1}" in tensors:
                factors.append(tensors[f"{head}U{len(factors) + 1}"])
            if not all(bool(torch.isfinite(factor).all()) for factor in factors):
                return Layer(name, None, "", None, note=_NOT_FINITE)
            symmetry = KroneckerSymmetry(_kronecker_shape(factors), factors=factors)
            return Layer(name, drawn_weight(symmetry), DRAWN, symmetry)
        if f"{head}U" in tensors:
            missing = (
                "The checkpoint does not say which shape this layer's weight has, so the weight is not drawn."
            )
            return Layer(name, None, "", None, columns=tensors[f"{head}U"], note=missing)
    return Layer(name, None, "", None, note=_UNKNOWN)


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
