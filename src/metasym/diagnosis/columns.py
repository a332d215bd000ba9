"""Findings about single columns of x and y, and about pairs of them: means, scales, copies, what never varies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from metasym.diagnosis.findings import CAUTION, NOTE, Finding, listed, percent
from metasym.diagnosis.samples import Floats, Samples

_MEAN = 1.0
"""Standard deviations from 0 beyond which a mean counts as large."""
_SAME = 1e-9
"""How far below 1 the correlation of two columns may be that are copies of each other."""
_NULL = 1e-9
"""An eigenvalue of the correlations, relative to the largest, that is none."""
_CONDITION = 10.0
"""The condition number of the standardised inputs from which it is worth a word; _HARD is worth a warning."""
_HARD = 30.0
_FEW_VALUES, _MANY_VALUES = 3, 200
"""Different values of an input between which rounding is examined: fewer are a design, more are fine."""
_ROUNDED = 1e-3
"""The share of an input's variance that rounding makes up where it is worth a word."""
_UNLIKE = 10.0
"""How much larger than the smallest the largest scale is where they are very different."""
_GAP = 3.0
"""Scales that differ by more than this factor from the next are of another kind."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The statistics of the columns of x or y, over all examples."""

    what: str
    """``input`` or ``output``."""
    names: tuple[str, ...]
    mean: Floats
    spread: Floats
    """The standard deviation over all examples."""
    within: Floats
    """That inside tasks, around each task's own mean."""
    correlations: Floats
    """Of the columns that vary (``varying``); the others' rows are zero."""
    constant: npt.NDArray[np.bool_]
    fixed: npt.NDArray[np.bool_]
    """Varies between tasks, never inside one."""

    @property
    def varying(self) -> npt.NDArray[np.int64]:
        """The numbers of the columns that vary inside tasks."""
        return np.flatnonzero(~self.constant & ~self.fixed)

    def called(self, columns: Sequence[int]) -> str:
        """The columns by their names."""
        return listed(self.what, list(columns), self.names)


def columns_of(samples: Samples, of: str, names: tuple[str, ...], precision: float) -> Columns:
    """The statistics of x (``of="x"``) or y; ``precision`` is that of the numbers as they are stored."""
    rows, inside = samples.rows(of), samples.within(of)
    mean, spread = rows.mean(0), rows.std(0)
    largest = np.abs(rows).max(0)
    freedom = max(1, int((samples.counts - 1).sum()))
    within = np.sqrt((inside**2).sum((0, 1)) / freedom)
    constant = np.ptp(rows, axis=0) <= 10 * precision * largest
    fixed = ~constant & (within <= 10 * precision * largest)
    scaled = np.where(constant, 0.0, (rows - mean) / np.where(spread > 0, spread, 1.0))
    correlations = scaled.T @ scaled / len(rows)
    return Columns(
        "input" if of == "x" else "output", names, mean, spread, within, correlations, constant, fixed
    )


def never_varying(columns: Columns) -> list[Finding]:
    """Columns that are constant everywhere, or inside every task."""
    found = []
    constant, fixed = np.flatnonzero(columns.constant).tolist(), np.flatnonzero(columns.fixed).tolist()
    if constant:
        means = (
            "the effect of such a column on the outputs cannot be learned"
            if columns.what == "input"
            else "such an output is predicted by a constant, and does not show which inputs it depends on"
        )
        found.append(
            Finding(
                f"constant_{columns.what}s",
                CAUTION,
                f"{_capital(columns.called(constant))} never var{'y' if len(constant) > 1 else 'ies'}: {means}. "
                "Remove such columns, or read the verdict as one about the other columns",
                {"columns": constant, "values": [float(columns.mean[c]) for c in constant]},
            )
        )
    if fixed:
        found.append(
            Finding(
                f"{columns.what}s_fixed_in_tasks",
                CAUTION,
                f"{_capital(columns.called(fixed))} differ{'' if len(fixed) > 1 else 's'} between tasks but never "
                "inside one: inside a task such a column looks the same as an offset",
                {"columns": fixed},
            )
        )
    return found


def rounded_inputs(columns: Columns, samples: Samples) -> list[Finding]:
    """Inputs in steps so coarse that, if the steps are those of rounding, the weights come out too small."""
    rows = samples.rows("x")
    coarse, bias = [], 0.0
    for c in columns.varying.tolist():
        values = np.unique(rows[:, c])
        if not _FEW_VALUES < len(values) <= _MANY_VALUES:
            continue
        gaps = np.diff(values)
        step = float(gaps.min())
        share = step**2 / 12 / float(columns.within[c]) ** 2
        if share > _ROUNDED and np.abs(gaps / step - np.round(gaps / step)).max() < 1e-3:
            coarse.append(c)
            bias = max(bias, share)
    if not coarse:
        return []
    return [
        Finding(
            "rounded_inputs",
            NOTE,
            f"{_capital(columns.called(coarse))} var{'y' if len(coarse) > 1 else 'ies'} in whole steps. If these are "
            f"rounded measurements, weights come out too small by up to {percent(bias)}, unevenly among inputs, "
            "which bounds do not include. Counts and settings are exact: for them there is nothing to do",
            {"columns": coarse, "bias": bias},
        )
    ]


def large_means(columns: Columns) -> list[Finding]:
    """Inputs whose mean is larger than what they vary by."""
    ratio = np.zeros(len(columns.mean))
    vary = columns.varying
    ratio[vary] = np.abs(columns.mean[vary]) / columns.within[vary]
    far = np.flatnonzero(ratio > _MEAN).tolist()
    if not far:
        return []
    worst = int(ratio.argmax())
    return [
        Finding(
            "large_means",
            NOTE,
            f"{_capital(columns.called(far))} ha{'ve means' if len(far) > 1 else 's a mean'} far from 0: "
            f"{columns.called([worst])} has mean {columns.mean[worst]:.4g} and varies by {columns.within[worst]:.3g}",
            {"columns": far, "largest_ratio": float(ratio[worst])},
        )
    ]


def copies(columns: Columns) -> list[Finding]:
    """Columns that are the same up to sign, factor and offset, and columns that depend on several others."""
    vary = columns.varying
    if len(vary) < 2:
        return []
    R = columns.correlations[np.ix_(vary, vary)]
    pairs = np.argwhere(np.triu(np.abs(R) >= 1 - _SAME, 1))
    found, later = [], set()
    words, listed_pairs = [], []
    for a, b in pairs.tolist():
        if a in later or b in later:
            continue
        later.add(b)
        one, other = int(vary[a]), int(vary[b])
        factor = math.copysign(float(columns.spread[other] / columns.spread[one]), float(R[a, b]))
        kind = (
            "a copy of"
            if abs(factor - 1) < 1e-6
            else "the negative of"
            if abs(factor + 1) < 1e-6
            else f"{factor:.4g} x"
        )
        words.append(f"{columns.called([other])} is {kind} {columns.called([one])}")
        listed_pairs.append([one, other, factor])
    if words:
        means = (
            "their weights cannot be distinguished, and a symmetry that exchanges them says nothing about the tasks"
            if columns.what == "input"
            else "a symmetry that exchanges them belongs to the columns, not to the tasks"
        )
        more = f" and {len(words) - 4} more" if len(words) > 4 else ""
        found.append(
            Finding(
                f"copied_{columns.what}s",
                CAUTION,
                f"{_capital('; '.join(words[:4]))}{more}: {means}. Remove the copies",
                {"pairs": listed_pairs},
            )
        )
    kept = [i for i in range(len(vary)) if i not in later]
    return found + _dependent(columns, vary[kept])


def _dependent(columns: Columns, kept: npt.NDArray[np.int64]) -> list[Finding]:
    if columns.what == "output" or len(kept) < 2:
        return []
    values, vectors = np.linalg.eigh(columns.correlations[np.ix_(kept, kept)])
    null = int((values < _NULL * values[-1]).sum())
    if null:
        shares = np.abs(vectors[:, :null]).max(1)
        members = kept[shares > 0.05 * shares.max()].tolist()
        fixed = "one combination" if null == 1 else f"{null} combinations"
        return [
            Finding(
                "dependent_inputs",
                CAUTION,
                f"{_capital(columns.called(members))} depend on each other: {fixed} of them never var"
                f"{'ies' if null == 1 else 'y'} (such as parts with a fixed sum), so "
                f"{'its' if null == 1 else 'their'} effect on the outputs cannot be learned",
                {"columns": members, "combinations": null},
            )
        ]
    condition = math.sqrt(values[-1] / values[0])
    if condition < _CONDITION:
        return []
    share = float(values[-1] / values.sum())
    return [
        Finding(
            "common_factor",
            CAUTION if condition >= _HARD else NOTE,
            f"The inputs are correlated: one direction carries {percent(share)} of their variance (condition number "
            f"{condition:.3g}). Weights across it are about {condition:.2g} times less precise than weights along it",
            {"condition": condition, "share": share},
        )
    ]


def unlike_scales(columns: Columns) -> tuple[list[Finding], tuple[float, ...]]:
    """Columns of very different scales, and what to divide each by: one number for all that are alike."""
    vary = np.flatnonzero(~columns.constant)
    scale = columns.spread
    if len(vary) < 2 or scale[vary].max() < _UNLIKE * scale[vary].min():
        return [], ()
    order = vary[np.argsort(scale[vary])]
    cuts = np.flatnonzero(scale[order[1:]] > _GAP * scale[order[:-1]]) + 1
    groups = np.split(order, cuts)
    numbers = {"smallest": float(scale[order[0]]), "largest": float(scale[order[-1]]), "groups": len(groups)}
    first = (
        f"The {columns.what}s have very different scales: {columns.called([int(order[-1])])} varies by "
        f"{scale[order[-1]]:.3g}, {columns.called([int(order[0])])} by {scale[order[0]]:.3g}"
    )
    if len(groups) == 1:
        return [
            Finding(
                f"unlike_{columns.what}s",
                NOTE,
                f"{first}, without a gap between. They are not rescaled",
                numbers,
            )
        ], ()
    divide = np.ones(len(scale))
    for group in groups:
        divide[group] = math.exp(float(np.log(scale[group]).mean()))
    divide[columns.constant] = math.exp(float(np.log(scale[vary]).mean()))
    divide /= math.exp(float(np.log(divide).mean()))  # what is common to all is in the one scale of x or y
    note = (
        f"{first}. Each of the {len(groups)} groups of similar scale is divided by its scale, so that no "
        f"{columns.what} is lost. A symmetry between columns of different groups holds for the divided numbers"
    )
    return [Finding(f"unlike_{columns.what}s", NOTE, note, numbers)], tuple(float(d) for d in divide)


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
