"""One rank of a run: ``rank_driver.py out=FOLDER steps=N [tasks=N] [kill=STEP | term=STEP | seconds=X]`` (on rank 1).

``kill`` hits after the step, ``term`` within it, after the gradients were exchanged.
"""

import os
import signal
import sys

import torch
from toy_learner import Lines, msr

from metasym.training.evaluation import evaluate
from metasym.training.loop import train
from metasym.training.settings import Files

options = dict(argument.split("=") for argument in sys.argv[1:])
rank = int(os.environ.get("RANK", "0"))
made = msr(seed=rank)  # other starts on other ranks: rank 0's must win


def hooked(parameters):
    optimizer = torch.optim.Adam(parameters, lr=1e-3)
    steps = iter(range(1, 1 + int(options["steps"])))

    def within(*_):
        if str(next(steps)) == options.get("term") and rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    optimizer.register_step_pre_hook(within)
    return optimizer


for record in train(
    made,
    Lines(poison=(5,)),
    outer_steps=int(options["steps"]),
    tasks_per_step=int(options.get("tasks", 7)),
    optimizer=hooked,
    on_nonfinite="skip",
    validation=Lines(9),
    validate_every=10,
    clip_norm=5.0,
    out=Files(options["out"], checkpoint_every=10),
    resume=True,
    progress="plain",
    max_seconds=float(options["seconds"] if rank == 1 else 1e6) if "seconds" in options else None,
):
    if rank == 1 and options.get("kill") == str(record.step):
        os.kill(os.getpid(), signal.SIGKILL)
score = evaluate(made, Lines(9), tasks_per_chunk=2)
if rank == 0:
    sys.stdout.write(f"SCORE {score.mean!r} {score.ci95!r}\n")
