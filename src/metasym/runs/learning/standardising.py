"""What x and y are moved and divided by, so that a symmetry means the same before and after.

A linear map with an offset has the same weights around any point: its inputs are centred, and its bias takes what
that moves. Columns are divided by one number for all whose scales are alike: exchanging two of them is the same
before and after. All the rest is divided by one number for all of x and one for all of y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from metasym.diagnosis.findings import Diagnosis
from metasym.runs.files.learn_options import Options
from metasym.tasks.stored import Layout
from metasym.tasks.task_file import TaskFile

_USUAL = (0.5, 2.0)
"""Data whose root mean square is in this range are left as they are."""


def needs_bias(diagnosis: Diagnosis, options: Options, *, single_layer: bool, padding: int) -> bool:
    """Whether the network has biases: asked for, usual where layers follow each other, or needed for an offset."""
    if options.bias is not None:
        return options.bias
    if not single_layer:
        return True
    return (diagnosis.offset or diagnosis.centre) and options.scale != "none" and padding == 0


def layout_of(
    file: TaskFile,
    options: Options,
    diagnosis: Diagnosis,
    model: str,
    shapes: Sequence[tuple[int, ...]],
    bias: bool,
) -> Layout:
    """How the network ``model`` with the ``shapes`` of its inputs and outputs sees the file's examples."""
    inputs, outputs = shapes
    if options.scale == "none":
        return Layout(inputs, outputs)
    known, own = diagnosis.standard, ":" in model
    vectors = not own and model in ("fc", "mlp") and file.x.ndim == 3
    x_offset = known.x_mean if diagnosis.centre and bias and not own else ()
    moved = vectors and bias and (diagnosis.centre or diagnosis.offset)
    y_offset = known.y_mean if moved and not file.classes else ()
    x_columns = known.x_columns if vectors else ()
    y_columns = known.y_columns if vectors and not file.classes else ()
    return Layout(
        inputs,
        outputs,
        _scale(_size(known.x_mean, known.x_within if x_offset else known.x_spread, x_offset, x_columns)),
        1.0
        if file.classes
        else _scale(_size(known.y_mean, known.y_within if y_offset else known.y_spread, y_offset, y_columns)),
        x_offset,
        y_offset,
        x_columns,
        y_columns,
    )


def standard_words(layout: Layout) -> str:
    """What is done to x and y, in words."""
    words = []
    for name, offset, columns, scale in (
        ("x", layout.x_offset, layout.x_columns, layout.x_scale),
        ("y", layout.y_offset, layout.y_columns, layout.y_scale),
    ):
        if offset:
            words.append(f"{name} less its mean")
        if columns:
            by = sorted({c * scale for c in columns})
            words.append(f"{name} divided by groups of columns: {', '.join(f'{s:.3g}' for s in by)}")
        elif scale != 1:
            words.append(f"{name} divided by {scale:.4g}")
    return ", ".join(words) or "x and y as they are"


def _size(
    mean: tuple[float, ...], spread: tuple[float, ...], offset: Sequence[float], columns: Sequence[float]
) -> float:
    """The root mean square of all numbers after moving and dividing their columns."""
    squares = np.square(spread) + (0.0 if offset else np.square(mean))
    return math.sqrt(float((squares / np.square(columns or (1.0,))).mean()))


def _scale(size: float) -> float:
    low, high = _USUAL
    return 1.0 if size == 0 or low <= size <= high else size
