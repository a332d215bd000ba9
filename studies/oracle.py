"""How near the learned prior comes to the limit: the posterior mean under the true prior.

    python -m studies.oracle run        learn from 25 to 2,000 tasks, five seeds; one JSON file
    python -m studies.oracle table      as Markdown
    python -m studies.oracle figure     docs/figures/oracle.svg

Nobody who sees a new task's examples can predict better than the posterior mean under the true prior. The learned
prior gets the same examples of the same 1,000 new tasks. Errors are those of fresh outputs of these tasks,
relative to the outputs' mean square: with noise (what a user measures), and of the map alone (what is left to learn).
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metasym.evidence import Prior, TaskStatistics, fit_prior
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from studies.families import family_maps

NAMES = ("shifts12", "dihedral10", "reflection10", "blocks9", "grid10", "signed8", "none8")
TASKS = (25, 50, 100, 200, 500, 1000, 2000)
EXAMPLES = 20
SUPPORT = 5
"""Examples of a new task: fewer than its inputs, so that only the prior makes up for the rest."""
NOISE = 0.1
TEST = 1000


def compare(name: str, seed: int, tasks: int) -> dict[str, Any]:
    """Test errors of the learned and of the true prior."""
    generator = np.random.Generator(np.random.PCG64([seed, 17]))
    everything, U = family_maps(name, generator, tasks + TEST)
    n = everything.shape[1]
    maps = torch.from_numpy(everything)

    def examples(of: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.from_numpy(generator.standard_normal((len(of), count, n)))
        y = x @ of.mT
        return x, y + NOISE * torch.from_numpy(generator.standard_normal(tuple(y.shape)))

    learned = fit_prior(TaskStatistics.of(*examples(maps[:tasks], EXAMPLES))).prior
    known = Prior(torch.zeros(n, n, dtype=torch.float64), torch.from_numpy(U), NOISE**2)
    support = TaskStatistics.of(*examples(maps[tasks:], SUPPORT))
    # Inputs are N(0, I): the mean squared error of an output is |W - W'|^2 / m, the mean square |W|^2 / m.
    size = float(maps[tasks:].square().sum((1, 2)).mean()) / n
    map_errors = {
        label: float((prior.weights(support) - maps[tasks:]).square().sum((1, 2)).mean()) / n / size
        for label, prior in (("learned", learned), ("oracle", known))
    }
    floor = NOISE**2 / size
    return {
        "family": name,
        "seed": seed,
        "tasks": tasks,
        "directions": learned.directions,
        "true_directions": U.shape[1],
        "noise": math.sqrt(learned.noise),
        **{f"map_error_{label}": value for label, value in map_errors.items()},
        **{f"test_error_{label}": value + floor for label, value in map_errors.items()},
        "ratio": (map_errors["learned"] + floor) / (map_errors["oracle"] + floor),
        "map_ratio": map_errors["learned"] / map_errors["oracle"],
    }


def run(out: Path, names: list[str], seeds: list[int], counts: list[int]) -> None:
    """Compares where it has not been done yet."""
    stored = json.loads(out.read_text())["records"] if out.exists() else []
    for tasks in counts:
        for name in names:
            for seed in seeds:
                key = (name, seed, tasks)
                if key in {(r["family"], r["seed"], r["tasks"]) for r in stored}:
                    continue
                found = compare(*key)
                stored.append(found)
                write_json(
                    out,
                    {
                        "command": "python -m studies.oracle run",
                        "commit": commit(),
                        "examples": EXAMPLES,
                        "support": SUPPORT,
                        "noise": NOISE,
                        "test_tasks": TEST,
                        "records": stored,
                    },
                )
                print(
                    f"{name} s{seed} {tasks} tasks: {found['directions']} of {found['true_directions']} directions, "
                    f"test error {found['test_error_learned']:.4g} / {found['test_error_oracle']:.4g} = "
                    f"{found['ratio']:.3f} (maps {found['map_ratio']:.3f})",
                    flush=True,
                )


def _mean_ratio(records: list[dict[str, Any]], name: str, tasks: int, key: str = "ratio") -> float:
    own = [r[key] for r in records if r["family"] == name and r["tasks"] == tasks]
    return float(np.mean(own)) if own else math.nan


def table(out: Path) -> str:
    """Mean ratio of test errors, a row for each family; in brackets that of the map's error alone."""
    records = json.loads(out.read_text())["records"]
    counts = sorted({r["tasks"] for r in records})
    lines = [f"| | {' | '.join(f'{t} tasks' for t in counts)} |", "|---|" + "---|" * len(counts)]
    for name in NAMES:
        cells = [
            f"{_mean_ratio(records, name, t):.3f} ({_mean_ratio(records, name, t, 'map_ratio'):.2f})"
            for t in counts
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def figure(out: Path, to: Path) -> None:
    """The curve over the number of tasks."""
    from matplotlib.figure import Figure

    records = json.loads(out.read_text())["records"]
    counts = sorted({r["tasks"] for r in records})
    drawing = Figure(figsize=(6, 4), layout="constrained")
    axes = drawing.add_subplot()
    for name in NAMES:
        axes.plot(counts, [_mean_ratio(records, name, t) for t in counts], marker="o", ms=3, label=name)
    axes.axhline(1.05, color="grey", lw=0.8, ls="--")
    axes.set(xscale="log", xlabel="tasks learned from", ylabel="test error / oracle's", ylim=(0.98, 1.6))
    axes.legend(fontsize=8)
    drawing.savefig(to, metadata={"Date": None})


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["run", "table", "figure"])
    parser.add_argument("--out", type=Path, default=Path("results/evidence/oracle.json"))
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/oracle.svg"))
    parser.add_argument("--only", nargs="+", default=list(NAMES))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(1000, 1005)))
    parser.add_argument("--tasks", type=int, nargs="+", default=list(TASKS))
    return parser.parse_args()


if __name__ == "__main__":
    chosen = _parse()
    if chosen.what == "run":
        run(chosen.out, chosen.only, chosen.seeds, chosen.tasks)
    elif chosen.what == "table":
        print(table(chosen.out), end="")
    else:
        figure(chosen.out, chosen.figure)
