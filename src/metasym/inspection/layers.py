"""The inspection of a model, layer by layer."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.groups.signed_groups import weight_orbits
from metasym.inspection.actions import Asked, act, found_action, parse_group
from metasym.inspection.equivariance import asked_rotations, errors_of, kernel_action, kernel_errors
from metasym.inspection.finding import find_group
from metasym.inspection.layer_verdict import with_verdict
from metasym.inspection.pattern import MOST_WEIGHTS, PAIRS, Labels, find_pattern
from metasym.inspection.spatial import match, spatial_group, transforms
from metasym.inspection.spectrum import dominant, effective_size, singular_values, symmetry_values
from metasym.inspection.translations import explains, find_translations
from metasym.symmetry.joint_bias import JointWeight
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.symmetry.parametrized import has_bias, weight_site
from metasym.symmetry.reparam import symmetric_lists, symmetries
from metasym.types import MetasymError
from metasym.verdicts.reports import FoundGroup, GroupErrors, LayerReport, SpatialTransform
from metasym.verdicts.symmetry_report import SymmetryReport
from metasym.verdicts.verdict import Status, Verdict

_LISTED = 200
"""Elements of a found group whose errors are listed."""
_WORK = 2**28
"""Each element's error is computed for at most this many entries of U times elements of the group."""
_SHOWN = 512
"""Singular values that a report lists, at most."""
FREE_BIAS = (
    "the bias is free: the layer is equivariant only without it, or with one that the group leaves alone"
)


@torch.no_grad()
@checked
def inspect(
    model: nn.Module, group: str | None = None, *, inputs: Tensor | Sequence[int] | None = None
) -> SymmetryReport:
    """Report what the symmetry of every reparameterized layer of ``model`` has learned.

    Args:
        model: A reparameterized network.
        group: One more group to ask about: ``"shifts"``, ``"rotations:8"``, ... (``metasym inspect --help`` lists
            them) or a JSON file of generators. The report then has the errors of its elements, for each layer and
            from the network's input to its output.
        inputs: Examples ``[examples, ...]`` or the shape of one example; needed for the latter where the first layer
            does not determine it.

    Returns:
        A :class:`SymmetryReport`, one entry per layer.

    Example:
        >>> import torch, metasym as ms
        >>> U = ms.groups.symmetry_matrix(ms.groups.cyclic(6)).float()
        >>> symmetry = ms.DenseSymmetry((6, 6), U=U)
        >>> model = ms.reparameterize(torch.nn.Linear(6, 6, bias=False), lambda name, module: symmetry)
        >>> ms.inspect(model)[0].group.name
        'Z_6'
    """
    if not isinstance(model, nn.Module):
        raise MetasymError(
            f"expected an nn.Module to inspect, found {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    found = symmetries(model)
    if not found:
        raise MetasymError(
            f"expected a reparameterized model, found no symmetry in {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    asked = None if group is None else parse_group(group)
    joint = {name for name, plist in symmetric_lists(model) if isinstance(plist[0], JointWeight)}
    modules = dict(model.named_modules(remove_duplicate=False))
    layers = inspect_layers(
        {
            name: (one, name in joint, name not in joint and has_bias(modules[weight_site(name)[0]]))
            for name, one in found.items()
        },
        asked,
    )
    if asked is None:
        return SymmetryReport(tuple(layers))
    from metasym.inspection.network import end_to_end  # few inspections ask about a group

    ends = end_to_end(model, asked, layers, inputs)
    answers = [layer.errors for layer in layers] + [ends]
    if not any(answer is not None and answer.errors for answer in answers):
        notes = [answer.note for answer in answers if answer is not None]
        reasons = dict.fromkeys(notes)  # what is wrong with the group itself is reported once
        raise MetasymError("; ".join(reasons), about="group", found=group)
    return SymmetryReport(tuple(layers), ends)


def inspect_layers(
    found: Mapping[str, tuple[Symmetry, bool, bool]], asked: Asked | None = None
) -> list[LayerReport]:
    """The reports of the layers of a network: of each its symmetry, and whether that makes a bias, or one is free."""
    layers: list[LayerReport] = []
    for name, (symmetry, joint, bias) in found.items():
        before = next((r.spatial for r in reversed(layers) if r.spatial), ())
        report = inspect_layer(name, symmetry, asked, before, joint=joint)
        if report.group is not None and bias:
            report = dataclasses.replace(report, notes=(*report.notes, FREE_BIAS))
        layers.append(report)
    return layers


@torch.no_grad()
def inspect_layer(
    name: str,
    symmetry: Symmetry,
    asked: Asked | None = None,
    before: Sequence[SpatialTransform] = (),
    *,
    joint: bool = False,
) -> LayerReport:
    """The report of one layer.

    ``before`` is what was found in the convolution before it; ``joint`` says that the last input is the bias's 1.
    """
    shape = tuple(symmetry.weight_shape)
    if not all(bool(part.isfinite().all()) for part in (*symmetry.parameters(), *symmetry.buffers())):
        raise MetasymError(
            f"layer {name!r}: expected a finite U, found NaN or infinity",
            about=f"layer {name!r}",
            found="NaN or infinity",
        )
    values = symmetry_values(symmetry)
    used, gap = effective_size(values)
    blank = LayerReport(
        name=name,
        weight_shape=shape,
        kind=type(symmetry).__name__.removesuffix("Symmetry").lower(),
        filter_size=math.prod(symmetry.filter_shape),
        effective_filter_size=used,
        singular_values=tuple(float(v) for v in values[:_SHOWN]),
        pattern=None,
        group=None,
        partial=(),
        spatial=(),
        errors=None,
        verdict=Verdict(Status.NOT_READ),
    )
    # A U that is stored whole is read row by row; one made of factors or of kernels only where it is small.
    most = MOST_WEIGHTS if isinstance(symmetry, DenseSymmetry) and len(shape) == 2 else PAIRS
    if math.prod(shape) > most:
        note = f"{math.prod(shape):,} entries are too many to be read (at most {most:,})"
        unread = None
        if asked is not None:
            unread = GroupErrors(asked.text, (), (), None, None, f"layer {name!r}: {note}")
        group, notes = None, [note]
        if isinstance(symmetry, KroneckerSymmetry) and not joint:
            from metasym.inspection.kronecker import read_factors

            drops = [effective_size(singular_values([factor])) for factor in symmetry.factors]
            group, notes = read_factors(symmetry.factors, [size if drop else 0 for size, drop in drops])
        return with_verdict(dataclasses.replace(blank, group=group, errors=unread, notes=tuple(notes)))
    U = symmetry.matrix().detach().cpu().double()
    if used == 0:
        return with_verdict(blank)
    dominant_size = used if gap else None
    if len(shape) > 2:
        report = _convolution(blank, U, dominant_size, before)
    else:
        factors = symmetry.factors if isinstance(symmetry, KroneckerSymmetry) else []
        report = _matrix(blank, U, dominant_size, factors, joint=joint)
    errors = _errors_found(report, U) if asked is None else _errors_asked(report, U, asked, before)
    return with_verdict(dataclasses.replace(report, errors=errors))


def _matrix(
    blank: LayerReport, U: Tensor, used: int | None, factors: Sequence[Tensor], *, joint: bool
) -> LayerReport:
    """A fully connected layer: pattern, group, translations."""
    m, n = blank.weight_shape
    points = U.numpy()
    pattern = find_pattern(points, (m, n), used, [f.detach().cpu().double().numpy() for f in factors])
    if not pattern.clear:
        return dataclasses.replace(blank, pattern=pattern)
    classes = np.array(pattern.classes)
    group = find_group(classes, points, joint=joint)
    partial = find_translations(classes[:, :-1] if joint else classes)
    if group is not None:  # a shift whose ties follow from the group adds nothing
        orbits, inner = _entry_orbits(group, (m, n)), slice(None, -1 if joint else None)
        partial = tuple(
            shift for shift in partial if not explains(orbits[:, inner], classes[:, inner], shift)
        )
    dead = [
        f"{int(count)} {side} are dead: all their weights are zero"
        for side, count in (("outputs", (~classes.any(1)).sum()), ("inputs", (~classes.any(0)).sum()))
        if count
    ]
    return dataclasses.replace(blank, pattern=pattern, group=group, partial=partial, notes=tuple(dead))


def _entry_orbits(group: FoundGroup, shape: tuple[int, int]) -> Labels:
    """``[m, n]``: entries that the group takes to each other have equal numbers."""
    labels: Labels = weight_orbits(group.generators, shape).labels.numpy().reshape(shape)
    return labels


def _convolution(
    blank: LayerReport, U: Tensor, used: int | None, before: Sequence[SpatialTransform]
) -> LayerReport:
    """A convolution: pattern, and the rotations and flips that map filters to filters."""
    shape = blank.weight_shape
    pattern = find_pattern(U.numpy(), (shape[0], math.prod(shape[1:])), used)
    seen = U if used is None else dominant(U, used)
    spatial = tuple(
        match(seen.numpy(), shape, transform, _hints(transform.name, before, shape[1]))
        for transform in transforms(shape[2:])
    )
    group = spatial_group(spatial, shape[2:])
    return dataclasses.replace(blank, pattern=pattern, group=group, spatial=spatial)


def _hints(name: str, before: Sequence[SpatialTransform], channels: int) -> list[tuple[int, ...]]:
    return [one.outputs for one in before if one.name == name and len(one.outputs) == channels]


def _errors_asked(
    report: LayerReport, U: Tensor, asked: Asked, before: Sequence[SpatialTransform]
) -> GroupErrors:
    """The errors for a group that was asked about; a note where it cannot act on this layer."""
    shape, used = report.weight_shape, report.effective_filter_size
    try:
        if len(shape) == 2:
            return errors_of(act(asked, shape[0], shape[1]), U, used)
        if not asked.spatial:
            raise MetasymError(
                f"group {asked.text}: expected a fully connected layer, found a convolution {shape}",
                about=f"group {asked.text}",
                found=tuple(shape),
            )
        hints = list(dict.fromkeys(one.outputs for one in before if len(one.outputs) == shape[1]))
        return kernel_errors(asked, kernel_action(asked, U, shape, hints), U, shape, used)
    except MetasymError as error:
        return GroupErrors(asked.text, (), (), None, None, str(error))


def _errors_found(report: LayerReport, U: Tensor) -> GroupErrors | None:
    """The errors for the group that was found itself, element by element, unless it is very large."""
    group, shape, used = report.group, report.weight_shape, report.effective_filter_size
    if group is None or group.order > _LISTED or group.order * U.numel() > _WORK:
        return None
    if len(shape) == 2:
        return errors_of(found_action(group.name, group.generators), U, used)
    asked = asked_rotations(group)
    if asked is None:
        return None
    hints = [generator.inputs for generator in group.generators]
    return kernel_errors(asked, kernel_action(asked, U, shape, hints), U, shape, used)
