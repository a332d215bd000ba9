"""Shared parameters of one linear model, in the settings of Yeh et al. (AISTATS 2022), beside an oracle.

    python -m studies.sharing --seeds 2000-2199 --out results/discover/sharing

Each problem has one JSON file; seeds that it holds are not run again. ``--table`` prints what they say.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

import metasym as ms
from metasym.storage.json_files import write_json

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Linear:
    """Examples of ``y = x w + noise``, and the weights."""

    x: Array
    y: Array
    weights: Array
    opposite: bool
    """Whether weights that differ in sign alone count as shared."""


def means(count: int, groups: int, samples: int = 100) -> Callable[[int], Linear]:
    """``samples`` of ``count`` numbers with unit noise, whose means are 3, 6, ... in turn; 30 + 70 by Yeh et al."""

    def make(seed: int) -> Linear:
        draw = np.random.default_rng([seed, 71])
        weights = 3.0 * (np.arange(count) % groups + 1)
        y = weights + draw.normal(size=(samples, count))
        return Linear(np.tile(np.eye(count), (samples, 1)), y.reshape(-1), weights, opposite=False)

    return make


def sums(pattern: tuple[float, ...], count: int = 10, samples: int = 250) -> Callable[[int], Linear]:
    """Sums of ten digits from 1 to 9 with weights in turn, up to a half off; 100 + 150 samples by Yeh et al."""

    def make(seed: int) -> Linear:
        draw = np.random.default_rng([seed, 72])
        weights = np.array([pattern[i % len(pattern)] for i in range(count)])
        x = draw.integers(1, 10, size=(samples, count)).astype(float)
        return Linear(x, x @ weights + draw.uniform(-0.5, 0.5, size=samples), weights, opposite=True)

    return make


PROBLEMS = {
    "means-6-1": means(6, 1),
    "means-10-1": means(10, 1),
    "means-30-1": means(30, 1),
    "means-10-3": means(10, 3),
    "sum": sums((1.0,)),
    "sum-alternating": sums((1.0, -1.0)),
    "sum-two-weights": sums((-2.0, 1.0)),
}
PUBLISHED = {
    "means-6-1": (0.023, 0.35, 0.014),
    "means-10-1": (0.022, 0.20, 0.013),
    "means-30-1": (0.154, 17.4, 0.010),
    "means-10-3": (0.040, 0.10, 0.031),
}
"""Squared error and partition distance of Yeh et al., and the squared error of their oracle."""


def partition_distance(one: Labels, two: Labels) -> int:
    """How many members have to change their group until both partitions are the same."""
    first, second = np.unique(one, return_inverse=True)[1], np.unique(two, return_inverse=True)[1]
    common = np.zeros((first.max() + 1, second.max() + 1), dtype=np.int64)
    np.add.at(common, (first, second), 1)
    rows, columns = linear_sum_assignment(-common)
    return int(len(one) - common[rows, columns].sum())


def once(problem: Linear) -> dict[str, float]:
    """Squared error and distance of what is found, and the squared errors of the oracle and of no sharing."""
    found = ms.shared_parameters(problem.x, problem.y, opposite=problem.opposite)
    signs = np.sign(problem.weights) if problem.opposite else np.ones_like(problem.weights)
    sizes, true = np.unique(problem.weights * signs, return_inverse=True)
    share = signs[:, None] * np.eye(len(sizes))[true]
    told = share @ np.linalg.lstsq(problem.x @ share, problem.y, rcond=None)[0]
    free = np.linalg.lstsq(problem.x, problem.y, rcond=None)[0]
    error, oracle, alone = (float(((w - problem.weights) ** 2).sum()) for w in (found.weights, told, free))
    same_signs = bool((found.signs == signs).all())
    distance = partition_distance(found.labels, true)
    return {
        "error": error,
        "oracle": oracle,
        "unshared": alone,
        "distance": float(distance),
        "exact": float(distance == 0 and same_signs and bool((found.labels > 0).all())),
    }


def run(name: str, seeds: range, folder: Path) -> dict[str, Any]:
    """All seeds of a problem, those that the file holds not again."""
    path = folder / f"{name}.json"
    result: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"problem": name, "runs": {}}
    for seed in seeds:
        if str(seed) not in result["runs"]:
            result["runs"][str(seed)] = once(PROBLEMS[name](seed))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    result["commit"] = commit.stdout.strip()
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, result)
    return result


def table(folder: Path) -> str:
    """Means over the runs of each problem."""
    lines = [
        "| problem | runs | error | oracle | unshared | ratio | distance | exact | Yeh et al. | their oracle |",
        "|---" * 10 + "|",
    ]
    for name in PROBLEMS:
        path = folder / f"{name}.json"
        if not path.exists():
            continue
        runs = list(json.loads(path.read_text())["runs"].values())
        mean = {key: float(np.mean([one[key] for one in runs])) for key in runs[0]}
        theirs = PUBLISHED.get(name)
        cells = [
            name,
            f"{len(runs)}",
            *(f"{mean[key]:.3g}" for key in ("error", "oracle", "unshared")),
            f"{mean['error'] / mean['oracle']:.3f}",
            f"{mean['distance']:.3g}",
            f"{sum(one['exact'] for one in runs):.0f}",
            "" if theirs is None else f"{theirs[0]}, distance {theirs[1]}",
            "" if theirs is None else f"{theirs[2]}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problems", nargs="*", default=[*PROBLEMS], choices=[*PROBLEMS])
    parser.add_argument("--seeds", default="2000-2049", help="such as 2000-2049")
    parser.add_argument("--out", type=Path, default=Path("results/discover/sharing"))
    parser.add_argument("--table", action="store_true", help="count what is there")
    options = parser.parse_args()
    if not options.table:
        first, _, last = options.seeds.partition("-")
        for name in options.problems:
            run(name, range(int(first), int(last or first) + 1), options.out)
    print(table(options.out))


if __name__ == "__main__":
    main()
