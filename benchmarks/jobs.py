"""The time of a whole job: all cells of Table 1, one seed, two cores; before from files, after from short runs."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import torch

from benchmarks.runner import ROOT, Say
from metasym.errors import in_one_line
from metasym.paper import find, names
from metasym.paper.build import build_learner, build_problem
from metasym.training.loop import train
from metasym.types import MetasymError

CORES = 2
BEFORE = "1e8f9e2"
"""The commit before any of this: its committed results hold the times of their runs."""


def before(commit: str = BEFORE, folder: str = "results/table1/paper", root: Path = ROOT) -> dict[str, float]:
    """Seconds of each cell's meta-training and test as its result file of that commit has them (seed 0)."""
    found: dict[str, float] = {}
    listed = _git(root, "ls-tree", "--name-only", commit, f"{folder}/").splitlines()
    for path in listed:
        if path.endswith("-seed0.json"):
            result = json.loads(_git(root, "show", f"{commit}:{path}"))
            found[str(result["experiment"])] = float(result["seconds"])
    return found


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise MetasymError(
            f"expected the repository's history for the times of before, found {in_one_line(error)}",
            about="history",
            found=type(error).__name__,
        ) from None
    return done.stdout


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
        "note": "before: seconds recorded by the runs; after: extrapolated from short runs",
    }
