"""One rank of a run: ``rank_driver.py out=FOLDER steps=N [tasks=N] [kill | term | stop | full=STEP | seconds=X]``.

``kill`` and ``stop`` (continued as soon as it stands) hit rank 1 after the step, ``term`` within it, when gradients
were exchanged. ``full``: rank 0 can write nothing more after the step.
"""

import contextlib
import os
import resource
import signal
import sys
from pathlib import Path

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


def pause():
    me = os.getpid()
    if not os.fork():
        with contextlib.suppress(FileNotFoundError):
            while Path(f"/proc/{me}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
                pass
            os.kill(me, signal.SIGCONT)
        os._exit(0)
    os.kill(me, signal.SIGSTOP)


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
    if rank == 1 and options.get("stop") == str(record.step):
        pause()
    if rank == 0 and options.get("full") == str(record.step):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
score = evaluate(made, Lines(9), tasks_per_chunk=2)
if rank == 0:
    sys.stdout.write(f"SCORE {score.mean!r} {score.ci95!r}\n")
