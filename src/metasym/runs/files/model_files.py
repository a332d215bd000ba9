"""``model.safetensors`` of ``metasym learn`` and ``metasym run``: the learner exactly as it was scored.

Beside its tensors stands what is needed to make a learner that takes them, and to draw its layers without one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypedDict

import torch
from torch import Tensor, nn

from metasym.storage.atomic import read_bytes, write_atomically
from metasym.storage.described import Count, Scalar, described
from metasym.storage.file_names import MODEL
from metasym.storage.serialization import CheckpointError, pack, unpack
from metasym.symmetry.field_symmetry import FieldSymmetry
from metasym.symmetry.joint_bias import JointWeight
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.symmetry.parametrized import JOINT, has_bias, symmetry_name, weight_site
from metasym.symmetry.reparam import symmetric_lists, symmetries
from metasym.types import MetasymError


class LayerFile(TypedDict):
    """A layer with a symmetry."""

    kind: Literal["dense", "kronecker", "field", "other"]
    weight_shape: list[Count]
    filter_shape: list[Count]
    learnable: bool
    joint: bool
    """Whether the symmetry makes the bias too."""
    bias: bool
    """Whether the layer has a bias of its own."""


class ModelFile(TypedDict):
    """What the file holds."""

    learner: dict[str, Any]
    describe: dict[str, Any]
    settings: dict[str, Scalar]
    """What was chosen after training: the penalty, the inner steps at test."""
    layers: dict[str, LayerFile]
    adapted: dict[str, Tensor]
    """Weights of layers, adapted to the first test task, where the run has kept them."""


_KINDS: dict[type, str] = {DenseSymmetry: "dense", KroneckerSymmetry: "kronecker", FieldSymmetry: "field"}


def write_model(
    folder: Path,
    model: nn.Module,
    state: dict[str, Any],
    describe: dict[str, Any],
    settings: dict[str, Any],
    adapted: dict[str, Tensor] | None = None,
) -> None:
    """Write the file; ``model`` is the learner's network, ``state`` its ``state_dict``."""
    found = {
        "learner": state,
        "describe": describe,
        "settings": settings,
        "layers": layers_of(model),
        "adapted": adapted or {},
    }
    write_atomically(folder / MODEL, pack(found), what="a model")


def read_model_file(folder: Path) -> dict[str, Any]:
    """What the file holds; it fits :class:`ModelFile`."""
    path = folder / MODEL
    if not path.exists():
        raise MetasymError(
            f"{folder}: expected a finished run with {MODEL}, found none: the same command with --resume finishes it",
            about=str(folder / MODEL),
        )
    state = unpack(read_bytes(path), str(path))
    described(state, ModelFile, str(path), error=CheckpointError)
    return state


def layers_of(model: nn.Module) -> dict[str, dict[str, Any]]:
    """The layers with a symmetry, as :class:`LayerFile` describes them."""
    joint = {name for name, plist in symmetric_lists(model) if isinstance(plist[0], JointWeight)}
    modules = dict(model.named_modules(remove_duplicate=False))
    return {
        name: {
            "kind": _KINDS.get(type(one), "other"),
            "weight_shape": list(one.weight_shape),
            "filter_shape": list(one.filter_shape),
            "learnable": one.learnable,
            "joint": name in joint,
            "bias": name not in joint and has_bias(modules[weight_site(name)[0]]),
        }
        for name, one in symmetries(model).items()
    }


def filter_sizes(stored: Mapping[str, Any]) -> dict[str, int]:
    """How many entries the filter of each layer has."""
    return {name: math.prod(layer["filter_shape"]) for name, layer in stored["layers"].items()}


def symmetry_of(stored: Mapping[str, Any], name: str) -> Symmetry | None:
    """The symmetry of the layer ``name``, made of the stored tensors alone; None for a kind of a user's own."""
    layer = stored["layers"][name]
    head = f"model.{symmetry_name(name)}." + (f"{JOINT}." if layer["joint"] else "")
    tensors = {
        key.removeprefix(head): value for key, value in stored["learner"].items() if key.startswith(head)
    }
    shape, zeros = layer["weight_shape"], {key: torch.zeros_like(value) for key, value in tensors.items()}
    made: Symmetry | None = None
    try:
        if layer["kind"] == "dense":
            made = DenseSymmetry(shape, U=zeros["U"], learnable=layer["learnable"])
        elif layer["kind"] == "kronecker":
            factors = [zeros[f"U{i + 1}"] for i in range(len(tensors))]
            made = KroneckerSymmetry(shape, factors=factors, learnable=layer["learnable"])
        elif layer["kind"] == "field":
            made = FieldSymmetry(zeros["block"], *layer["filter_shape"][:2])
        if made is not None:
            made.load_state_dict(tensors)  # not given: what was learned may not be finite
    except (KeyError, TypeError, RuntimeError, MetasymError) as error:
        raise CheckpointError(
            f"{MODEL}: expected the symmetry of {name or 'the layer'}, found {error}",
            about=f"{MODEL}: layer {name!r}",
            found=str(error),
        ) from None
    return made
