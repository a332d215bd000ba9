"""What a learned symmetry is good for afterwards: another family of tasks, and its projection.

    python studies/transfer.py

For each seed the shifts of 12 points are learned (``metasym learn``) and projected (``metasym inspect --project``).
Then the learned U, frozen, goes into a new layer that meets a new family with the same symmetry (circular
convolutions with three taps, on smooth inputs) and few training tasks. Beside it: MAML on a plain layer started
afresh on the same tasks. Both adapt exactly, with the penalty that is best on validation tasks, to one example of
each test task. One JSON file a seed under ``results/inspect/transfer``; those that are there are not made again.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import metasym as ms
from metasym.cli import main
from metasym.models import fully_connected
from metasym.runs.learning.chosen_learners import PENALTIES
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks import ArrayTasks, Subset, seeded
from metasym.tasks.planted import planted

POINTS, TAPS, EXAMPLES = 12, 3, 20


def convolutions(tasks: int, seed: int) -> ArrayTasks:
    """Circular convolutions of three taps, on smooth inputs; one support example."""
    draw = np.random.default_rng(seed)
    taps, noise = draw.standard_normal((tasks, TAPS)), draw.standard_normal((tasks, EXAMPLES, POINTS))
    x = noise + np.roll(noise, 1, axis=2) + 0.5 * np.roll(noise, 2, axis=2)
    y = sum(taps[:, None, i : i + 1] * np.roll(x, i, axis=2) for i in range(TAPS))
    return ArrayTasks(torch.tensor(x).float(), torch.tensor(y).float(), support=1)


def trained(model: nn.Module, train: Subset, validation: Subset, steps: int, seed: int) -> ms.MAML:
    """MAML (with a frozen U where the model has one) at its best penalty before and after training."""
    learner = ms.MAML(model, solver="ridge", penalty=0.1)

    def tune() -> None:
        scores = {}
        for penalty in PENALTIES:
            learner.penalty = penalty
            found = ms.evaluate(learner, validation, seed=seed).mean
            scores[penalty] = found if math.isfinite(found) else math.inf
        learner.penalty = min(scores, key=lambda p: scores[p])

    tune()
    for _ in ms.train(
        learner,
        train,
        outer_steps=steps,
        tasks_per_step=16,
        outer_lr=5e-3,
        validation=validation,
        validate_every=10,
        seed=seed,
        progress="silent",
    ):
        pass
    tune()
    return learner


def command(*arguments: str) -> str:
    """A command of metasym, run here; what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        status = main(list(arguments))
    if status != 0:
        raise SystemExit(status)
    return printed.getvalue()


def study(seed: int, work: Path, train_tasks: int, steps: int) -> dict[str, Any]:
    """Learn, project, transfer."""
    folder = work / f"transfer-s{seed}"
    folder.mkdir(parents=True, exist_ok=True)
    data = planted("shifts12", seed=1000 + seed)
    np.savez(folder / "tasks.npz", x=data.x.numpy(), y=data.y.numpy())
    flags = ["--seed", str(seed), "--no-baseline", "--progress", "silent", "--resume"]
    command("learn", str(folder / "tasks.npz"), "--out", str(folder / "run"), *flags)
    shown = command("inspect", str(folder / "run"), "--project", "--group", "shifts", "--json")
    projected = json.loads(shown)
    tasks = convolutions(train_tasks + 50 + 200, 5000 + seed)
    parts = np.split(np.arange(len(tasks)), [train_tasks, train_tasks + 50])
    train, validation, test = (tasks.subset(part.tolist()) for part in parts)
    plain = trained(fully_connected(POINTS, POINTS, seeded(seed)), train, validation, steps, seed)
    fresh = fully_connected(POINTS, POINTS, seeded(seed))
    moved = ms.load_symmetry(folder / "run" / "symmetry.safetensors", fresh, dominant_only=True)
    frozen = trained(moved, train, validation, steps, seed)
    scores = {
        name: ms.evaluate(each, test, seed=seed) for name, each in (("maml", plain), ("frozen", frozen))
    }
    square = float(tasks.y.square().mean())
    return {
        "seed": seed,
        "train_tasks": train_tasks,
        "outer_steps": steps,
        "target_mean_square": square,
        **{f"{name}_mean": score.mean for name, score in scores.items()},
        **{f"{name}_ci95": score.ci95 for name, score in scores.items()},
        "learned_group": projected["layers"][0]["group"]["name"],
        "projection_before": projected["projection"]["before"],
        "projection_after": projected["projection"]["after"],
        "projection_change": projected["projection"]["change"],
        "projected_equivariance_error": max(projected["layers"][0]["errors"]["errors"]),
        "command": f"python studies/transfer.py --seeds {seed}",
        "commit": commit(),
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, default=Path("runs/inspect"), help="folder for the runs")
    parser.add_argument("--results", type=Path, default=Path("results/inspect/transfer"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--train-tasks", type=int, default=40, help="training tasks of the new family")
    parser.add_argument("--outer-steps", type=int, default=100)
    options = parser.parse_args()
    for number in options.seeds:
        path = options.results / f"shifts12-s{number}.json"
        if not path.exists():
            write_json(path, study(number, options.work, options.train_tasks, options.outer_steps))
        row = json.loads(path.read_text())
        print(
            f"seed {number}: from 1 example MAML {row['maml_mean']:.4g} ± {row['maml_ci95']:.2g}, "
            f"frozen symmetry {row['frozen_mean']:.4g} ± {row['frozen_ci95']:.2g}; projection "
            f"{row['projection_change']:+.3%}, equivariance error {row['projected_equivariance_error']:.1e}",
            flush=True,
        )
