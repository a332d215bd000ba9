"""Contenders of a row in turn, round after round, each in a process of its own; medians, spreads, ratios."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.contenders import NEEDS, missing
from benchmarks.workloads import ROWS, Row
from metasym.runs.machine import commit

ROOT = Path(__file__).resolve().parent.parent
Say = Callable[[str], None]


@dataclass(frozen=True)
class Plan:
    """How long and how often: ``seconds`` of work for each contender in each of ``rounds``."""

    rounds: int = 5
    seconds: float = 1.2


FULL, QUICK = Plan(), Plan(rounds=2, seconds=0.2)


class Worker:
    """A contender's process."""

    def __init__(self, row: str, contender: str) -> None:
        paths = [str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.worker", row, contender],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)},
        )
        self.hello = self._read()

    def run(self, seconds: float) -> dict[str, Any]:
        """Steps for about so long."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"expected an answer of {' '.join(map(str, self.process.args))}, found none")
        found: dict[str, Any] = json.loads(line)
        return found


@contextlib.contextmanager
def worker(row: str, contender: str) -> Iterator[Worker]:
    """A worker that ends with the block."""
    made = Worker(row, contender)
    try:
        yield made
    finally:
        made.close()


def run_row(name: str, plan: Plan, say: Say) -> dict[str, Any]:
    """Time every contender of a row that is installed; the result in plain types."""
    row = ROWS[name]
    absent = [c for c, (stepper, _) in row.contenders.items() if missing(stepper)]
    for contender in absent:
        say(
            f"{name}: {contender} left out: {NEEDS[row.contenders[contender][0]]} is not installed (extra 'bench')"
        )
    chosen = [c for c in row.contenders if c not in absent]
    with contextlib.ExitStack() as stack:
        workers = {}
        for contender in chosen:
            say(f"{name}: {contender}: first step")
            workers[contender] = stack.enter_context(worker(name, contender))
        times: dict[str, list[float]] = {contender: [] for contender in chosen}
        peaks: dict[str, int] = {}
        for turn in range(plan.rounds):
            for contender in chosen:
                done = workers[contender].run(plan.seconds)
                times[contender].append(done["processor"] / done["steps"])
                peaks[contender] = done["peak"]
            shown = ", ".join(f"{c} {1e3 * times[c][-1]:.4g} ms" for c in chosen)
            say(f"{name}: round {turn + 1} of {plan.rounds}: {shown}")
        hellos = {contender: workers[contender].hello for contender in chosen}
    return {"row": name, "title": row.title, **summary(row, times, peaks, hellos), "absent": absent}


def summary(
    row: Row,
    times: Mapping[str, Sequence[float]],
    peaks: Mapping[str, int],
    hellos: Mapping[str, Mapping[str, Any]],
) -> dict[str, Any]:
    """Medians and spreads of the times of a step, and the ratios that targets are for."""
    found = {
        contender: {
            "milliseconds": 1e3 * statistics.median(values),
            "fastest": 1e3 * min(values),
            "slowest": 1e3 * max(values),
            "steps_per_second": 1 / statistics.median(values),
            "peak_mb": peaks[contender] / 2**20,
            "imported_mb": hellos[contender]["imported"] / 2**20,
            "first_loss": hellos[contender]["loss"],
        }
        for contender, values in times.items()
    }
    ours = next(iter(row.contenders))
    comparisons = []
    for rival, target in row.targets.items():
        if rival in found:
            ratios = [b / a for a, b in zip(times[ours], times[rival], strict=True)]
            comparisons.append(_comparison(ours, rival, "at least", target, ratios))
    for other, target in row.at_most.items():
        if other in found:
            ratios = [a / b for a, b in zip(times[ours], times[other], strict=True)]
            comparisons.append(_comparison(ours, other, "at most", target, ratios))
    return {"contenders": found, "comparisons": comparisons}


def _comparison(ours: str, other: str, sense: str, target: float, ratios: Sequence[float]) -> dict[str, Any]:
    """The median over rounds of the ratio of the two times of that round."""
    ratio = statistics.median(ratios)
    met = ratio >= target if sense == "at least" else ratio <= target
    return {
        "of": ours, "with": other, "sense": sense, "target": target, "ratio": ratio,
        "lowest": min(ratios), "highest": max(ratios), "met": met,
    }  # fmt: skip


def machine() -> dict[str, Any]:
    """What the numbers were measured on, and how: the command and the commit."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(
            (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), processor
        )
        memory = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    except OSError:
        memory = None
    return {
        "command": " ".join(["python -m benchmarks", *sys.argv[1:]]),
        "commit": commit(),
        "processor": processor,
        "cores": os.cpu_count(),
        "memory_gb": None if memory is None else round(memory / 1e9, 1),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "threads": 1,
        "load": round(os.getloadavg()[0], 1),
        "time": "processor time of a single thread: other processes do not count, what they do to caches does",
    }
