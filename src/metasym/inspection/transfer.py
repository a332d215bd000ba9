"""A learned symmetry in a file of its own, to be put into other models."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, overload

import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.inspection.layers import inspect
from metasym.inspection.spectrum import dominant, effective_size, singular_values
from metasym.storage.atomic import read_bytes, write_atomically
from metasym.storage.described import Count, described
from metasym.storage.serialization import CheckpointError, pack, unpack
from metasym.symmetry.joint_bias import JointWeight
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.symmetry.parametrized import weight_name, weight_tensors
from metasym.symmetry.reparam import reparameterize, symmetric_lists, symmetries
from metasym.symmetry.selection import has_joint_bias
from metasym.types import MetasymError
from metasym.verdicts.symmetry_report import SymmetryReport

_KIND = "symmetry"


class LayerFile(TypedDict):
    """One layer in a file of :func:`save_symmetry`."""

    name: str
    weight_shape: list[Count]
    factors: list[Tensor]
    joint: bool


class SymmetryFile(TypedDict):
    """What a file of :func:`save_symmetry` holds."""

    kind: str
    layers: list[LayerFile]
    report: dict[str, Any]


_Site = tuple[nn.Module, str]
"""A layer and the name of its tensor."""


@dataclass(frozen=True, eq=False)
class SavedLayer:
    """The U of one layer."""

    name: str
    weight_shape: tuple[int, ...]
    factors: tuple[Tensor, ...]
    """One matrix of a dense symmetry, several of a Kronecker one."""
    joint: bool
    """Whether it makes weight and bias together (``bias="joint"``)."""

    def frozen(self, dtype: torch.dtype, *, dominant_only: bool = False) -> Symmetry:
        """The symmetry with its U as a buffer, which nothing trains."""
        factors = [factor.to(dtype) for factor in self.factors]
        if len(factors) > 1:
            return KroneckerSymmetry(self.weight_shape, factors=factors, learnable=False)
        U = factors[0]
        if dominant_only:
            U = dominant(U, max(1, effective_size(singular_values([U]))[0])).to(dtype)
        return DenseSymmetry(self.weight_shape, U=U, learnable=False)


@dataclass(frozen=True, eq=False)
class SavedSymmetry:
    """What :func:`save_symmetry` stored: the U of each layer, and the report on them."""

    layers: tuple[SavedLayer, ...]
    report: SymmetryReport

    def apply(
        self, model: nn.Module, layers: Mapping[str, str] | None = None, *, dominant_only: bool = False
    ) -> nn.Module:
        """Put the symmetries into ``model``, in place and frozen; its other layers stay plain.

        Layers are matched by name, or by ``layers``, from stored names to the model's; a file with a single layer
        also fits the only layer of its shape. ``dominant_only`` keeps only the dominant directions of a dense U,
        as many as the report's effective filter size.
        """
        named = {
            weight_name(name, tensor): (module, tensor)
            for name, module in model.named_modules()
            for tensor in weight_tensors(module)
        }
        targets = {self._target(layer, named, layers or {}): layer for layer in self.layers}
        if len(targets) < len(self.layers):
            raise MetasymError(
                f"expected {len(self.layers)} layers to put {len(self.layers)} symmetries into, found {len(targets)}",
                about="layers",
                found=len(targets),
            )
        unknown = set(layers or {}) - {layer.name for layer in self.layers}
        if unknown:
            raise MetasymError(
                f"expected stored layers {', '.join(repr(layer.name) for layer in self.layers)}, "
                f"found {sorted(unknown)[0]!r}",
                about="layers",
                found=min(unknown),
            )
        kinds = {layer.joint for layer in self.layers}
        if len(kinds) > 1:
            raise MetasymError(
                "expected all symmetries with their biases or all without, found both",
                about="bias",
                found="both",
            )

        def make(name: str, _: nn.Module) -> Symmetry | None:
            layer = targets.get(name)
            if layer is None:
                return None
            weight = getattr(*named[name])
            assert isinstance(weight, Tensor)
            symmetry = layer.frozen(weight.dtype, dominant_only=dominant_only)
            return symmetry.to(weight.device)

        return reparameterize(model, make, bias="joint" if True in kinds else "plain")

    def _target(self, layer: SavedLayer, named: Mapping[str, _Site], chosen: Mapping[str, str]) -> str:
        name = chosen.get(layer.name, layer.name)
        if name in named:
            found = tuple(_shape(named[name], layer.joint))
            if found != layer.weight_shape:
                raise MetasymError(
                    f"layer {name!r}: expected a weight of shape {layer.weight_shape} for the stored symmetry, "
                    f"found {found}",
                    about=f"layer {name!r}",
                    found=found,
                )
            return name
        fitting = [n for n, m in named.items() if tuple(_shape(m, layer.joint)) == layer.weight_shape]
        if layer.name not in chosen and len(self.layers) == 1 and len(fitting) == 1:
            return fitting[0]
        shapes = ", ".join(f"{n!r} {tuple(_shape(m, layer.joint))}" for n, m in named.items()) or "none"
        raise MetasymError(
            f"expected a layer {name!r} with a weight of shape {layer.weight_shape}, found {shapes}",
            about=f"layer {name!r}",
            found=shapes,
        )


@checked
def save_symmetry(
    model: nn.Module, path: str | os.PathLike[str], report: SymmetryReport | None = None
) -> SymmetryReport:
    """Write the U of every reparameterized layer of ``model`` to one file, with the report on them.

    Args:
        model: A reparameterized network.
        path: A safetensors file, written whole or not at all.
        report: The report of :func:`metasym.inspect`. Default: it is made.

    Returns:
        The report.
    """
    report = inspect(model) if report is None else report
    layers = []
    joint_layers = {name for name, plist in symmetric_lists(model) if isinstance(plist[0], JointWeight)}
    for name, symmetry in symmetries(model).items():
        joint = name in joint_layers
        factors = symmetry.factors if isinstance(symmetry, KroneckerSymmetry) else [symmetry.matrix()]
        shape = [int(size) for size in symmetry.weight_shape]
        layers.append({"name": name, "weight_shape": shape, "factors": list(factors), "joint": joint})
    if [layer["name"] for layer in layers] != [layer.name for layer in report]:
        raise MetasymError(
            "expected a report on the layers of this model, found one on other layers",
            about="report",
            found="other layers",
        )
    state = {"kind": _KIND, "layers": layers, "report": report.to_json()}
    write_atomically(Path(path), pack(state), what="a symmetry")
    return report


@overload
def load_symmetry(path: str | os.PathLike[str]) -> SavedSymmetry: ...
@overload
def load_symmetry(
    path: str | os.PathLike[str],
    model: nn.Module,
    layers: Mapping[str, str] | None = None,
    *,
    dominant_only: bool = False,
) -> nn.Module: ...
@checked
def load_symmetry(
    path: str | os.PathLike[str],
    model: nn.Module | None = None,
    layers: Mapping[str, str] | None = None,
    *,
    dominant_only: bool = False,
) -> SavedSymmetry | nn.Module:
    """Load a symmetry from a file, and put it, frozen, into ``model`` if one is given. Executes no code.

    Args:
        path: A file of :func:`save_symmetry`.
        model: A network to put it into, in place.
        layers: Which layer of ``model`` gets the symmetry of which stored layer, ``{layer: stored layer}``.
        dominant_only: Take only the dominant sharing pattern (see :meth:`SavedSymmetry.apply`).

    Returns:
        ``model``, or a :class:`SavedSymmetry` without one.
    """
    stored = unpack(read_bytes(Path(path)), str(path))
    if stored.get("kind") != _KIND:
        raise CheckpointError(
            f"{path}: expected a symmetry of ms.save_symmetry, found another metasym file",
            about=str(path),
            found="another metasym file",
        )
    described(stored, SymmetryFile, str(path), error=CheckpointError)
    saved = SavedSymmetry(
        tuple(_layer(item, f"{path}: layers[{index}]") for index, item in enumerate(stored["layers"])),
        SymmetryReport.from_json(stored["report"], f"{path}: report"),
    )
    if model is None:
        return saved
    return saved.apply(model, layers, dominant_only=dominant_only)


def _layer(item: Mapping[str, Any], name: str) -> SavedLayer:
    shape, factors = tuple(item["weight_shape"]), tuple(item["factors"])
    rows = math.prod(len(factor) if factor.ndim == 2 else 0 for factor in factors)
    if rows != math.prod(shape) or not all(factor.is_floating_point() for factor in factors):
        raise CheckpointError(
            f"{name}: expected matrices U for a weight {list(shape)}, found {[list(f.shape) for f in factors]}",
            about=f"{name}: U",
            found=[tuple(f.shape) for f in factors],
        )
    return SavedLayer(item["name"], shape, factors, item["joint"])


def _shape(site: _Site, joint: bool) -> torch.Size:
    module, tensor = site
    weight = getattr(module, tensor)
    assert isinstance(weight, Tensor)
    if joint and has_joint_bias(module, tensor, "joint"):
        return torch.Size([weight.shape[0], weight[0].numel() + 1])
    return weight.shape
