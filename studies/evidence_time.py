"""How long ``metasym learn`` takes, as typed: one process, one thread.

    python -m studies.evidence_time            the README's example, 20,000 tasks of 8 x 8, a layer of 32 x 32

Every case is run in a process of its own with a single thread; the time is that of the whole command, with the
interpreter's start. Results: ``results/evidence/time.json``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks.planted import planted

LIMITS = {"readme": None, "20,000 tasks of 8 x 8": 60.0, "32 x 32": 300.0}


def tasks(case: str) -> tuple[Any, Any]:
    """The examples of a case."""
    if case == "readme":
        made = planted("shifts12", tasks=500, examples=20, seed=0)
        return made.x.numpy(), made.y.numpy()
    g = np.random.Generator(np.random.PCG64(1000))
    count, n, examples = (20_000, 8, 20) if case.startswith("20") else (500, 32, 40)
    rows = g.standard_normal((count, n)) / np.sqrt(n)
    maps = rows[:, (np.arange(n)[:, None] - np.arange(n)[None, :]) % n]
    x = g.standard_normal((count, examples, n))
    y = x @ maps.transpose(0, 2, 1) + 0.01 * g.standard_normal((count, examples, n))
    return x, y


def measure(case: str) -> dict[str, Any]:
    """Seconds of one run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x, y = tasks(case)
        np.savez(folder / "tasks.npz", x=x, y=y)
        flags = [] if case == "readme" else ["--no-baseline"]
        typed = [
            "learn",
            str(folder / "tasks.npz"),
            "--out",
            str(folder / "run"),
            "--progress",
            "silent",
            *flags,
        ]
        began = time.monotonic()
        used = os.times()
        done = subprocess.run(
            [sys.executable, "-m", "metasym", *typed],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        waited = time.monotonic() - began
        now = os.times()
        return {
            "case": case,
            "seconds": round(waited, 1),
            "cpu_seconds": round(
                now.children_user + now.children_system - used.children_user - used.children_system, 1
            ),
            "load": os.getloadavg()[0],
            "limit": LIMITS[case],
            "found": [line for line in done.stdout.splitlines() if line.startswith("In the layer")],
            "command": " ".join(["metasym learn TASKS.npz --out DIR --progress silent", *flags]),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/evidence/time.json"))
    parser.add_argument("--only", nargs="+", choices=list(LIMITS), default=list(LIMITS))
    chosen = parser.parse_args()
    old = json.loads(chosen.out.read_text())["records"] if chosen.out.exists() else []
    for each in chosen.only:
        found = {**measure(each), "commit": commit(), "machine": platform.processor() or platform.machine()}
        print(found, flush=True)
        old = [r for r in old if r["case"] != each] + [found]
        write_json(chosen.out, {"command": "python -m studies.evidence_time", "records": old})
