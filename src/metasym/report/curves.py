"""Learning curves of Table 3, from the result files of its runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from metasym.paper.catalogue import names
from metasym.paper.image_cells import TABLE3
from metasym.report.drawing import figure_files
from metasym.runs.files.result_files import read_result, result_files
from metasym.storage.atomic import make_folder
from metasym.types import MetasymError

LOOKS = {
    "maml": ("#D55E00", "-", "MAML"),
    "maml-big": ("#E69F00", "--", "MAML (Big)"),
    "anil": ("#999999", "-", "ANIL"),
    "protonet": ("#009E73", "-", "ProtoNets"),
    "maml-d8": ("#CC79A7", "--", "MAML+D8"),
    "msr": ("#0072B2", "-", "MSR"),
}
"""Colours that most colour-blind people can distinguish, and dashes."""


_KEY = (
    "lines: 64 validation tasks",
    "dots: test tasks, 95 % interval",
    "crosses: the paper's, 60,000 steps",
)


def curves_figures(results: Path, out: str | os.PathLike[str]) -> list[Path]:
    """One figure for each recipe in the folder of small result files: a panel for each column of Table 3.

    Accuracy on validation tasks (always the same 64, of classes that are neither trained nor tested on), and,
    at the end of each curve, the test score with its 95 % interval and the paper's, after its 60,000 steps.
    """
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for path in result_files(results):
        result = read_result(path)
        if result.get("curve") and result["curve"]["step"]:
            kept = found.setdefault(result["recipe"], {})
            if result["experiment"] not in kept or result["seed"] == 0:
                kept[result["experiment"]] = result
    make_folder(Path(out))
    written = []
    for recipe, cells in found.items():
        written += _draw(cells, Path(out) / f"curves-{recipe}")
    return written


def _draw(cells: dict[str, dict[str, Any]], path: Path) -> list[Path]:
    order = [name for name in names("aug-*") if name in cells]
    problems = list(dict.fromkeys(name.rpartition("/")[0] for name in order))
    if not problems:
        raise MetasymError(
            "expected learning curves of Table 3, found none", about="learning curves", found=0
        )
    columns = min(len(problems), 3)
    rows = -(-len(problems) // columns)
    with figure_files(path, 3.4 * columns, 2.9 * rows + 0.6) as (figure, files):
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, problem in zip(axes, problems, strict=False):
            for place, (method, (colour, dash, label)) in enumerate(LOOKS.items()):
                result = cells.get(f"{problem}/{method}")
                if result is None:
                    continue
                curve = result["curve"]
                axis.plot(
                    curve["step"],
                    [100 * value for value in curve["validation"]],
                    dash,
                    color=colour,
                    linewidth=1.2,
                    label=label,
                )
                axis.errorbar(
                    [result["outer_steps"] * (1.03 + 0.012 * place)],
                    [100 * result["mean"]],
                    [100 * result["ci95"]],
                    fmt="o",
                    color=colour,
                    markersize=3.5,
                    capsize=2,
                )
                axis.plot(
                    [result["outer_steps"] * 1.14],
                    [TABLE3[f"{problem}/{method}"].mean],
                    marker="x",
                    color=colour,
                    markersize=5,
                )
            axis.set_title(problem, fontsize=9)
            axis.set_xlabel("outer steps")
            axis.grid(alpha=0.3, linewidth=0.5)
        for axis in axes[len(problems) :]:
            axis.set_axis_off()
        for axis in axes[::columns]:
            axis.set_ylabel("accuracy on augmented queries, %")
        drawn = {
            label: line
            for axis in axes
            for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            [drawn[label] for _, _, label in LOOKS.values() if label in drawn],
            [label for _, _, label in LOOKS.values() if label in drawn],
            loc="outside lower center",
            ncols=min(len(drawn), 3 if columns < 3 else 6),
            fontsize=7,
            frameon=False,
            title=("\n" if columns == 1 else "; ").join(_KEY),
            title_fontsize=7,
        )
    return files
