"""One rank of a run: ``rank_driver.py out=FOLDER steps=N [tasks=N] [kill=STEP | term=STEP]`` (on rank 1)."""

import os
import signal
import sys

from toy_learner import Lines, learner

from metasym.evaluation import evaluate
from metasym.training import train

options = dict(argument.split("=") for argument in sys.argv[1:])
rank = int(os.environ.get("RANK", "0"))
made = learner(seed=rank)  # other starts on other ranks: rank 0's must win
for record in train(
    made,
    Lines(poison=(5,)),
    outer_steps=int(options["steps"]),
    tasks_per_step=int(options.get("tasks", 7)),
    on_nonfinite="skip",
    validation=Lines(9),
    validate_every=10,
    clip_norm=5.0,
    out=options["out"],
    checkpoint_every=10,
    resume=True,
    progress="plain",
):
    for name, number in (("kill", signal.SIGKILL), ("term", signal.SIGTERM)):
        if rank == 1 and options.get(name) == str(record.step):
            os.kill(os.getpid(), number)
score = evaluate(made, Lines(9), tasks_per_chunk=2)
if rank == 0:
    sys.stdout.write(f"SCORE {score.mean!r} {score.ci95!r}\n")
