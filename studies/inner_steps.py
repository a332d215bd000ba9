"""How many inner steps a run of Table 3 should take at test: its accuracy with one, two and three.

    python -m studies.inner_steps runs/paper-day/aug-omniglot/5way-1shot/{maml,msr}/seed0
    python -m studies.inner_steps runs/paper-cpu/aug-miniimagenet/5way-5shot/{maml,msr}/seed0 --steps 1
    python -m studies.inner_steps --table

The test tasks are those of the run's own test. What three steps give is what the run has in its result: where it is
measured again and differs, the study stops; where --steps leaves it out, it is taken from there. Results:
``results/inner_steps``, one file a run, with the accuracy on every task.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metasym import evaluate
from metasym.paper.catalogue import names
from metasym.report.accuracies import ahead
from metasym.report.text_table import Table
from metasym.runs.files.result_files import read_result
from metasym.runs.machine import commit
from metasym.runs.reproducing.experiment_run import load_run
from metasym.runs.reproducing.scoring import test_seed
from metasym.storage.file_names import RESULT
from metasym.storage.json_files import read_json, write_json
from metasym.training.task_scores import summarise
from metasym.types import MetasymError

OUT = Path("results/inner_steps")
STEPS = (1, 2, 3)


def measured(run: Path, numbers: Sequence[int] = STEPS, *, chunk: int = 8) -> dict[str, Any]:
    """The accuracy of a finished run on its test tasks, by the number of inner steps."""
    experiment, problem, learner = load_run(run)
    scores = {
        steps: evaluate(
            learner,
            problem.test,
            inner_steps=steps,
            metric="accuracy",
            seed=test_seed(experiment),
            tasks_per_chunk=chunk,
        )
        for steps in numbers
    }
    known, usual = read_result(run / RESULT), experiment.recipe.test_inner_steps
    if "inner_steps_chosen" not in known:
        found = scores.setdefault(usual, summarise(np.asarray(known["per_task"]), "accuracy"))
        if abs(found.mean - known["mean"]) > 5e-4:
            raise MetasymError(
                f"{run}: expected an accuracy of {known['mean']:.4f}, found {found.mean:.4f}",
                about=str(run),
                found=found.mean,
            )
    return {
        "experiment": experiment.name,
        "recipe": experiment.recipe_name,
        "seed": experiment.recipe.seed,
        "command": "python -m studies.inner_steps RUN",
        "commit": commit(),
        "scores": {
            str(steps): {
                "mean": score.mean,
                "ci95": score.ci95,
                "per_task": [float(f"{value:.4g}") for value in score.per_task],
            }
            for steps, score in sorted(scores.items())
        },
    }


def table(results: list[dict[str, Any]]) -> Table:
    """Accuracies by the number of steps, and MSR's lead with one step, task by task on the same tasks."""
    order = {name: number for number, name in enumerate(names())}
    known = {(found["experiment"], found["recipe"], found["seed"]): found for found in results}
    rows = []
    for (name, recipe, seed), found in sorted(
        known.items(), key=lambda item: (item[0][1], order[item[0][0]], item[0][2])
    ):
        problem, _, method = name.rpartition("/")
        msr = known.get((f"{problem}/msr", recipe, seed))
        lead = "-"
        if msr is not None and msr is not found:
            lead = ahead(*(one["scores"]["1"]["per_task"] for one in (msr, found)))
        shown = [found["scores"].get(str(steps)) for steps in STEPS]
        rows.append(
            (
                f"{problem}, {recipe}, seed {seed}",
                method,
                *(f"{100 * s['mean']:.1f} ± {100 * s['ci95']:.1f}" if s else "-" for s in shown),
                lead,
            )
        )
    header = ("problem", "method", "one inner step", "two", "three", "msr - it, one step")
    return Table("Accuracy in % by the inner steps at test", header, tuple(rows))


def main() -> None:
    """Measure the given runs, or show what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="folders of finished runs of Table 3"
    )
    parser.add_argument("--steps", type=int, nargs="+", choices=STEPS, default=STEPS, help="default: 1 2 3")
    parser.add_argument("--table", action="store_true", help="show what was measured, as Markdown")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for run in options.runs:
        found = measured(run, options.steps)
        name = f"{found['recipe']}-{found['experiment'].replace('/', '-')}-seed{found['seed']}.json"
        write_json(OUT / name, found)
        print(OUT / name, *(f"{100 * score['mean']:.2f}" for score in found["scores"].values()), flush=True)
    if options.table:
        print(table([read_json(path, "inner steps") for path in sorted(OUT.glob("*.json"))]).markdown())


if __name__ == "__main__":
    main()
