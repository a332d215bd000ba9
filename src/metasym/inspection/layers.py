"""The inspection of a model, layer by layer."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn

from metasym.inspection.automorphisms import Automorphisms, automorphisms
from metasym.inspection.identification import identify
from metasym.inspection.pattern import LARGEST, Array, Labels, find_pattern
from metasym.inspection.reports import (
    FoundGroup,
    GroupElement,
    LayerReport,
    PartialSymmetry,
    SharingPattern,
    SymmetryReport,
)
from metasym.inspection.spectrum import effective_size, singular_values
from metasym.inspection.translations import find_translations
from metasym.inspection.verdict import verdict
from metasym.reparam import symmetries
from metasym.symmetry import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.types import MetasymError

_SHOWN = 512


@torch.no_grad()
def inspect(model: nn.Module) -> SymmetryReport:
    """What the symmetry of every reparameterized layer of ``model`` has learned."""
    found = symmetries(model)
    if not found:
        raise MetasymError(f"expected a reparameterized model, found no symmetry in {type(model).__name__}")
    return SymmetryReport(tuple(inspect_layer(name, symmetry) for name, symmetry in found.items()))


def inspect_layer(name: str, symmetry: Symmetry) -> LayerReport:
    """The report of one layer."""
    shape = tuple(symmetry.weight_shape)
    matrix_shape = (shape[0], math.prod(shape[1:]))
    factors = symmetry.factors if isinstance(symmetry, KroneckerSymmetry) else [symmetry.matrix()]
    values = singular_values(factors)
    used, gap = effective_size(values)
    notes: list[str] = []
    pattern: SharingPattern | None = None
    group: FoundGroup | None = None
    partial: tuple[PartialSymmetry, ...] = ()
    if math.prod(shape) <= LARGEST:
        U = symmetry.matrix().detach().cpu().double().numpy()
        pattern = find_pattern(U, matrix_shape, used if gap else None)
        if pattern.clear:
            classes = np.array(pattern.classes)
            group = find_group(classes, U)
            if group is None:
                partial = find_translations(classes)
    else:
        notes.append(f"{math.prod(shape):,} entries are too many to compare all pairs (at most {LARGEST:,})")
    report = LayerReport(
        name=name,
        weight_shape=shape,
        kind="dense" if isinstance(symmetry, DenseSymmetry) else "kronecker",
        filter_size=math.prod(symmetry.filter_shape),
        effective_filter_size=used,
        singular_values=tuple(float(v) for v in values[:_SHOWN]),
        pattern=pattern,
        group=group,
        partial=partial,
        spatial=(),
        errors=None,
        verdict="",
        notes=tuple(notes),
    )
    return verdict(report)


def find_group(classes: Labels, U: Array) -> FoundGroup | None:
    """The largest group with the pattern ``classes [m, n]``, acting on outputs and inputs that are not dead."""
    live_out, live_in = np.flatnonzero(classes.any(1)), np.flatnonzero(classes.any(0))
    if not len(live_out):
        return None
    group = automorphisms(classes[np.ix_(live_out, live_in)])
    if group.trivial:
        return None
    name, order = identify(group)
    generators = tuple(_element(group, g, live_out, live_in, classes.shape) for g in group.generators)
    flips = any(min(g.output_signs + g.input_signs) < 0 for g in generators)
    return FoundGroup(
        name=name,
        order=order,
        generators=generators,
        transitive_outputs=group.transitive("outputs") and len(live_out) == classes.shape[0],
        transitive_inputs=group.transitive("inputs") and len(live_in) == classes.shape[1],
        signed=flips,
        error=max(element_error(U, g) for g in generators),
    )


def element_error(U: Array, g: GroupElement) -> float:
    """``|U - g U| / |U|``: how far the rows of U are from those that g takes them to."""
    m, n = len(g.outputs), len(g.inputs)
    grid = U.reshape(m, n, -1)
    signs = np.outer(g.output_signs, g.input_signs)[:, :, None]
    # Entry (i, j) goes to (outputs[i], inputs[j]).
    moved = grid[np.ix_(g.outputs, g.inputs)] * signs
    return float(np.linalg.norm(moved - grid) / np.linalg.norm(grid))


def _element(
    group: Automorphisms, g: tuple[int, ...], live_out: Labels, live_in: Labels, shape: tuple[int, ...]
) -> GroupElement:
    """A permutation of the points of the live part as an element acting on all outputs and inputs."""
    images, signs = list(g), [1] * len(g)
    if group.signed:
        signs = [-1 if g[2 * p] & 1 else 1 for p in range(len(g) // 2)]
        images = [g[2 * p] // 2 for p in range(len(g) // 2)]
    outputs, inputs = np.arange(shape[0]), np.arange(shape[1])
    output_signs, input_signs = np.ones(shape[0], dtype=int), np.ones(shape[1], dtype=int)
    outputs[live_out] = live_out[images[: group.outputs]]
    inputs[live_in] = live_in[np.array(images[group.outputs :]) - group.outputs]
    output_signs[live_out], input_signs[live_in] = signs[: group.outputs], signs[group.outputs :]
    return GroupElement(
        tuple(outputs.tolist()),
        tuple(inputs.tolist()),
        tuple(output_signs.tolist()),
        tuple(input_signs.tolist()),
    )
