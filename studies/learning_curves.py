"""EMLP's three problems at its own numbers of examples: ``discover`` beside networks that know the group.

    python -m studies.learning_curves --sizes 30 100 300 --seeds 3000-3004
    python -m studies.learning_curves --table
    python -m studies.learning_curves --figure docs/figures/learning-curves

The functions are those of Finzi, Welling and Wilson's code (``emlp/datasets.py``). One JSON file a run; a run that is
there is not made again. Where nothing is claimed the plain model's error stands.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from metasym.report.drawing import figure_files
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from studies.discover import looked_at
from studies.known_functions import Truth, o5
from studies.known_polynomials import inertia, lorentz
from studies.side_by_side import add_where, elsewhere

SIZES = (30, 100, 300, 1000, 3000)
PROBLEMS: dict[str, Callable[[int], Callable[[int], Truth]]] = {
    "o5": o5,
    "inertia": lambda count: inertia(count=count),
    "lorentz": lambda count: lorentz(count=count),
}
PUBLISHED = {
    "o5": {
        "EMLP-O(5)": (0.152, 0.041, 0.034, 0.017, 0.031, 0.027),
        "MLP": (28, 2.8, 0.25, 0.089, 0.062, 0.062),
    },
    "inertia": {
        "EMLP-SO(3)": (6.9, 1.16, 0.316, 0.060, 0.029, 0.015),
        "MLP": (13.4, 7.9, 4.9, 3.24, 0.84, 0.112),
    },
    "lorentz": {
        "EMLP-O(1,3)": (0.54, 0.0089, 0.0019, 0.00033, 0.00027, 0.00016),
        "MLP": (0.73, 0.73, 0.70, 0.36, 0.050, 0.012),
    },
}
"""Test MSE at N = 30, 100, 300, 1,000, 3,000 and 30,000: Finzi et al., ICML 2021, the figure of data efficiency."""
LEAST = 1e-12
"""Errors below this are drawn here: what is left of an exact polynomial is rounding."""


def run(problem: str, size: int, seed: int, folder: Path) -> dict[str, Any]:
    """One run, or what it found when it was made."""
    path = folder / f"{problem}-{size}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    truth = PROBLEMS[problem](size)(seed)
    result = {
        "problem": problem,
        "examples": size,
        "seed": seed,
        **looked_at(truth, seed),
        "test_variance": float(truth.y_test.var()),
        "command": f"python -m studies.learning_curves --problems {problem} --sizes {size} --seeds {seed}",
        "commit": commit(),
    }
    write_json(path, result)
    return result


def stored(folder: Path) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """All runs by problem and number of examples."""
    found: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        one = json.loads(path.read_text())
        found.setdefault((one["problem"], one["examples"]), []).append(one)
    return found


def table(folder: Path) -> str:
    """Medians of the test MSE with the range over seeds, and verdicts, beside the published numbers."""
    lines = [
        "| problem | N | seeds | right, part, refused, wrong | our test MSE (least to most) "
        "| EMLP, given the group | MLP | seconds |",
        "|---" * 8 + "|",
    ]
    known = stored(folder)
    for problem, rivals in PUBLISHED.items():
        for place, size in enumerate(SIZES):
            runs = known.get((problem, size), [])
            if not runs:
                continue
            errors = [one["test_mse"] for one in runs]
            counts = Counter(one["verdict"] for one in runs)
            told, mlp = rivals.values()
            cells = [
                problem,
                f"{size:,}",
                f"{len(runs)}",
                ", ".join(str(counts[v]) for v in ("right", "part", "refused", "wrong")),
                f"{np.median(errors):.2g} ({min(errors):.2g} to {max(errors):.2g})",
                f"{told[place]:g}",
                f"{mlp[place]:g}",
                f"{np.median([one['seconds'] for one in runs]):.0f}",
            ]
            lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def figure(folder: Path, to: Path) -> list[Path]:
    """A panel a problem: published curves, our runs, filled where a symmetry was claimed."""
    known = stored(folder)
    with figure_files(to, 9.5, 3.2) as (drawing, files):
        for axes, (problem, rivals) in zip(
            drawing.subplots(1, len(PUBLISHED)), PUBLISHED.items(), strict=True
        ):
            for (name, errors), style in zip(rivals.items(), ("s--", "^:"), strict=True):
                axes.plot(
                    (*SIZES, 30_000), errors, style, color="0.5", ms=4, lw=1, label=f"{name}, published"
                )
            sizes = [size for size in SIZES if (problem, size) in known]
            shown = {size: [max(LEAST, one["test_mse"]) for one in known[problem, size]] for size in sizes}
            axes.plot(
                sizes, [np.median(shown[size]) for size in sizes], color="tab:blue", label="ours, median"
            )
            for size in sizes:
                for one, error in zip(known[problem, size], shown[size], strict=True):
                    filled = "tab:blue" if one["claimed"] else "white"
                    axes.plot(size, error, "o", ms=4, mec="tab:blue", mfc=filled)
            axes.set(xscale="log", yscale="log", title=problem, xlabel="examples")
            axes.legend(fontsize=7)
        drawing.axes[0].set_ylabel("test MSE")
    return files


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", nargs="*", default=[*PROBLEMS], choices=[*PROBLEMS])
    parser.add_argument("--sizes", nargs="*", type=int, default=[*SIZES], metavar="N")
    parser.add_argument("--seeds", default="3000-3004", help="such as 3000-3004")
    parser.add_argument("--out", type=Path, default=Path("results/learning_curves"))
    parser.add_argument("--table", action="store_true", help="print what is there")
    parser.add_argument("--figure", type=Path, help="draw what is there, as PNG and SVG")
    add_where(parser)
    options = parser.parse_args()
    if options.table:
        print(table(options.out))
    elif options.figure is not None:
        print(*figure(options.out, options.figure))
    else:
        first, _, last = options.seeds.partition("-")
        seeds = range(int(first), int(last or first) + 1)
        cells = list(itertools.product(options.sizes, options.problems, seeds))
        flags = [
            ("--sizes", size, "--problems", problem, "--seeds", seed, "--out", options.out)
            for size, problem, seed in cells
        ]
        if elsewhere(options, "studies.learning_curves", flags):
            return
        for size, problem, seed in cells:
            one = run(problem, size, seed, options.out)
            words = (one["verdict"], one["claimed"], f"MSE {one['test_mse']:.3g}", f"{one['seconds']:.0f} s")
            print(problem, size, seed, *words, flush=True)


if __name__ == "__main__":
    main()
