"""The part about training: learning curves and step sizes over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from markupsafe import Markup

from metasym.report.page.html_words import number, plural
from metasym.report.page.run_folders import Records, Run
from metasym.report.page.svg import COLOURS, Series, legend, line_chart
from metasym.symmetry.parametrized import short_name

POINTS = 160
"""Points of a drawn line; longer columns are cut into this many pieces."""
_MOST_PROBLEMS = 6
_LOSSES = {
    "outer_loss": "query, after adaptation (outer loss)",
    "inner_loss_after": "support, after adaptation",
    "inner_loss_before": "support, before adaptation",
}


@dataclass(frozen=True)
class Figure:
    """A figure with its title, its legend and its caption."""

    title: str
    body: Markup
    caption: str
    key: Markup | None = None
    css: str = ""


def thinned(label: str, steps: Sequence[int], values: Sequence[float]) -> Series:
    """A column as a line of at most POINTS points: the median of each piece, with its lowest and highest."""
    pieces = max(1, math.ceil(len(steps) / POINTS))
    if pieces == 1:
        return Series(label, steps, values)
    x: list[float] = []
    y: list[float] = []
    low: list[float] = []
    high: list[float] = []
    for start in range(0, len(steps), pieces):
        part = np.asarray(values[start : start + pieces], dtype=np.float64)
        good = part[np.isfinite(part)]
        x.append(float(np.mean(steps[start : start + pieces])))
        for column, pick in ((y, np.median), (low, np.min), (high, np.max)):
            column.append(float(pick(good)) if len(good) else math.nan)
    return Series(label, x, y, low, high)


def training_figures(run: Run) -> list[Figure]:
    """Learning curves, step sizes and the gradient's norm; of a first stage too, where there was one."""
    found: list[Figure | None] = []
    if run.first_stage.steps:
        found.append(_losses(run.first_stage, "First stage: finding the filter's size"))
    found += [_losses(run.records, "Learning curves"), _step_sizes(run.records), _gradient(run.records)]
    return [figure for figure in found if figure is not None]


def by_evidence(run: Run) -> bool:
    """Whether U was computed by evidence, in rounds over all tasks, without outer steps."""
    choices = run.config.get("choices")
    return (
        isinstance(choices, dict)
        and choices.get("solver") == "evidence"
        and run.config.get("method") != "maml"
    )


def training_notes(run: Run) -> list[str]:
    """What a reader of the curves should know."""
    notes = []
    records = run.records
    if not records.steps and not by_evidence(run):
        notes.append("No training was recorded here: metrics.jsonl is missing or empty.")
    if run.result is None and records.steps and run.planned_steps is None:
        notes.append(
            "A training by ms.train, without a score: run = ms.open_run(folder, model=learner), then "
            "run.add_score(ms.evaluate(learner, tasks)) puts one in."
        )
    elif run.result is None and records.steps:
        notes.append("There is no result.json: the run is still going, or it was stopped.")
    if records.torn:
        notes.append("The last line of metrics.jsonl is incomplete and was ignored.")
    if records.not_finite:
        notes.append(
            f"{plural(records.not_finite, 'outer step')} had a loss of NaN or infinity: gaps in the lines."
        )
    if records.skipped_tasks:
        notes.append(f"{plural(records.skipped_tasks, 'task')} with a loss of NaN or infinity were skipped.")
    return notes


def training_remark(run: Run) -> str:
    """Why there is no figure of step sizes, where there is none."""
    if not run.records.steps or run.records.step_sizes:
        return ""
    return "No step sizes: this method adapts without them, or solves the inner problem exactly."


def compared_curves(runs: Sequence[Run]) -> list[Figure]:
    """The outer losses of runs, one chart for each problem: losses of different problems cannot be compared."""
    problems: dict[str, list[Run]] = {}
    for run in runs:
        if run.records.steps:
            problems.setdefault(run.problem, []).append(run)
    several = {name: there for name, there in problems.items() if len(there) > 1}
    found = [
        _curves(_last_words(name) if len(problems) > 1 else "", there) for name, there in several.items()
    ]
    return [figure for figure in found[:_MOST_PROBLEMS] if figure is not None]


def _last_words(problem: str) -> str:
    """A file by its name, an experiment as it is called."""
    path = PurePath(problem)
    return path.name if path.suffix else problem


def _curves(problem: str, runs: Sequence[Run]) -> Figure | None:
    shown = runs[:COLOURS]
    series = [
        _middle(thinned(run.name, run.records.steps, run.records.columns["outer_loss"])) for run in shown
    ]
    chart = line_chart(
        series,
        xlabel="outer step",
        ylabel="outer loss",
        log=True,
        about=f"Outer loss over the outer steps of {plural(len(shown), 'run')}, logarithmic.",
    )
    if chart is None:
        return None
    rest = f"; the first {len(shown)} of {len(runs)} runs" if len(runs) > len(shown) else ""
    return Figure(
        f"Learning curves{f', {problem}' if problem else ''}",
        chart,
        f"Query loss after adaptation on training tasks, logarithmic{rest}.",
        legend([s.label for s in series]),
    )


def _middle(series: Series) -> Series:
    """The series without its band, which would hide the other lines."""
    return Series(series.label, series.x, series.y)


def _losses(records: Records, title: str) -> Figure | None:
    columns = records.columns
    series = [
        thinned(label, records.steps, columns[name])
        for name, label in _LOSSES.items()
        if any(map(math.isfinite, columns.get(name, [])))
    ]
    validation = [
        (step, value)
        for step, value in zip(records.steps, columns.get("validation", []), strict=False)
        if math.isfinite(value)
    ]
    if validation:
        x, y = zip(*validation, strict=True)
        series.append(Series("validation tasks", x, y, marks=len(x) < 100))
    last = [v for v in columns.get("outer_loss", []) if math.isfinite(v)]
    about = f"Losses over {plural(len(records.steps), 'outer step')}, logarithmic."
    if last:
        about += f" The outer loss goes from {number(last[0])} to {number(last[-1])}."
    log = not any(v < 0 for s in series for v in s.y)
    chart = line_chart(series, xlabel="outer step", ylabel="loss", log=log, about=about)
    if chart is None:
        return None
    return Figure(
        title, chart, _caption(records, "Logarithmic." if log else ""), legend([s.label for s in series])
    )


def _step_sizes(records: Records) -> Figure | None:
    names = list(records.step_sizes)
    shown = names[:COLOURS]
    series = [_middle(thinned(short_name(name), records.steps, records.step_sizes[name])) for name in shown]
    last = [
        f"{line.label} {number(records.step_sizes[name][-1])}"
        for name, line in zip(shown, series, strict=True)
    ]
    chart = line_chart(
        series,
        xlabel="outer step",
        ylabel="inner step size",
        zero=True,
        about=f"Learned inner step sizes over the outer steps. At the end: {', '.join(last)}.",
    )
    if chart is None:
        return None
    rest = f" The first {len(shown)} of {len(names)}." if len(names) > len(shown) else ""
    return Figure(
        "Step sizes", chart, f"At the last step: {', '.join(last)}.{rest}", legend([s.label for s in series])
    )


def _gradient(records: Records) -> Figure | None:
    norms = records.columns.get("gradient_norm", [])
    chart = line_chart(
        [thinned("norm", records.steps, norms)],
        xlabel="outer step",
        ylabel="gradient norm",
        log=True,
        about="The norm of the outer gradient over the outer steps, logarithmic.",
    )
    return None if chart is None else Figure("Outer gradient", chart, _caption(records, "Logarithmic."))


def _caption(records: Records, head: str) -> str:
    pieces = math.ceil(len(records.steps) / POINTS)
    if pieces < 2:
        return head
    return f"{head} Line: median of {pieces} steps; band: lowest to highest.".strip()
