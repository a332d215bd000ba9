"""How many outer steps an hour the cells of Table 3 make that have no result: what the table shows in their place.

    python -m studies.step_rates                       # every cell of recipe paper-day without a result
    python -m studies.step_rates --only '*/maml-big' --seconds 120

A cell's learner takes steps on its real training tasks until ``--seconds`` of processor time have passed; the first
two steps do not count. Validations and the test come on top. Results: ``results/table3/rates``, one file for each
recipe; ``metasym reproduce table3 --show`` reads them. A cell that has a result by now is dropped from the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch

from metasym.paper.build import build_learner, build_problem
from metasym.paper.config import Experiment
from metasym.paper.optimizers import outer_optimizer
from metasym.runs.machine import commit
from metasym.runs.reproducing.whole_tables import kept, plan
from metasym.storage.file_names import RATES
from metasym.storage.json_files import read_json, write_json
from metasym.storage.system import cpu_seconds, peak_memory
from metasym.training.loop import train

RESULTS = Path("results")
WARM_UP = 2


def measured(experiment: Experiment, seconds: float) -> dict[str, Any]:
    """Outer steps an hour of processor time, one thread, and how many steps that was measured on."""
    problem, recipe = build_problem(experiment), experiment.recipe
    learner = build_learner(experiment, problem, len(problem.train))
    records = train(
        learner,
        problem.train,
        outer_steps=recipe.outer_steps,
        tasks_per_step=recipe.tasks_per_step,
        outer_lr=recipe.outer_lr,
        optimizer=outer_optimizer(recipe),
        seed=recipe.seed,
        progress="silent",
    )
    for _ in range(WARM_UP):
        next(records)
    begun, steps = cpu_seconds(), 0
    while cpu_seconds() - begun < seconds:
        next(records)
        steps += 1
    records.close()
    return {
        "steps_an_hour": round(3600 * steps / (cpu_seconds() - begun), 1),
        "measured_steps": steps,
        "outer_steps": recipe.outer_steps,
        "tasks_per_step": recipe.tasks_per_step,
        "peak_memory_mb": round(peak_memory()),
        "commit": commit(),
    }


def main() -> None:
    """Measure the cells that have no result, and drop those that have."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--recipe", default="paper-day")
    parser.add_argument("--only", metavar="PATTERN", help="only experiments whose names match")
    parser.add_argument("--seconds", type=float, default=45, help="of processor time for each cell")
    parser.add_argument("--data", help="folder of the images")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RESULTS / "table3" / RATES / f"{options.recipe}.json"
    known = read_json(path, "rates")["cells"] if path.exists() else {}
    for experiment in plan("table3", seeds=(0,), recipes=[options.recipe], data=options.data):
        if kept(experiment.replace(data=None), RESULTS) is not None:
            known.pop(experiment.name, None)
    for experiment in plan(
        "table3", seeds=(0,), recipes=[options.recipe], only=options.only, data=options.data
    ):
        if experiment.name in known or kept(experiment.replace(data=None), RESULTS) is not None:
            continue
        known[experiment.name] = measured(experiment, options.seconds)
        print(experiment.name, known[experiment.name], flush=True)
        write_json(
            path, {"command": "python -m studies.step_rates", "recipe": options.recipe, "cells": known}
        )


if __name__ == "__main__":
    main()
