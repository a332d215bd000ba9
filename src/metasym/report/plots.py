"""Figures for notebooks: what ``.plot()`` of reports and runs draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from metasym.report.drawing import new_figure
from metasym.report.page.found_symmetry import class_colour
from metasym.types import MetasymError
from metasym.verdicts.layer_words import summary_words
from metasym.verdicts.reports import LayerReport, SharingPattern
from metasym.verdicts.symmetry_report import SymmetryReport

_MOST_LAYERS = 8
_ROW = 2.6
"""Height of a layer's row, in inches."""


def report_figure(found: SymmetryReport | LayerReport) -> Any:
    """For each layer its sharing pattern, a colour a class, and the singular values of U."""
    layers = (list(found) if isinstance(found, SymmetryReport) else [found])[:_MOST_LAYERS]
    if not layers:
        raise MetasymError(
            "expected a report on at least one layer to plot, found none", about="report", found=0
        )
    figure = new_figure(7.5, _ROW * len(layers))
    for layer, (left, right) in zip(layers, figure.subplots(len(layers), 2, squeeze=False), strict=True):
        _pattern(left, layer)
        _singular_values(right, layer)
    return figure


def run_figure(
    curves: Mapping[str, Sequence[Any]] | None,
    scores: Mapping[str, tuple[float, float]],
    metric: str,
    title: str,
) -> Any:
    """Learning curves, where there was training by steps, and scores: means with halves of their 95 % intervals."""
    panels = [*(["curves"] if curves is not None else []), *(["scores"] if scores else [])]
    if not panels:
        raise MetasymError(
            "expected a run with learning curves or scores to plot, found neither",
            about=title,
            found="neither",
        )
    figure = new_figure(3.75 * len(panels), _ROW)
    axes = dict(zip(panels, figure.subplots(1, len(panels), squeeze=False)[0], strict=True))
    if curves is not None:
        _curves(axes["curves"], curves)
    if scores:
        _scores(axes["scores"], scores, metric)
    figure.suptitle(title)
    return figure


def _pattern(axis: Any, layer: LayerReport) -> None:
    axis.set_title(f"{layer.name or 'the layer'}: {summary_words(layer)}", fontsize="small")
    if layer.pattern is None:
        axis.set_axis_off()
        axis.text(0.5, 0.5, "no sharing pattern was read", ha="center", va="center")
        return
    axis.imshow(_colours(layer.pattern), interpolation="nearest", aspect="auto")
    axis.set_xlabel("inputs")
    axis.set_ylabel("outputs")


def _colours(pattern: SharingPattern) -> np.ndarray[Any, np.dtype[np.float64]]:
    """An RGB picture: a colour a class, grey for entries alone in theirs, white for zeros."""
    classes = np.abs(np.asarray(pattern.classes, dtype=np.int64))
    numbers, sizes = np.unique(classes[classes != 0], return_counts=True)
    picture = np.ones((*classes.shape, 3))
    picture[classes != 0] = 0.75
    largest = sorted(
        (-int(size), int(number)) for number, size in zip(numbers, sizes, strict=True) if size > 1
    )
    for rank, (_, number) in enumerate(largest):
        picture[classes == number] = np.array(class_colour(rank)) / 255
    return picture


def _singular_values(axis: Any, layer: LayerReport) -> None:
    values, used = layer.singular_values, layer.effective_filter_size
    places = np.arange(1, len(values) + 1)
    axis.plot(places[:used], values[:used], "o", markersize=3, label="used")
    axis.plot(places[used:], values[used:], "o", markersize=3, label="not used")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("number")
    axis.set_ylabel("singular value of U")
    axis.legend(fontsize="small")


def _curves(axis: Any, curves: Mapping[str, Sequence[Any]]) -> None:
    axis.plot(curves["step"], curves["outer_loss"], label="outer loss")
    checked = [(s, v) for s, v in zip(curves["step"], curves["validation"], strict=True) if v is not None]
    if checked:
        axis.plot(*zip(*checked, strict=True), "o-", markersize=3, label="validation")
    if min((v for v in curves["outer_loss"] if v is not None), default=0) > 0:
        axis.set_yscale("log")
    axis.set_xlabel("outer step")
    axis.legend(fontsize="small")


def _scores(axis: Any, scores: Mapping[str, tuple[float, float]], metric: str) -> None:
    means, reaches = zip(*scores.values(), strict=True)
    axis.bar(list(scores), means, yerr=reaches, capsize=4)
    axis.set_ylabel(f"{metric}, held-out, with 95 %")
