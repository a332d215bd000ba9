"""What sampling and augmentation cost beside the training step that waits for them.

    python -m benchmarks.image_sampling [--data DIR] [--steps N]

Each cell is trained for a few steps of 16 tasks; the CPU time inside the sampler (images read from the mapped file,
query images augmented) is measured apart, on one thread. The first step is not counted.
"""

from __future__ import annotations

import argparse
import time

import torch

import metasym as ms
from benchmarks.end_to_end import Timed
from metasym.paper.build import build_learner, build_problem
from metasym.paper.catalogue import find
from metasym.tasks import AugmentQuery

CELLS = {
    "aug-omniglot/5way-1shot": ("maml", "msr", "protonet"),
    "aug-omniglot/20way-1shot": ("msr",),
    "aug-miniimagenet/5way-1shot": ("maml", "protonet"),
}
TASKS = 16


def measure(name: str, queries: int, steps: int, data: str | None) -> tuple[float, float, float]:
    """Seconds a step: of sampling alone, of sampling and augmenting, of the whole step."""
    experiment = find(
        name, "paper", queries=queries, tasks_per_step=TASKS, **({"data": data} if data else {})
    )
    problem = build_problem(experiment)
    learner = build_learner(experiment, problem, len(problem.train))
    assert isinstance(problem.train, AugmentQuery)
    ids, seeds = torch.arange(TASKS), torch.arange(TASKS)
    plain = min(_once(problem.train.tasks, ids, seeds + i) for i in range(3))
    timed = Timed(problem.train)
    began = 0.0
    options = {"tasks_per_step": TASKS, "outer_lr": experiment.recipe.outer_lr, "progress": "silent"}
    for record in ms.train(learner, timed, outer_steps=steps + 1, **options):
        if record.step <= 1:
            timed.seconds, began = 0.0, time.process_time()
    return plain, timed.seconds / steps, (time.process_time() - began) / steps


def _once(tasks: ms.Tasks, ids: torch.Tensor, seeds: torch.Tensor) -> float:
    began = time.process_time()
    tasks.episodes(ids, seeds)
    return time.process_time() - began


def main() -> None:
    """Print one line a cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder of the images")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'cell, 16 tasks a step':44} queries  sample  + augment    step  share")
    for problem, methods in CELLS.items():
        for method in methods:
            name = f"{problem}/{method}"
            for queries in (5, 15):
                if options.only in f"{name} {queries}":
                    plain, both, step = measure(name, queries, options.steps, options.data)
                    shown = f"{1e3 * plain:5.0f} ms {1e3 * both:8.0f} ms {step:6.2f} s {both / step:6.1%}"
                    print(f"{name:44} {queries:7} {shown}", flush=True)


if __name__ == "__main__":
    main()
