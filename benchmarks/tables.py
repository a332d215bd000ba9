"""Results as text and charts."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from benchmarks.scaling import AXES, exponent
from metasym.storage.atomic import write_atomically


def row_lines(result: Mapping[str, Any]) -> list[str]:
    """A row as lines: each contender, then each ratio with its target."""
    lines = [f"{result['row']}: {result['title']}"]
    for name, found in result["contenders"].items():
        spread = f"{found['fastest']:.4g} to {found['slowest']:.4g}"
        lines.append(
            f"  {name:10s} {found['milliseconds']:9.4g} ms a step ({spread}), "
            f"{found['steps_per_second']:8.4g} steps/s, peak {found['peak_mb']:6.0f} MB"
        )
    for c in result["comparisons"]:
        word = "met" if c["met"] else "NOT met"
        verb = "times as fast as" if c["sense"] == "at least" else "times the cost of"
        lines.append(
            f"  {c['of']} is {c['ratio']:.3g} {verb} {c['with']} ({c['lowest']:.3g} to {c['highest']:.3g}); "
            f"target {c['sense']} {c['target']:g}: {word}"
        )
    return lines


def markdown(results: Sequence[Mapping[str, Any]]) -> str:
    """The table of all ratios, for docs/performance.md."""
    lines = [
        "| workload | ours | contender | its time | ratio | target | peak memory, ours / its |",
        "|---|---|---|---|---|---|---|",
    ]
    for result in results:
        for c in result["comparisons"]:
            ours, other = result["contenders"][c["of"]], result["contenders"][c["with"]]
            sign = "≥" if c["sense"] == "at least" else "≤"
            met = "" if c["met"] else " (not met)"
            lines.append(
                f"| {result['title']} | {ours['milliseconds']:.3g} ms | {c['with']} | {other['milliseconds']:.3g} ms "
                f"| {c['ratio']:.3g} ({c['lowest']:.3g} to {c['highest']:.3g}) | {sign} {c['target']:g}{met} "
                f"| {ours['peak_mb']:.0f} / {other['peak_mb']:.0f} MB |"
            )
    return "\n".join(lines) + "\n"


def run_times(problems: Sequence[Mapping[str, Any]]) -> str:
    """Seconds of one core by method, medians with the range over rounds, for docs/performance.md."""
    methods = list(dict.fromkeys(method for one in problems for method in one["seconds"]))
    lines = [f"| problem | {' | '.join(methods)} |", "|---" * (1 + len(methods)) + "|"]
    for one in problems:
        cells = [
            f"{t['median']:.3g} ({t['least']:.3g} to {t['most']:.3g})" if t else ""
            for t in (one["seconds"].get(method) for method in methods)
        ]
        lines.append(f"| {one['title']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def ratio_chart(results: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Ratios beside their targets, logarithmic."""
    bars = [
        (f"{r['row']} / {c['with']}", c)
        for r in results
        for c in r["comparisons"]
        if c["sense"] == "at least"
    ]
    if not bars:
        return
    figure, axes = plt.subplots(figsize=(7, 0.5 * len(bars) + 1.2), layout="constrained")
    places = range(len(bars))
    axes.barh(places, [c["ratio"] for _, c in bars], color="#4878a8")
    axes.plot([c["target"] for _, c in bars], places, "k|", markersize=18, label="target")
    axes.set_yticks(places, [name for name, _ in bars])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("times as fast as the rival")
    axes.legend(loc="lower right")
    save(figure, path)


def scaling_chart(points: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Milliseconds a step and peak memory against each size, log-log, with measured exponents."""
    names = [axis for axis in AXES if any(p["axis"] == axis for p in points)]
    figure, grid = plt.subplots(
        2, len(names), figsize=(2.6 * len(names), 5), layout="constrained", squeeze=False
    )
    for column, axis in enumerate(names):
        chosen = sorted((p for p in points if p["axis"] == axis), key=lambda p: p["size"])
        sizes = [float(p["size"]) for p in chosen]
        for line, key in enumerate(("milliseconds", "extra_mb")):
            values = [max(float(p[key]), 1e-3) for p in chosen]
            axes = grid[line][column]
            axes.loglog(sizes, values, "o-", color="#4878a8", markersize=3)
            title = f"{axis}: exponent {exponent(sizes, values):.2f}" if len(sizes) > 2 else axis
            axes.set_title(title, fontsize=9)
            axes.tick_params(labelsize=7)
            axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            for side in (axes.xaxis, axes.yaxis):  # matplotlib writes over its own labels between decades
                side.set_minor_formatter(NullFormatter())
            axes.grid(alpha=0.3, linewidth=0.5)
            if column == 0:
                axes.set_ylabel("ms a step" if line == 0 else "MB beyond imports", fontsize=8)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Whole or not at all, the same bytes for the same numbers."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    plt.close(figure)
    write_atomically(path, buffer.getvalue(), what="a chart")
