"""How accuracy falls with the angle by which query images are turned: a table and a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metasym.report.accuracies import ahead
from metasym.report.curves import LOOKS
from metasym.report.drawing import figure_files
from metasym.report.text_table import Table
from metasym.types import MetasymError

SHOWN = (0, 30, 45, 90, 135, 180)
"""Degrees that the table shows; the figure and the files have all of them."""
_SAME = ("tasks", "queries", "episodes")
"""What runs on the same tasks have in common."""


def angles_table(measured: Sequence[dict[str, Any]]) -> Table:
    """One row for each run and way of flipping, and the paired difference of MSR and MAML where both are there."""
    if not measured:
        raise MetasymError(
            "expected measured angles of at least one run, found none", about="measured", found=0
        )
    degrees = [d for d in SHOWN if all(d in run["degrees"] for run in measured)]
    several = len({run["recipe"] for run in measured}) > 1
    rows = []
    for run in measured:
        scores, problem, method = run["scores"], run["experiment"].rpartition("/")[0], _named(run, several)
        for kind, label in (("turned", "no"), ("flipped", "yes")):
            cells = [_shown(scores[f"{kind} {d}"]) for d in degrees]
            both = [_shown(scores[way]) for way in ("plain", "augmented")]
            rows.append((problem, method, *(both if kind == "turned" else ("", "")), label, *cells))
    pairs = _pairs(measured)
    for problem, msr, maml in pairs:
        for kind, label in (("turned", "no"), ("flipped", "yes")):
            cells = [_difference(msr, maml, f"{kind} {d}") for d in degrees]
            both = [_difference(msr, maml, way) for way in ("plain", "augmented")]
            rows.append(
                (
                    problem,
                    _named(msr, several, "msr - maml"),
                    *(both if kind == "turned" else ("", "")),
                    label,
                    *cells,
                )
            )
    header = ("problem", "method", "as they are", "augmented", "flips", *(f"{d}°" for d in degrees))
    run = measured[0]
    remarks = (
        f"Accuracy in per cent on {run['tasks']} test tasks of {run['queries']} queries per class, with the 95 % "
        "interval; support images are never changed.",
        "Flips: both at random, before turning."
        + (" Differences are of the same tasks, task by task." if pairs else ""),
    )
    title = "Accuracy on turned query images"
    if len({row[0] for row in rows}) == 1:  # a column for it would push the numbers off the terminal
        title, header, rows = f"{title}, {rows[0][0]}", header[1:], [row[1:] for row in rows]
    return Table(title + _training(measured), header, tuple(rows), remarks)


def angles_figures(measured: Sequence[dict[str, Any]], out: Path) -> list[Path]:
    """A figure for each problem: accuracy over the angle, without and with flips, one curve for each method."""
    files: list[Path] = []
    for problem in dict.fromkeys(run["experiment"].rpartition("/")[0] for run in measured):
        mine = [run for run in measured if run["experiment"].rpartition("/")[0] == problem]
        with figure_files(out / f"angles-{problem.replace('/', '-')}", 8.6, 3.5) as (figure, made):
            axes = figure.subplots(1, 2, sharey=True)
            panels = zip(axes, (("turned", "turned"), ("flipped", "flipped and turned")), strict=True)
            for axis, (kind, title) in panels:
                for run in mine:
                    _curve(axis, run, kind, list(dict.fromkeys(run["recipe"] for run in mine)))
                for seen in ((0, 30), (150, 180)):  # both flips together turn by 180 degrees
                    axis.axvspan(*seen, color="0.92", zorder=0)
                axis.set(title=f"query images {title}", xlabel="angle, degrees")
                axis.set_xticks(range(0, 181, 30))
                axis.grid(alpha=0.3, linewidth=0.5)
            axes[0].set_ylabel("accuracy, %")
            axes[0].legend(fontsize=7, frameon=False)
            figure.suptitle(
                f"{problem}{_training(mine)}: support images upright; grey: angles seen in training; "
                "dashed: images as they are; dotted: augmented as in training",
                fontsize=8,
            )
        files += made
    return files


def _named(run: dict[str, Any], several: bool, name: str | None = None) -> str:
    """A name, its method unless another is given, with the run's recipe where there are several."""
    name = name or str(run["experiment"].rpartition("/")[2])
    return f"{name} ({run['recipe']})" if several else name


def _training(measured: Sequence[dict[str, Any]]) -> str:
    """How the runs were trained, where it is the same for all."""
    ways = {f", recipe {run['recipe']}, {run['outer_steps']:,} steps" for run in measured}
    return ways.pop() if len(ways) == 1 else ""


def _curve(axis: Any, run: dict[str, Any], kind: str, recipes: list[str]) -> None:
    colour, _, label = LOOKS[run["experiment"].rpartition("/")[2]]
    label = _named(run, len(recipes) > 1, label)
    marker = "os^vD"[recipes.index(run["recipe"]) % 5]
    scores = run["scores"]
    means = np.array([100 * scores[f"{kind} {d}"]["mean"] for d in run["degrees"]])
    spread = np.array([100 * scores[f"{kind} {d}"]["ci95"] for d in run["degrees"]])
    axis.plot(run["degrees"], means, color=colour, marker=marker, markersize=3, linewidth=1.2, label=label)
    axis.fill_between(run["degrees"], means - spread, means + spread, color=colour, alpha=0.2, linewidth=0)
    axis.axhline(100 * scores["plain"]["mean"], color=colour, linestyle="--", linewidth=0.8)
    axis.axhline(100 * scores["augmented"]["mean"], color=colour, linestyle=":", linewidth=0.8)


def _pairs(measured: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Runs of MSR and MAML on the same tasks."""
    found = {(run["experiment"], run["recipe"], run["seed"]): run for run in measured}
    pairs = []
    for (name, recipe, seed), run in found.items():
        problem, _, method = name.rpartition("/")
        other = found.get((f"{problem}/maml", recipe, seed))
        if method == "msr" and other is not None and all(other.get(k) == run.get(k) for k in _SAME):
            pairs.append((problem, run, other))
    return pairs


def _difference(msr: dict[str, Any], maml: dict[str, Any], way: str) -> str:
    ours, theirs = (run["scores"][way]["per_task"] for run in (msr, maml))
    return ahead(ours, theirs)


def _shown(score: dict[str, Any]) -> str:
    return f"{100 * score['mean']:.1f} ± {100 * score['ci95']:.1f}"
