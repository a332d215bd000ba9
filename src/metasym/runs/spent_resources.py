"""What a run has cost so far, over all its starts: time and memory, kept beside its checkpoints."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypedDict

from metasym.storage.described import Count, Number
from metasym.storage.json_files import read_json, write_json
from metasym.storage.locks import remove_abandoned
from metasym.storage.system import cpu_seconds, peak_memory
from metasym.training.distributed import Ranks

NAME = "spent.json"
_EVERY = 50
"""Steps between two notes: a run that is killed forgets at most so many."""


class SpentFile(TypedDict, total=False):
    """What :class:`Spent` writes."""

    seconds: Number
    cpu_seconds: Number
    peak_memory_mb: Number
    starts: Count


class Spent:
    """Adds this process to what earlier ones have noted in ``folder``; a run from the beginning starts at zero."""

    def __init__(self, folder: Path, *, afresh: bool) -> None:
        self.path = folder / NAME
        remove_abandoned(folder, NAME)
        before: dict[str, Any] = {}
        if not afresh and self.path.exists():
            before = read_json(self.path, "what a run has cost", SpentFile)
        self._seconds = float(before.get("seconds", 0.0)) - time.perf_counter()
        self._cpu_seconds = float(before.get("cpu_seconds", 0.0)) - cpu_seconds()
        self._memory = float(before.get("peak_memory_mb", 0.0))
        self._starts = int(before.get("starts", 0)) + 1

    def so_far(self) -> dict[str, float | int]:
        """Seconds by the clock and of the processor, the most memory that a process held (MiB), and their number."""
        return {
            "seconds": self._seconds + time.perf_counter(),
            "cpu_seconds": self._cpu_seconds + cpu_seconds(),
            "peak_memory_mb": max(self._memory, peak_memory()),
            "starts": self._starts,
        }

    def note(self, step: int, ranks: Ranks) -> None:
        """Write it down every now and then."""
        if step % _EVERY == 0:
            self.write(ranks)

    def write(self, ranks: Ranks) -> None:
        """Write it down; of several processes only the first does."""
        if ranks.main:
            write_json(self.path, self.so_far())
