"""What ``metasym learn`` takes for more rows than it holds: seconds, and the largest memory of the process.

    python -m studies.many_rows                       20 million rows of 20,000 tasks, 3.1 GB in 20 Parquet files
    python -m studies.many_rows --each 100 --out x.json    a tenth of them

A task is a map of a ring of 8 inputs, with 1 % noise; the rows of all tasks are mixed. The files are made in a folder
that is deleted afterwards. One thread. Results: ``results/evidence/many_rows.json``.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from pyarrow import parquet, table

from metasym.runs.machine import commit
from metasym.storage.json_files import write_json

SIZE, FILES, AT_ONCE = 8, 20, 2**16


def write_rows(folder: Path, tasks: int, each: int) -> None:
    """``each`` rows of every task, as many in each file."""
    g = np.random.Generator(np.random.PCG64(1000))
    filters = g.standard_normal((tasks, SIZE)) / np.sqrt(SIZE)
    maps = filters[:, (np.arange(SIZE)[:, None] - np.arange(SIZE)[None, :]) % SIZE]
    for number in range(FILES):
        task = g.permutation(np.repeat(np.arange(tasks), each // FILES))
        x = g.standard_normal((len(task), SIZE))
        y = 0.01 * g.standard_normal(x.shape)
        for start in range(0, len(task), AT_ONCE):
            some = slice(start, start + AT_ONCE)
            y[some] += np.einsum("ri,roi->ro", x[some], maps[task[some]])
        columns = {f"{name}{i}": values[:, i] for name, values in (("x", x), ("y", y)) for i in range(SIZE)}
        file = folder / f"part{number:02d}.parquet"
        parquet.write_table(table({"task": task, **columns}), file, row_group_size=AT_ONCE)


def measure(tasks: int, each: int) -> dict[str, Any]:
    """One run, in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_rows(folder, tasks, each)
        typed = ["learn", str(folder / "*.parquet"), "--task", "task", "--inputs", "x*", "--outputs", "y*"]
        typed += ["--out", str(folder / "run"), "--progress", "silent"]
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "metasym", *typed],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            "tasks": tasks,
            "rows": tasks * each,
            "seconds": round(time.monotonic() - began, 1),
            "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
            "peak_mb": round(used.ru_maxrss * 1024 / 1e6),
            "load": os.getloadavg()[0],
            "found": [line for line in done.stdout.splitlines() if line.startswith("In the layer")],
            "commit": commit(),
        }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results/evidence/many_rows.json"))
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--each", type=int, default=1000, help=f"rows of each task, a multiple of {FILES}")
    chosen = parser.parse_args()
    found = measure(chosen.tasks, chosen.each)
    print(found)
    write_json(chosen.out, {"command": "python -m studies.many_rows", "records": [found]})
