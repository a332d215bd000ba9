"""One contender in a process of its own: ``python -m benchmarks.worker ROW CONTENDER``, then requests on stdin.

Every request is a number of seconds; the answer says how many steps were done in about that time (at least one),
how long they took, and the peak memory so far. A process of its own has its own peak memory; waiting for requests
it takes no time from the others, so that contenders can be timed in turn.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from typing import Any

import torch

from benchmarks.contenders import STEPPERS, Step
from benchmarks.discovering import step_of
from benchmarks.scaling import POINTS
from benchmarks.workloads import ROWS


def main(row: str, contender: str) -> None:
    """Make the contender, say what the first step gave, answer requests."""
    torch.set_num_threads(1)
    imported = peak_bytes()
    if row == "discovering":
        step = step_of(contender)
    elif row == "scaling":
        step = STEPPERS["metasym"](*POINTS[contender].make())
    else:
        stepper, make = ROWS[row].contenders[contender]
        step = STEPPERS[stepper](*make())
    began = time.perf_counter()
    loss = step()
    answer(loss=loss, first_step=time.perf_counter() - began, imported=imported)
    for line in sys.stdin:
        answer(**timed(step, float(line)))


def timed(step: Step, seconds: float) -> dict[str, Any]:
    """Steps for about so long."""
    began, steps = time.perf_counter(), 0
    processor = time.process_time()
    while steps == 0 or time.process_time() - processor < seconds:
        step()
        steps += 1
    wall = time.perf_counter() - began
    return {
        "steps": steps,
        "seconds": wall,
        "processor": time.process_time() - processor,
        "peak": peak_bytes(),
    }


def peak_bytes() -> int:
    """The most memory that this process has held (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def answer(**values: Any) -> None:
    """One line of JSON."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
