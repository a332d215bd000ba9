"""Look at a file of tasks before anything is trained."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from metasym.diagnosis.columns import (
    columns_of,
    copies,
    large_means,
    never_varying,
    rounded_inputs,
    unlike_scales,
)
from metasym.diagnosis.dependence import dependence, less_the_one_before, said
from metasym.diagnosis.family import few_tasks, outlying_tasks, tasks_alike
from metasym.diagnosis.findings import CAUTION, NOTE, Diagnosis, Finding, Standard, ordered
from metasym.diagnosis.linear_part import affordable, fit_tasks, what_is_left
from metasym.diagnosis.repeated_tasks import copies_among_tasks
from metasym.diagnosis.samples import Floats, Samples, sampled_rows, take
from metasym.tasks.task_file import TaskFile

_MOST_COLUMNS = 1024
"""Columns that are compared with each other."""
_MOST_LABELS = 20
_OFFSET = 0.2
"""Of few examples: the mean of y, in its standard deviations, that counts as an offset where inputs have none."""


def diagnose(file: TaskFile) -> Diagnosis:
    """What can be seen in the data, in words, and what follows for centring and scaling.

    Columns are compared where examples are vectors; of images, whose borders may well be constant, only their mean
    is examined.
    """
    whole = take(file)
    findings = sampled_rows(file) + few_tasks(file)
    outliers: tuple[int, ...] = ()
    copied: tuple[int, ...] = ()
    if not file.classes:
        some, outliers = outlying_tasks(file)
        more, copied = copies_among_tasks(file)
        findings += some + more
    samples = without(whole, outliers)
    if file.x.ndim > 3:
        return _images(samples, findings, outliers)
    x = columns_of(samples, "x", file.input_names, _precision(file.x.dtype))
    y = columns_of(samples, "y", file.output_names, _precision(file.y.dtype))
    means = large_means(x)
    more, x_columns = unlike_scales(x)
    findings += never_varying(x) + means + more + rounded_inputs(x, samples)
    if len(x.mean) <= _MOST_COLUMNS:
        findings += copies(x)
    offset = False
    y_columns: tuple[float, ...] = ()
    if not file.classes:
        more, y_columns = unlike_scales(y)
        findings += never_varying(y) + _labels_as_numbers(samples) + more
        if len(y.mean) <= _MOST_COLUMNS:
            findings += copies(y)
        # The noise of a copy is the noise of the task: it makes nothing surer.
        rest, scales = affordable(without(samples, copied)), np.asarray(y_columns or (1.0,))
        part = fit_tasks(rest, scales, _precision(file.y.dtype))
        offset = part.offset
        dependent = dependence(rest, scales, _precision(file.y.dtype))
        if dependent is not None:
            findings.append(said(dependent))
            new = fit_tasks(
                less_the_one_before(rest, dependent.correlation), scales, _precision(file.y.dtype)
            )
            offset = new.offset  # it is fitted where slow noise may look like one, and said where it cannot
            slow = less_the_one_before(rest, dependent.largest)
            sure = offset and fit_tasks(slow, scales, _precision(file.y.dtype)).offset
            part = replace(part, offset=sure, bend=new.bend)
        findings += what_is_left(part, len(x.mean), file.examples)
        findings += tasks_alike(affordable(samples), part, scales)
        some = _mean_offset(rest) if part.unexplained is None and not means else []
        findings += some
        offset = offset or bool(some)
    standard = Standard(
        x_mean=_plain(x.mean),
        x_spread=_plain(x.spread),
        x_within=_plain(x.within),
        y_mean=_plain(y.mean),
        y_spread=_plain(y.spread),
        y_within=_plain(y.within),
        x_columns=x_columns,
        y_columns=y_columns,
    )
    return Diagnosis(ordered(findings), standard, offset, bool(means), outliers)


def _plain(values: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in values)


def _images(samples: Samples, findings: list[Finding], outliers: tuple[int, ...]) -> Diagnosis:
    """Of images: whether the mean of all numbers is far from 0. All places are moved alike, as a shift asks."""
    numbers = {of: [float(samples.rows(of).mean()), *[float(samples.rows(of).std())] * 2] for of in "xy"}
    mean, spread, _ = numbers["x"]
    centre = abs(mean) > spread > 0
    if spread == 0:
        findings.append(
            Finding(
                "constant_inputs",
                CAUTION,
                f"Every number of x is {mean:g}: there is nothing to learn from",
                {},
            )
        )
    elif centre:
        findings.append(
            Finding(
                "large_means",
                NOTE,
                f"The numbers of x have mean {mean:.4g} and vary by {spread:.3g}: far from 0",
                {"mean": mean, "spread": spread, "largest_ratio": abs(mean) / spread},
            )
        )
    inputs, outputs = samples.x.shape[2], samples.y.shape[2]
    moments = [(value,) * size for of, size in (("x", inputs), ("y", outputs)) for value in numbers[of]]
    return Diagnosis(ordered(findings), Standard(*moments), False, centre, outliers)


def without(samples: Samples, outliers: tuple[int, ...]) -> Samples:
    """The samples of all other tasks."""
    kept = ~np.isin(samples.ids, outliers)
    return Samples(samples.x[kept], samples.y[kept], samples.there[kept], samples.ids[kept])


def _mean_offset(samples: Samples) -> list[Finding]:
    """Outputs with a mean over all tasks, where inputs have none and single tasks are too short to tell."""
    means = samples.y.sum(1) / samples.counts[:, None]
    error = means.std(0) / math.sqrt(len(means))
    spread = samples.rows("y").std(0)
    sure = (np.abs(means.mean(0)) > 6 * error) & (np.abs(means.mean(0)) > _OFFSET * spread)
    if not sure.any():
        return []
    worst = int(np.argmax(np.abs(means.mean(0)) / np.where(spread > 0, spread, np.inf)))
    return [
        Finding(
            "offset",
            NOTE,
            f"y has an offset: its mean over all tasks is {means.mean(0)[worst]:.4g}, and it varies by "
            f"{spread[worst]:.3g}",
            {"mean": float(means.mean(0)[worst]), "spread": float(spread[worst])},
        )
    ]


def _labels_as_numbers(samples: Samples) -> list[Finding]:
    """Targets that look like labels."""
    values = samples.rows("y")
    kinds = np.unique(values[: 10**6])
    if values.shape[1] > 1:
        one_hot = len(kinds) == 2 and set(kinds.tolist()) == {0.0, 1.0} and bool((values.sum(1) == 1).all())
        said = "y holds one-hot labels: they are fitted by least squares, which is exact and allows a verdict"
        return [Finding("one_hot", NOTE, said, {"classes": values.shape[1]})] if one_hot else []
    whole = bool((kinds == np.floor(kinds)).all())
    if not whole or not 2 <= len(kinds) <= min(_MOST_LABELS, len(values) // 5):
        return []
    shown = ", ".join(f"{k:g}" for k in kinds[:6]) + (", ..." if len(kinds) > 6 else "")
    return [
        Finding(
            "labels_as_numbers",
            CAUTION,
            f"y holds only {len(kinds)} different whole numbers ({shown}). They are fitted as numbers; if they are "
            "labels, use --labels, or one-hot columns, which are fitted exactly and allow a verdict",
            {"values": [float(k) for k in kinds]},
        )
    ]


def _precision(dtype: np.dtype[Any]) -> float:
    """How exactly numbers of a type are stored, relative to their size."""
    return float(np.finfo(dtype).eps) if dtype.kind == "f" else float(np.finfo(np.float64).eps)
