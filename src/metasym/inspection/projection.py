"""Snapping a learned U to the pattern that was found in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.inspection.equivariance import asked_rotations, kernel_action
from metasym.inspection.pattern import averaged
from metasym.symmetry.matrices import DenseSymmetry
from metasym.symmetry.reparam import symmetries
from metasym.types import MetasymError
from metasym.verdicts.layer_words import verdict_words
from metasym.verdicts.reports import LayerReport
from metasym.verdicts.symmetry_report import SymmetryReport


@dataclass(frozen=True)
class Projected:
    """What the projection did to one layer."""

    name: str
    projected: bool
    change: float
    """``|projected U - U| / |U|``."""
    reason: str = ""
    """Why a layer was left as it was."""


@torch.no_grad()
@checked
def project(model: nn.Module, report: SymmetryReport) -> tuple[Projected, ...]:
    """Make U obey exactly what ``report`` found in it, in place. Layers without a clear finding do not change.

    The rows of U are averaged over each class of tied entries, up to their signs, and set to zero where the
    entries are zero. In a convolution they are averaged over the group of rotations and flips. v does not change.

    Args:
        model: A reparameterized network.
        report: The report of :func:`metasym.inspect` on it.

    Returns:
        What happened to each layer.
    """
    found = symmetries(model)
    if list(found) != [layer.name for layer in report]:
        raise MetasymError(
            f"expected a report on the layers {', '.join(map(repr, found))}, "
            f"found one on {', '.join(repr(layer.name) for layer in report)}",
            about="report",
            found=[layer.name for layer in report],
        )
    done = tuple(_project_layer(symmetry, report[name]) for name, symmetry in found.items())
    if not any(one.projected for one in done):
        reasons = "; ".join(f"layer {one.name!r}: {one.reason}" for one in done)
        raise MetasymError(f"expected a symmetry to project on, found none ({reasons})", about="report")
    return done


def _project_layer(symmetry: nn.Module, layer: LayerReport) -> Projected:
    if not isinstance(symmetry, DenseSymmetry):
        return Projected(layer.name, False, 0.0, "a Kronecker symmetry, whose projection would not be one")
    U = symmetry.U.detach().cpu().double()
    exact = _spatial(U, layer) if layer.spatial else _tied(U, layer)
    if exact is None:
        return Projected(layer.name, False, 0.0, verdict_words(layer))
    change = float(torch.linalg.vector_norm(exact - U) / torch.linalg.vector_norm(U))
    symmetry.U.copy_(exact)
    return Projected(layer.name, True, change)


def _tied(U: Tensor, layer: LayerReport) -> Tensor | None:
    pattern = layer.pattern
    if pattern is None or not pattern.clear:
        return None
    classes = np.array(pattern.classes).flatten()
    return torch.from_numpy(averaged(U.numpy(), np.abs(classes), np.where(classes < 0, -1, 1)))


def _spatial(U: Tensor, layer: LayerReport) -> Tensor | None:
    asked = None if layer.group is None else asked_rotations(layer.group)
    if asked is None or layer.group is None:
        return None
    hints = [generator.inputs for generator in layer.group.generators]
    action = kernel_action(asked, U, layer.weight_shape, hints)
    if not action.consistent:
        return None
    shape = layer.weight_shape
    return action.average(U.reshape(shape[0], shape[1], -1, U.shape[1])).reshape(U.shape)
