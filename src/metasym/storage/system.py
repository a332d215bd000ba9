"""What some systems lack: locks on files, folders that can be opened, processes that know what they used.

Each function here works without the feature where it is missing, so that the rest of the package is the same on
Linux, macOS and Windows; its docstring says what is then lost.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]
try:
    import grp
    import pwd
except ImportError:  # Windows
    grp = pwd = None  # type: ignore[assignment]
try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_UNKNOWN_MEMORY = 2**31
"""Memory taken to be free where the system does not say; larger files are mapped, not read, which is only slower."""
_CONTAINER = Path("/sys/fs/cgroup")
"""Where Linux shows the memory limit of a container."""


def lock(file: int | IO[bytes], *, wait: bool) -> bool:
    """Take the lock of an open file; False where the system has none, and two processes may do the same work twice.

    Raises ``BlockingIOError`` if another process holds it and ``wait`` is False.
    """
    if fcntl is None:
        return False
    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    return True


def can_lock() -> bool:
    """Whether the system has locks on files at all."""
    return fcntl is not None


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk; Windows cannot open folders, and does so by itself."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_open(file: IO[bytes], name: Path, target: Path) -> None:
    """Move the open file ``name`` to ``target``; where there are no locks to lose, it is closed first.

    Windows cannot move an open file. Elsewhere it stays open, because closing would give up the lock that keeps other
    processes from taking it for abandoned.
    """
    if fcntl is None:
        file.close()
    name.replace(target)


def has_other_members(group: int) -> bool:
    """Whether a group may have members besides this user; True where the system does not say.

    Many systems give every user a group of their own.
    """
    if pwd is None:
        return True
    try:
        me = pwd.getpwuid(os.geteuid())
        return me.pw_gid != group or bool(set(grp.getgrgid(group).gr_mem) - {me.pw_name})
    except KeyError:
        return True


def peak_memory() -> float:
    """The most memory that this process has held, in MiB; 0 where the system does not say."""
    if resource is None:
        return 0.0
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def cpu_seconds() -> float:
    """The processor time of this process."""
    return time.process_time()


def available_memory() -> int:
    """Bytes of memory that are free for new data, as far as the machine and the limits on this process say."""
    try:
        free = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2
    except (AttributeError, ValueError, OSError):  # Windows
        free = _UNKNOWN_MEMORY
    with contextlib.suppress(OSError):  # Linux alone has it
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):  # "max", or no such file: no limit of a container
        most, used = (
            int((_CONTAINER / name).read_text(encoding="ascii")) for name in ("memory.max", "memory.current")
        )
        free = min(free, max(0, most - used))
    limit = address_limit()
    return free if limit is None else min(free, max(0, limit - address_space()))


def address_limit() -> int | None:
    """Bytes of addresses that this process may take (``ulimit -v``); None where there is no limit."""
    if resource is None:
        return None
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if soft == resource.RLIM_INFINITY else soft


def address_space() -> int:
    """Bytes of addresses that this process has taken already; 0 where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return 0
    return pages * int(os.sysconf("SC_PAGE_SIZE"))
