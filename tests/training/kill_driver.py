"""Train in forked children that are SIGKILLed at seeded random moments, and resumed until the run is done.

Prints one JSON object: how many kills hit a living run, and after how many of them a temporary file was left.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from toy_learner import Lines, msr

from metasym.training.loop import train
from metasym.training.settings import Files

STEPS = 200


def run(folder: Path) -> None:
    for _ in train(
        msr(dropout=0.3),
        Lines(),
        outer_steps=STEPS,
        tasks_per_step=2,
        validation=Lines(2),
        validate_every=7,
        out=Files(folder, checkpoint_every=2),
        resume=True,
        progress="silent",
    ):
        pass


def child(folder: Path) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            run(folder)
        except BaseException as error:
            sys.stderr.write(f"{error!r}\n")
            os._exit(1)
        os._exit(0)
    return pid


def main(base: Path, kills: int) -> None:
    began = time.monotonic()
    if os.waitpid(child(base / "undisturbed"), 0)[1] != 0:
        sys.exit("the undisturbed run failed")
    duration = time.monotonic() - began
    delays = random.Random(0)
    hits = torn = 0
    while hits < kills:
        pid = child(base / "killed")
        time.sleep(delays.uniform(0.0, 1.2 * duration / kills))
        os.kill(pid, signal.SIGKILL)
        status = os.waitpid(pid, 0)[1]
        if not os.WIFSIGNALED(status):
            break
        hits += 1
        torn += any((base / "killed").glob("checkpoint.safetensors.*.tmp"))
    if os.waitpid(child(base / "killed"), 0)[1] != 0:
        sys.exit("the last resumed run failed")
    sys.stdout.write(json.dumps({"kills": hits, "torn": torn, "seconds": duration}))


main(Path(sys.argv[1]), int(sys.argv[2]))
