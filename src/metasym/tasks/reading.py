"""One door for every kind of file with tasks: npz archives and tables."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

from metasym.tasks.npz import read_npz
from metasym.tasks.table_files import SUFFIXES, read_table
from metasym.tasks.task_file import Reading, TaskFile
from metasym.types import MetasymError

_CONTAINER = Path("/sys/fs/cgroup")


def read_tasks(
    path: str | os.PathLike[str], reading: Reading | None = None, *, memory: int | None = None
) -> TaskFile:
    """The tasks in a file: ``.csv``, ``.tsv`` and ``.parquet`` are tables, everything else is an ``.npz`` archive.

    What is wrong with a file is one line. ``memory`` is what may be used, in bytes; by default what is free.
    """
    file, wishes = Path(path), reading or Reading()
    free = available_memory() if memory is None else memory
    try:
        if file.suffix.lower() in SUFFIXES:
            return read_table(file, wishes, free)
        _refuse_flags_of_tables(file, wishes)
        return read_npz(file, wishes, free)
    except MemoryError:
        raise MetasymError(
            f"{file}: expected tasks that fit into memory, found no room for {file.stat().st_size / 1e6:,.0f} MB of "
            "them: keep fewer tasks, or store them with numpy.savez, uncompressed, so that they can stay on the disk"
        ) from None


def _refuse_flags_of_tables(file: Path, reading: Reading) -> None:
    for flag in ("task", "inputs", "outputs"):
        if getattr(reading, flag) is not None:
            raise MetasymError(
                f"expected --{flag} only for a table ({', '.join(SUFFIXES)}), found it with {file.name}"
            )


def available_memory() -> int:
    """Bytes of memory that are free for new data, as far as the machine and the limits on this process say."""
    free = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    except OSError:
        pass
    with contextlib.suppress(OSError, ValueError):  # "max", or no such file: no limit of a container
        limit, used = (int((_CONTAINER / name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, max(0, limit - used))
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        free = min(free, max(0, soft - _address_space()))
    return free


def _address_space() -> int:
    """Bytes of addresses that this process has taken already."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * int(os.sysconf("SC_PAGE_SIZE"))
    except OSError:
        return 0
