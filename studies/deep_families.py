"""What ``learn`` says about deep networks: families conv-tanh-conv on a ring of 16 points, with D_16 and without.

    python -m studies.deep_families --seeds 5 --out results/deep_families

Networks: ``mlp`` (16-32-16) and ``cnn`` (two convolutions around the ring); MSR beside MAML (``ms.learn``) and ANIL
(``ms.train`` of the same network). Two subjects: what the tasks have, right where D_16 is claimed of the families
that have it and nothing of those that have not; and what the networks have learned, the defect of D_16 over the test
tasks, right where its bound is above what a plain loop counts on other tasks, less 5 %, and at most twice that.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import metasym as ms
from metasym.runs.adapted_functions import LearnerOnTasks, adapted_functions
from metasym.runs.files.learn_options import Options
from metasym.runs.learning.automatic_choices import split
from metasym.runs.learning.networks import plain_network
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks.stored import StoredTasks
from studies.side_by_side import add_where, elsewhere

POINTS, TASKS, EXAMPLES, SUPPORT = 16, 160, 40, 20


def ring(filters: np.ndarray) -> np.ndarray:
    """The matrix of a convolution around the ring with a filter that is its own mirror image."""
    W = np.zeros((POINTS, POINTS))
    for i in range(POINTS):
        for k in range(1 - len(filters), len(filters)):
            W[i, (i + k) % POINTS] += filters[abs(k)]
    return W


def family(symmetric: bool, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """``x``, ``y`` of tasks ``sum_h B_h tanh(A_h x)``, each with maps of its own."""
    draw = np.random.default_rng([seed, int(symmetric)])
    x = draw.normal(size=(TASKS, EXAMPLES, POINTS))
    y = np.zeros_like(x)
    for t in range(TASKS):
        for _ in range(4):
            maps = [
                ring(draw.normal(size=3) * [0.6, 0.5, 0.3])
                if symmetric
                else draw.normal(size=(POINTS, POINTS)) / POINTS**0.5
                for _ in range(2)
            ]
            y[t] += np.tanh(x[t] @ maps[0].T) @ maps[1].T / 2
    return x, y


class Cnn(nn.Module):
    """Two convolutions around the ring: turns are built in, mirror images are not."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(1, 8, 5, padding=2, padding_mode="circular", bias=False)
        self.last = nn.Conv1d(8, 1, 5, padding=2, padding_mode="circular", bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, 16]``."""
        found: Tensor = self.last(torch.tanh(self.first(x.unsqueeze(-2))))
        return found.squeeze(-2)


def cnn() -> nn.Module:
    """For ``--model studies.deep_families:cnn``."""
    torch.manual_seed(0)
    return Cnn()


def anil(run: ms.Run, folder: Path, steps: int) -> ms.Learner:
    """ANIL on the plain network of a run, by the same number of steps."""
    choices = run.choices
    parts = Options(
        seed=choices.seed, validation=choices.validation_tasks / TASKS, test=choices.test_tasks / TASKS
    )
    train, validation, _ = (
        StoredTasks(run.tasks, ids, support=SUPPORT, layout=choices.layout) for ids in split(run.tasks, parts)
    )
    network = plain_network(choices, cnn if ":" in choices.model else None)
    learner = ms.ANIL(network, inner_lr=choices.inner_lr, inner_steps=choices.inner_steps)
    ms.train(
        learner,
        train,
        outer_steps=steps,
        tasks_per_step=choices.tasks_per_step,
        outer_lr=choices.outer_lr,
        validation=validation,
        validate_every=25,
        seed=choices.seed,
        out=folder,
        on_nonfinite="skip",
        progress="silent",
    ).run()
    return learner


def one(symmetric: bool, network: str, seed: int, steps: int) -> dict[str, Any]:
    """One run with all three methods."""
    x, y = family(symmetric, seed)
    model = {"model": "mlp", "hidden": 32} if network == "mlp" else {"model": "studies.deep_families:cnn"}
    began = time.perf_counter()
    run = ms.learn(x, y, support=SUPPORT, seed=seed, outer_steps=steps, **model)
    seconds = time.perf_counter() - began
    claims = run.verdict.claims
    found: dict[str, Any] = {
        "command": f"python -m studies.deep_families --first {seed} --seeds 1 --steps {steps}",
        "commit": commit(),
        "family": "D_16" if symmetric else "none",
        "network": network,
        "seed": seed,
        "seconds": seconds,
        "tasks": [claim.name for claim in claims],
        "tasks_upper": claims[0].defect_upper if claims else None,
        "why_not": [] if claims else run.result["tasks_share"]["refused"],
        "tasks_right": [c.name for c in claims] == (["D_16"] if symmetric else []),
        "mse": run.scores.mean,
        "maml_mse": run.baseline.mean,
        "linear_mse": run.result["linear"][str(SUPPORT)]["mean"],
        "told": "function" in run.result,
        "defects": {},
    }
    fresh = [torch.tensor(v) for v in family(symmetric, 10_000 + seed)]
    learners = {
        "msr": run,
        "maml": ms.open_run(run.folder / "maml", **({"model": cnn} if network == "cnn" else {})),
    }
    with tempfile.TemporaryDirectory() as folder:
        plain = anil(run, Path(folder), steps)
        networks = {name: opened.learner for name, opened in learners.items()} | {"anil": plain}
        for name, learner in networks.items():
            functions = adapted_functions(LearnerOnTasks(learner, run.test_tasks(), seed), "dihedral")
            found["defects"][name] = {
                "defect": functions.defect,
                "upper": functions.defect_upper,
                "worst": functions.worst.name,
                "counted": counted(learner, fresh, run.choices.layout),
            }
    found["network_right"] = all(
        d["counted"] <= 1.05 * d["upper"] and d["upper"] <= 2 * d["counted"] + 1e-3
        for d in found["defects"].values()
    )
    return found


def moved(values: Tensor, shift: int, mirror: bool) -> Tensor:
    """The ring turned, and before that seen in a mirror."""
    return (values.flip(-1) if mirror else values).roll(shift, -1)


def counted(learner: ms.Learner, fresh: list[Tensor], layout: Any) -> float:
    """The defect of the worst of D_16's elements on other tasks, by a plain loop in the test's own words."""
    above, below = np.zeros(2 * POINTS), 0.0
    for x, y in zip(*fresh, strict=True):
        inputs, targets = (
            torch.tensor(scale(v.numpy())).float() for v, scale in ((x, layout.inputs), (y, layout.targets))
        )
        network = learner.adapt(ms.Batch(inputs[:SUPPORT], targets[:SUPPORT]))
        with torch.no_grad():
            query = inputs[SUPPORT:]
            answers = network(query).double()
            below += float((answers - answers.mean(0)).square().sum())
            for k in range(POINTS):
                for mirror in (0, 1):
                    move = partial(moved, shift=k, mirror=bool(mirror))
                    above[2 * k + mirror] += float(
                        (network(move(query)).double() - move(answers)).square().sum()
                    )
    return math.sqrt(above.max() / below)


def main() -> None:
    """All runs, a JSON file each; those that are there are not run again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=100)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--out", type=Path, default=Path("results/deep_families"))
    parser.add_argument(
        "--most", type=int, help="runs that this call makes at most (default: all that are missing)"
    )
    add_where(parser)
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    flags = ("--steps", options.steps, "--out", options.out)
    if elsewhere(options, "studies.deep_families", [("--first", s, "--seeds", 1, *flags) for s in seeds]):
        return
    left = math.inf if options.most is None else options.most
    options.out.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for symmetric in (True, False):
            for network in ("mlp", "cnn"):
                path = options.out / f"{'d16' if symmetric else 'none'}-{network}-{seed}.json"
                if not path.exists():
                    if left <= 0:
                        return
                    left -= 1
                    write_json(path, one(symmetric, network, seed, options.steps))
                found = json.loads(path.read_text())
                defects = {name: round(d["defect"], 3) for name, d in found["defects"].items()}
                print(
                    path.stem,
                    found["tasks"],
                    found["tasks_right"],
                    found["network_right"],
                    defects,
                    flush=True,
                )


if __name__ == "__main__":
    main()
