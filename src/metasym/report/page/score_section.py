"""The part about scores: one row for each run, seeds pooled, and how single tasks did."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import escape

from metasym.paper.catalogue import printed
from metasym.report.page.html_words import number, plural, tick
from metasym.report.page.run_folders import Run
from metasym.report.page.svg import WIDTH, Scale, drawing, histogram, span
from metasym.report.page.training_section import Figure, by_evidence
from metasym.report.table_cells import pool
from metasym.verdicts.group_words import method_words
from metasym.verdicts.reports import LayerReport

_MOST_BARS = 40


@dataclass(frozen=True)
class Row:
    """One run in the table of scores."""

    anchor: str | None
    """Where the page shows more about it."""
    name: str
    experiment: str
    method: str
    recipe: str
    score: str
    median: str
    diverged: str
    steps: str
    seed: str
    paper: str
    symmetry: str
    state: str
    finished: bool


def score_text(result: dict[str, Any]) -> str:
    """``0.0718 ± 0.0131``; accuracies in per cent; for a single task, which has no interval, the score alone."""
    alone = len(result.get("per_task") or ()) == 1 and math.isfinite(result["mean"])
    if alone:
        return f"{100 * result['mean']:.1f} %" if result["metric"] == "accuracy" else number(result["mean"])
    if result["metric"] == "accuracy":
        return f"{100 * result['mean']:.1f} ± {100 * result['ci95']:.1f} %".replace("nan", "not finite")
    if not math.isfinite(result["mean"]):
        return "not finite"
    return f"{number(result['mean'])} ± {number(result['ci95'])}"


def steps_text(run: Run) -> str:
    """The outer steps of a finished run; rounds where U was computed by evidence, which takes no steps."""
    assert run.result is not None
    count = run.result["outer_steps"]
    return plural(count, "round") if by_evidence(run) else f"{count:,}"


def row(run: Run, anchor: str | None, symmetry: str = "-") -> Row:
    """The run's line in the table; ``symmetry`` is what was found, in a few words."""
    result = run.result
    if result is None:
        recipe, seed = run.config.get("recipe_name", run.config.get("recipe")), run.chosen("seed")
        steps = f"{run.records.steps[-1]:,}" if run.records.steps else "-"
        blank = ("-", "-", "-", steps, "-" if seed is None else str(seed), "-", symmetry)
        return Row(
            anchor,
            run.name,
            run.title,
            run.method,
            recipe if isinstance(recipe, str) else "-",
            *blank,
            state=run.state,
            finished=False,
        )
    name = result["experiment"]
    beside = printed(name) if result["recipe"] == "paper" else None
    percent = result["metric"] == "accuracy"
    return Row(
        anchor,
        run.name,
        run.title,
        run.method,
        result["recipe"],
        score_text(result),
        f"{100 * result['median']:.1f} %" if percent else number(result["median"]),
        f"{result['diverged']} / {len(result['per_task'])}",
        steps_text(run),
        str(result["seed"]),
        str(beside) if beside else "-",
        symmetry,
        run.state,
        True,
    )


def pooled(runs: Sequence[Run]) -> list[tuple[str, ...]]:
    """Runs that differ only in their seeds, taken together: rows of the table; none where there are no such runs.

    (experiment, recipe, seeds, score over all tasks of all seeds, lowest and highest mean, median, diverged)
    """
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for run in runs:
        if run.result is not None and run.result["metric"] == "mse" and run.recipe:
            rest = {
                k: v for k, v in run.recipe.items() if k not in ("seed", "data_seed", "threads", "device")
            }
            key = (run.title, run.result["recipe"], repr(sorted(rest.items(), key=str)))
            groups.setdefault(key, []).append(run.result)
    rows: list[tuple[str, ...]] = []
    for (name, recipe, _), results in groups.items():
        if len(results) < 2 or any(not _poolable(result) for result in results):
            continue
        cell = pool(results)
        rows.append(
            (
                name,
                recipe,
                ", ".join(map(str, cell.seeds)),
                f"{number(cell.mean)} ± {number(cell.ci95)}",
                f"{number(cell.lowest)} to {number(cell.highest)}",
                number(cell.median),
                f"{cell.diverged} / {cell.tasks}",
            )
        )
    return rows


def _poolable(result: dict[str, Any]) -> bool:
    try:
        int(result["config"]["recipe"]["image_size"])
    except (KeyError, TypeError, ValueError):
        return False
    return bool(result["per_task"]) and None not in result["inner_lrs"].values()


@dataclass(frozen=True)
class Methods:
    """Scores by the number of support examples, the methods side by side."""

    names: tuple[str, ...]
    rows: list[tuple[str, ...]]
    """The number of support examples, and a score for each method."""


def methods(
    result: dict[str, Any], baseline: dict[str, Any] | None, reports: Sequence[LayerReport]
) -> Methods | None:
    """The table of a run that was scored from several numbers of support examples; None for any other."""
    without = {"metric": result["metric"], "by_support": result.get("without_symmetry")}
    columns = {
        method_words(reports): _by_support(result),
        "U as learned, not averaged": _by_support(without),
        "same network, plain (MAML)": {} if baseline is None else _by_support(baseline),
    }
    columns = {name: column for name, column in columns.items() if column}
    if not _by_support(result):
        return None
    names = tuple(columns) if len(columns) > 1 else ("score",)
    found = list(columns.values())
    rows = [
        (
            f"{count}, as chosen" if str(result.get("support")) == count else count,
            *(column.get(count, "-") for column in found),
        )
        for count in found[0]
    ]
    return Methods(names, rows)


def _by_support(result: dict[str, Any]) -> dict[str, str]:
    found = result.get("by_support")
    cells = {}
    for count, cell in (found if isinstance(found, dict) else {}).items():
        if isinstance(cell, dict):
            mean, half = (math.nan if cell.get(key) is None else float(cell[key]) for key in ("mean", "ci95"))
            cells[str(count)] = score_text({"metric": result["metric"], "mean": mean, "ci95": half})
    return cells


def tasks_figure(result: dict[str, Any]) -> Figure | None:
    """How the test tasks' scores are spread."""
    values = result["per_task"]
    percent = result["metric"] == "accuracy"
    good = [v for v in values if math.isfinite(v)]
    log = not percent and all(v > 0 for v in good)
    about = f"Histogram of the {result['metric']} of {plural(len(values), 'test task')}"
    if good:
        about += (
            f": lowest {number(min(good))}, median {number(result['median'])}, highest {number(max(good))}."
        )
    chart = histogram(values, xlabel=f"{result['metric']} of a test task", about=about, log=log)
    if chart is None:
        return None
    bad = len(values) - len(good)
    caption = f"{plural(len(values), 'test task')}" + (", on a logarithmic axis." if log else ".")
    if bad:
        caption += f" {bad} of them not finite, and not drawn."
    return Figure("Single tasks", chart, caption)


def intervals_figure(runs: Sequence[Run]) -> Figure | None:
    """Means with their 95 % intervals, one line for each run: where a reader looks first. Only one metric is drawn.

    A mean far beyond the others (a task diverged) is an arrow at the edge, so that the others stay distinguishable.
    """
    done = [run for run in runs if run.result is not None and math.isfinite(run.result["mean"])]
    metrics = {run.result["metric"] for run in done if run.result}
    if len(done) < 2 or len(metrics) != 1:
        return None
    metric = metrics.pop()
    shown = done[:_MOST_BARS]
    ends = [_ends(run.result) for run in shown if run.result]
    means = sorted(mean for _, mean, _ in ends)
    most = 100 * max(means[len(means) // 2], 1e-300) if means[0] > 0 else math.inf
    inside = [mean for mean in means if mean <= most]
    log = metric != "accuracy" and means[0] > 0 and inside[-1] / means[0] > 20
    drawn = [min(max(v, means[0] / 10 if log else -math.inf), 2 * inside[-1]) for e in ends for v in e]
    reach = span(drawn, log)
    assert reach is not None
    line, top = 32, 4
    bottom = top + line * len(shown)
    xs = Scale(*reach, 8, WIDTH - 8, log)
    parts = [_grid(xs, top, bottom)]
    for index, (run, (low, mean, high)) in enumerate(zip(shown, ends, strict=True)):
        y = top + line * index + 22
        parts.append(f'<text class="tick" x="8" y="{y - 9}">{escape(_fitting(run.name))}</text>')
        parts.append(f'<path class="grid" d="M8 {y}H{WIDTH - 8}"/>')
        if mean > reach[1]:
            parts.append(f'<path class="mark c1" d="M{WIDTH - 4} {y}l-9 -5v10z"/>')
            continue
        if mean < reach[0]:
            parts.append(f'<path class="mark c1" d="M4 {y}l9 -5v10z"/>')
            continue
        left, right = xs(max(low, reach[0])), xs(min(high, reach[1]))
        parts.append(f'<path class="whisker" d="M{left:.1f} {y}H{right:.1f}"/>')
        parts.append(f'<circle class="mark c0" cx="{xs(mean):.1f}" cy="{y}" r="3.6"/>')
    parts.append(
        f'<text class="label" x="{WIDTH / 2:.0f}" y="{bottom + 34}" text-anchor="middle">'
        f"{escape(metric)}{', logarithmic' if log else ''}</text>"
    )
    pick = max if metric == "accuracy" else min
    best = pick(shown, key=lambda run: float(run.result["mean"]) if run.result else 0.0)
    caption = "Mean over the test tasks, with its 95 % interval."
    if any(not reach[0] <= mean <= reach[1] for mean in means):
        caption += " An arrow: far beyond the others."
    if len(done) > len(shown):
        caption += f" The first {len(shown)} of {len(done)} runs."
    about = f"Mean {metric} with 95 % interval of {plural(len(shown), 'run')}; best: {best.name}."
    return Figure("Scores", drawing(WIDTH, bottom + 40, about, parts), caption)


def _grid(xs: Scale, top: float, bottom: float) -> str:
    parts, free = [], 0.0
    for value in xs.ticks():
        x, half = xs(value), 3.6 * len(tick(value))
        if x - half < free or x + half > WIDTH:
            continue
        free = x + half + 6
        parts.append(f'<path class="grid" d="M{x:.1f} {top}V{bottom}"/>')
        parts.append(
            f'<text class="tick" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{tick(value)}</text>'
        )
    return "".join(parts)


def _ends(result: dict[str, Any]) -> tuple[float, float, float]:
    half = result["ci95"] if math.isfinite(result["ci95"]) else 0.0
    return result["mean"] - half, result["mean"], result["mean"] + half


def _fitting(name: str, most: int = 58) -> str:
    return name if len(name) <= most else "…" + name[-most + 1 :]


def description(result: dict[str, Any]) -> str:
    """What the problem was, as the result says it."""
    found = result.get("problem")
    return found if isinstance(found, str) else ""
