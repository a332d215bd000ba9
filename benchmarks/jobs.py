"""The time of a whole job: all cells of Table 1, one seed, two cores; before from files, after from short runs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.runner import ROOT, Say
from metasym.experiments import find, names
from metasym.experiments.build import build_learner, build_problem
from metasym.experiments.files import read_json
from metasym.training import train

CORES = 2


def before(folder: Path = ROOT / "results" / "table1" / "paper") -> dict[str, float]:
    """Seconds of each cell's meta-training as its result file has them (seed 0, steps over steps a second)."""
    found: dict[str, float] = {}
    for path in sorted(folder.rglob("*.json")):
        result = read_json(path, "a result")
        rate = result.get("outer_steps_per_second")
        if result.get("seed") == 0 and rate:
            found[str(result["experiment"])] = result["outer_steps"] / rate
    return found


def after(cells: list[str], say: Say, seconds: float = 1.0) -> dict[str, float]:
    """Seconds of each cell's meta-training, extrapolated from a short run of its steps (sampling included)."""
    torch.set_num_threads(1)
    found: dict[str, float] = {}
    for cell in cells:
        experiment = find(cell)
        recipe = experiment.recipe
        problem = build_problem(experiment)
        learner = build_learner(experiment, problem, len(problem.train))
        records = train(
            learner,
            problem.train,
            outer_steps=10**6,
            tasks_per_step=recipe.tasks_per_step,
            outer_lr=recipe.outer_lr,
            progress="silent",
        )
        for _ in range(3):
            next(records)
        began, steps = time.process_time(), 0
        while time.process_time() - began < seconds:
            next(records)
            steps += 1
        found[cell] = (time.process_time() - began) / steps * recipe.outer_steps
        records.close()
        say(f"{cell}: {steps} steps timed, {found[cell]:.1f} s for {recipe.outer_steps}")
    return found


def table1_cells() -> list[str]:
    """The 36 cells of Table 1."""
    return [name for name in names("translation/*") if not name.endswith("oracle-fc")]


def table1_job(say: Say, seconds: float = 1.0) -> dict[str, Any]:
    """Both sums and what they mean for two cores."""
    cells = table1_cells()
    then, now = before(), after(cells, say, seconds)
    shared = [cell for cell in cells if cell in then]
    return {
        "cells": len(cells),
        "cells_with_a_record": len(shared),
        "before_seconds": {cell: then[cell] for cell in shared},
        "after_seconds": now,
        "before_minutes_on_two_cores": sum(then[c] for c in shared) / CORES / 60,
        "after_minutes_on_two_cores": sum(now[c] for c in shared) / CORES / 60,
        "note": "meta-training alone; before: recorded steps and steps a second; after: extrapolated from short runs",
    }
