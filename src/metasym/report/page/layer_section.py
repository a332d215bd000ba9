"""The part about what was learned: the verdict, the weight, U's submatrices and singular values, filters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from markupsafe import Markup
from numpy.typing import NDArray
from torch import Tensor

from metasym.groups.signed_permutations import cycle_notation
from metasym.inspection.layers import inspect_layers
from metasym.report.gauge import effective_filter_size, readable
from metasym.report.page.compiled_facts import compiled_facts
from metasym.report.page.found_symmetry import errors_figure, group_figures, pattern_figure
from metasym.report.page.html_words import layer_name, number, shape
from metasym.report.page.learned_layers import Layer
from metasym.report.page.matrix_pictures import MOST_CELLS, colour_bar, matrix_image
from metasym.report.page.svg import Series, line_chart
from metasym.report.page.training_section import Figure
from metasym.symmetry.field_symmetry import FieldSymmetry
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.types import MetasymError
from metasym.verdicts.answer_words import answer_words
from metasym.verdicts.defect_words import measured, percent
from metasym.verdicts.group_words import found_words
from metasym.verdicts.layer_words import extra_notes, nothing_words, sentence, summary_words
from metasym.verdicts.reports import LadderRung, LayerReport
from metasym.verdicts.symmetry_report import SymmetryReport

SHOWN_BLOCKS, SHOWN_ROWS, SHOWN_COLUMNS, SHOWN_FILTERS = 24, 24, 64, 64
_KINDS: dict[type, str] = {
    DenseSymmetry: "dense",
    KroneckerSymmetry: "Kronecker",
    FieldSymmetry: "group convolution",
}
_NAMED = {"kronecker": "Kronecker"}
_STORED = 512
"""The most singular values that a report holds."""
_LARGEST_SVD = 2**23
"""Singular values are computed for a U of up to this many entries."""


@dataclass(frozen=True)
class Names:
    """What the numbers of the tasks' x and y are called, where the user has said so."""

    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


NO_NAMES = Names()


@dataclass(frozen=True)
class DataTable:
    """A table of text."""

    caption: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass
class LayerPart:
    """What the page says about one layer."""

    title: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    verdict: str = ""
    found: bool = False
    """Whether the verdict names a symmetry."""
    short: str = ""
    """What was found, in a few words; empty if nothing was tested."""
    figures: list[Figure] = field(default_factory=list)
    tables: list[DataTable] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    """What the inspection has to add."""
    notes: list[str] = field(default_factory=list)
    """What could not be shown, and why."""


def layer_part(layer: Layer, report: LayerReport | None = None, names: Names = NO_NAMES) -> LayerPart:
    """The facts and figures of one layer; ``report`` is what an inspection says of it."""
    part = LayerPart(layer_name(layer.name))
    symmetry = layer.symmetry
    if layer.weight is not None:
        part.facts.append(("weight", shape(layer.weight.shape)))
    if symmetry is not None:
        kind = _KINDS.get(type(symmetry), type(symmetry).__name__)
        part.facts.append(("symmetry", f"{kind}, {'learned' if symmetry.learnable else 'frozen'}"))
        part.facts.append(("filter", shape(symmetry.filter_shape)))
    elif layer.columns is not None:
        part.facts.append(("symmetry", f"dense U of {shape(layer.columns.shape)}"))
    elif layer.weight is not None:
        part.facts.append(("symmetry", "none: a plain layer"))
    if layer.note:
        part.notes.append(layer.note)
    if report is not None:
        _tell(report, part)
    _draw_weight(layer, part)
    if report is not None:
        _draw_found(report, part, names)
    _draw_symmetry(layer, report, part)
    return part


def told_layer(report: LayerReport) -> LayerPart:
    """What a report alone says of a layer, without its weights."""
    part = LayerPart(layer_name(report.name))
    part.facts.append(("weight", shape(report.weight_shape)))
    part.facts.append(("symmetry", _NAMED.get(report.kind, report.kind)))
    _tell(report, part)
    _draw_found(report, part, Names(report.input_names, report.output_names))
    if report.effective_filter_size:
        values = list(report.singular_values)
        part.figures.append(singular_figure(values, report.effective_filter_size, report.filter_size))
    return part


def inspected(layers: Sequence[Layer], stored: SymmetryReport | None) -> dict[str, LayerReport]:
    """What an inspection says of each layer, by name: the one that the run stored, or one made now.

    Frozen symmetries, which were not learned, are not inspected.
    """
    if stored is not None:
        shapes = {layer.name: layer.weight.shape for layer in layers if layer.weight is not None}
        for report in stored:
            if tuple(shapes.get(report.name, report.weight_shape)) != report.weight_shape:
                raise MetasymError(
                    f"expected a report on a weight {list(shapes[report.name])} of {report.name or 'the layer'}, "
                    f"found one on {list(report.weight_shape)}",
                    about=f"layer {report.name!r}: weight",
                    found=tuple(report.weight_shape),
                )
        return {report.name: report for report in stored}
    wanted = [layer for layer in layers if layer.symmetry is not None and layer.symmetry.learnable]
    if not wanted or not all(_finite(layer.symmetry) for layer in wanted):
        return {}
    found = {layer.name: (layer.symmetry, layer.joint, layer.bias) for layer in wanted if layer.symmetry}
    return {report.name: report for report in inspect_layers(found)}


def _finite(symmetry: Symmetry | None) -> bool:
    return symmetry is not None and all(bool(torch.isfinite(p).all()) for p in symmetry.state_dict().values())


def _tell(report: LayerReport, part: LayerPart) -> None:
    """The inspection in words and numbers."""
    part.verdict = sentence(report)
    part.short = summary_words(report)
    part.found = report.group is not None or bool(report.partial)
    part.remarks += [f"{note[:1].upper()}{note[1:]}." for note in extra_notes(report)]
    if report.answer is not None:
        part.remarks.append(f"{answer_words(report)}.")
    part.facts.append(("filter entries used", f"{report.effective_filter_size} of {report.filter_size}"))
    if report.group is not None:
        group = report.group
        nearly = ", approximately" if group.approximate else ""
        part.facts.append(("symmetry group", f"{group.name}, of order {group.order_in_words}{nearly}"))
        part.facts.append(("what it does", found_words(report)))
        part.facts.append(("acts", "transitively" if group.transitive else "not transitively"))
        if group.defect_upper is None:  # with a certificate, the defect is in the table of tested groups
            part.facts.append(("largest error of a generator", number(group.error)))
    else:
        part.facts.append(("symmetry group", nothing_words(report)))
    part.facts += [("translation, up to borders", shift.description) for shift in report.partial]
    if report.pattern is not None and (report.pattern.clear or not report.spatial):
        part.facts.append(("residual of the pattern", number(report.pattern.residual)))
        part.facts.append(("margin of the pattern", number(report.pattern.margin)))
    part.facts += compiled_facts(report)


def _draw_found(report: LayerReport, part: LayerPart, names: Names) -> None:
    """The sharing pattern, the generators, the transforms of kernels, the errors."""
    pattern = report.pattern
    if pattern is not None and pattern.tied + pattern.zeros and (pattern.clear or not report.spatial):
        figure = pattern_figure(pattern)
        if figure is None:
            part.notes.append("The sharing pattern is too large to draw.")
        else:
            part.figures.append(figure)
    if report.group is not None:
        rows, columns = report.weight_shape[:2]
        fitting = names.outputs if len(names.outputs) == rows else ()
        part.figures += group_figures(
            report.group, fitting, names.inputs if len(names.inputs) == columns else ()
        )
    if report.ladder:
        part.tables.append(_ladder(report))
    if report.errors is not None and report.errors.errors:
        part.figures.append(errors_figure(report.errors))
    if report.spatial:
        part.tables.append(
            DataTable(
                "Rotations and flips of the kernels: does each map filters to filters? An error of 1.4 is unrelated.",
                ("transform", "fits", "error", "margin", "output channels"),
                [
                    (
                        one.name,
                        "yes" if one.accepted else "no",
                        number(one.error),
                        number(one.margin),
                        cycle_notation(one.outputs, [1] * len(one.outputs)) if one.accepted else "-",
                    )
                    for one in report.spatial
                ],
            )
        )


def _ladder(report: LayerReport) -> DataTable:
    """Every group that was tested on held-out tasks, largest first."""
    return DataTable(
        "Groups tested on held-out tasks. The defect is |W - gW| / |W|; its bound (at most) holds at 95 %.",
        ("group", "order", "defect", "at most", "by class at most", "verdict"),
        [
            (
                rung.name,
                f"{rung.order:,}",
                measured(rung.defect),
                *("any" if upper is None else percent(upper) for upper in _uppers(rung)),
                "certified" if rung.certified else "refuted" if rung.refuted else "open",
            )
            for rung in report.ladder
        ],
    )


def _uppers(rung: LadderRung) -> tuple[float | None, float | None]:
    return rung.defect_upper, rung.class_defect_upper


def _draw_symmetry(layer: Layer, report: LayerReport | None, part: LayerPart) -> None:
    """U itself: its singular values, submatrices, factors."""
    symmetry, U = layer.symmetry, _matrix(layer)
    if report is not None and report.effective_filter_size:
        values = list(report.singular_values)
        part.figures.append(singular_figure(values, report.effective_filter_size, report.filter_size))
    if isinstance(symmetry, KroneckerSymmetry):
        _draw_factors(symmetry, part)
    elif U is not None and U.numel() > _LARGEST_SVD:
        part.notes.append(f"U has {U.numel():,} entries: too many to decompose on this page.")
    elif U is not None and not bool(torch.isfinite(U).all()):
        part.notes.append("U has entries of NaN or infinity: it is not decomposed.")
    elif U is not None:
        used = report.effective_filter_size if report is not None else effective_filter_size(U)
        used = min(used, U.shape[1])  # the report may be about a U that was changed after the checkpoint
        if report is None:
            part.facts.append(("filter entries used", f"{used} of {U.shape[1]}"))
            part.figures.append(singular_figure(torch.linalg.svdvals(U).tolist(), used, U.shape[1]))
        if layer.weight is not None and layer.weight.ndim == 2 and used:
            outputs, inputs = symmetry.weight_shape if symmetry is not None else layer.weight.shape
            part.figures.append(submatrices_figure(U, outputs, inputs, used))


def _matrix(layer: Layer) -> Tensor | None:
    if isinstance(layer.symmetry, DenseSymmetry):
        return layer.symmetry.U.detach().double().cpu()
    return layer.columns


def _draw_weight(layer: Layer, part: LayerPart) -> None:
    weight, about = layer.weight, layer.about
    if weight is None:
        return
    if not bool(torch.isfinite(weight).all()):
        part.notes.append("The weight has entries of NaN or infinity, drawn in magenta.")
    if weight.ndim > 2:
        part.figures.append(filters_figure(weight, about))
    elif weight.numel() > MOST_CELLS:
        part.notes.append(f"The weight has {weight.numel():,} entries: too many to draw.")
    else:
        W = weight.numpy()
        top = _top(W)
        part.figures.append(
            Figure(
                "Weight matrix",
                matrix_image(W, f"Weight matrix of {shape(W.shape)}, outputs down, inputs across."),
                f"W, {about}. Each row is an output, each column an input.",
                colour_bar(number(top)),
                css="matrix",
            )
        )


def filters_figure(weight: Tensor, about: str) -> Figure:
    """The filters of a convolution ``[out, in, *kernel]``, those of the first input channel."""
    bank = weight[:, 0].reshape(weight.shape[0], *_plane(weight.shape[2:]))[:SHOWN_FILTERS].numpy()
    top = _top(bank)
    tiles = _tiles(
        [
            (str(i), matrix_image(one, f"Filter {i}, {shape(one.shape)} pixels.", limit=top))
            for i, one in enumerate(bank)
        ],
        "filters",
    )
    channels = f" of the first of {weight.shape[1]} input channels" if weight.shape[1] > 1 else ""
    rest = f"the first {len(bank)} of {len(weight)}" if len(bank) < len(weight) else f"all {len(bank)}"
    return Figure(
        "Filters",
        tiles,
        f"The filters{channels}, {about}: {rest}.",
        colour_bar(number(top)),
        css="wide",
    )


def _draw_factors(symmetry: KroneckerSymmetry, part: LayerPart) -> None:
    names = ("U_out", "U_in", "U_space")
    for name, factor in zip(names, symmetry.factors, strict=False):
        values = factor.detach().double().cpu().numpy()
        if values.size == 1:
            part.facts.append((f"factor {name}", f"one number, {number(float(values[0, 0]))}"))
            continue
        if values.size > MOST_CELLS:
            part.notes.append(f"{name} has {values.size:,} entries: too many to draw.")
            continue
        part.figures.append(
            Figure(
                f"Factor {name}",
                matrix_image(values, f"Kronecker factor {name}, {shape(values.shape)}."),
                f"{shape(values.shape)}: its columns are defined up to an invertible change.",
                colour_bar(number(_top(values))),
                css="matrix",
            )
        )


def singular_figure(values: Sequence[float], used: int, count: int) -> Figure:
    """The largest of the ``count`` singular values of U, with the ``used`` ones set apart from the others."""
    places = list(range(1, len(values) + 1))
    series = [Series("used", places[:used], values[:used], marks=True)]
    if used < len(values):
        series.append(Series("not used", places[used:], values[used:], marks=True))
    about = f"Singular values of U; {used} of {count} come before the largest drop."
    chart = line_chart(series, xlabel="number", ylabel="singular value", zero=True, about=about)
    head = ", ".join(number(v) for v in values[: min(used, 5)])
    then = f", then {number(values[used])}" if used < len(values) else ""
    dots = " and so on" if used > 5 else ""
    rest = f" The largest {len(values):,} are drawn." if len(values) == _STORED and count > _STORED else ""
    return Figure(
        "Singular values of U",
        chart or Markup(""),
        f"{used:,} of {count:,} are used: {head}{dots}{then}.{rest}",
    )


def submatrices_figure(U: Tensor, outputs: int, inputs: int, used: int) -> Figure:
    """The first submatrices pi(i) of U ``[outputs * inputs, k]``, in a gauge that can be read."""
    turned = readable(U, inputs, used).reshape(outputs, inputs, used)[:, :, :SHOWN_COLUMNS].abs().numpy()
    size = turned.shape[2]
    rows = inputs if inputs <= SHOWN_ROWS + 8 else SHOWN_ROWS
    shown = turned[:SHOWN_BLOCKS, :rows]
    top = _top(shown)
    tiles = _tiles(
        [
            (f"π({i})", matrix_image(block, f"Submatrix {i} of U.", limit=top, signed=False))
            for i, block in enumerate(shown)
        ],
        "blocks" if size <= 8 else "blocks broad",
    )
    counted = f"the first {len(shown)} of {outputs}" if len(shown) < outputs else f"all {outputs}"
    cut = f", {rows} of their {inputs} rows" if rows < inputs else ""
    return Figure(
        "Submatrices of U",
        tiles,
        f"π(i) makes row i of W from the filter: {counted}{cut}, by absolute value. U is defined up to a turn of "
        f"its columns; here they are turned so that π(0) is nearest to the identity, {size} of {U.shape[1]} "
        "columns shown.",
        colour_bar(number(top), signed=False),
        css="wide",
    )


def _tiles(items: Sequence[tuple[str, Markup]], css: str) -> Markup:
    parts = Markup("").join(
        Markup("<li>{}<span>{}</span></li>").format(picture, label) for label, picture in items
    )
    return Markup('<ul class="tiles {}">{}</ul>').format(css, parts)


def _plane(kernel: torch.Size) -> tuple[int, int]:
    """A kernel as a picture: one dimension is a row, three dimensions are slices below each other."""
    return (1, kernel[0]) if len(kernel) == 1 else (math.prod(kernel[:-1]), kernel[-1])


def _top(values: NDArray[np.float64]) -> float:
    finite = values[np.isfinite(values)]
    return float(np.abs(finite).max(initial=0.0))
