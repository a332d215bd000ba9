"""How long ``metasym learn`` takes, as typed: one process, one thread.

    python -m studies.evidence_time            the README's example, 20,000 tasks of 8 x 8, a layer of 32 x 32, a cube
    python -m studies.evidence_time --against /elsewhere/metasym/src

Every case is run in a process of its own with a single thread; the time is that of the whole command, with the
interpreter's start. ``--against`` runs the code of another checkout in turn with this one, on the same machine at the
same time: only processor time is compared, the least of ``--times`` runs each. Results:
``results/evidence/time.json``.
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

import metasym
from metasym.runs.machine import commit
from metasym.storage.json_files import write_json
from metasym.tasks.planted import planted
from studies.attack import commit as commit_of
from studies.ordinary_families import make

LIMITS = {"readme": None, "20,000 tasks of 8 x 8": 60.0, "32 x 32": 300.0, "cube": None}
HERE = Path(metasym.__file__).parents[1]


def tasks(case: str) -> tuple[Any, Any]:
    """The examples of a case."""
    if case == "readme":
        made = planted("shifts12", tasks=500, examples=20, seed=0)
        return made.x.numpy(), made.y.numpy()
    if case == "cube":
        small = make("cube", 1001)
        return small.x, small.y
    g = np.random.Generator(np.random.PCG64(1000))
    count, n, examples = (20_000, 8, 20) if case.startswith("20") else (500, 32, 40)
    rows = g.standard_normal((count, n)) / np.sqrt(n)
    maps = rows[:, (np.arange(n)[:, None] - np.arange(n)[None, :]) % n]
    x = g.standard_normal((count, examples, n))
    y = x @ maps.transpose(0, 2, 1) + 0.01 * g.standard_normal((count, examples, n))
    return x, y


def measure(case: str, source: Path) -> dict[str, Any]:
    """Seconds of one run of the code in ``source``."""
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
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(source)},
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


def compared(case: str, against: Path | None, times: int) -> dict[str, Any]:
    """The run of least processor time, and that of the code in ``against``."""
    ours: list[dict[str, Any]] = []
    theirs: list[dict[str, Any]] = []
    for _ in range(times):
        ours.append(measure(case, HERE))
        if against is not None:
            theirs.append(measure(case, against))
    record = {**min(ours, key=_used), "times": times, "commit": commit()}
    record["machine"] = platform.processor() or platform.machine()
    if theirs:
        least = min(map(_used, theirs))
        before = {"commit": commit_of(str(against)), "cpu_seconds": least}
        record |= {"before": before, "ratio": round(_used(record) / least, 3)}
    return record


def _used(record: dict[str, Any]) -> float:
    return float(record["cpu_seconds"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/evidence/time.json"))
    parser.add_argument("--only", nargs="+", choices=list(LIMITS), default=list(LIMITS))
    parser.add_argument("--against", type=Path, help="the folder src of another checkout")
    parser.add_argument("--times", type=int, default=1)
    chosen = parser.parse_args()
    old = json.loads(chosen.out.read_text())["records"] if chosen.out.exists() else []
    for each in chosen.only:
        found = compared(each, chosen.against, chosen.times)
        print(found, flush=True)
        old = [r for r in old if r["case"] != each] + [found]
        write_json(chosen.out, {"command": "python -m studies.evidence_time --against SRC", "records": old})
