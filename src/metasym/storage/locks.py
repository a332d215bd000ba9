"""Files and folders that belong to one process while it lives: a lock ends with the process that holds it.

A file that no process holds any more was left by a process that was killed, and any other process may remove it. A
process holds a file while it removes it, and a process that has just got hold of a file checks that it is still
there. So no two processes both believe that they are the only one.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import glob
import os
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, BinaryIO

from metasym.storage.system import can_lock, lock
from metasym.types import MetasymError

_PATIENCE, _PAUSE = 10, 0.02
"""How often a folder's lock is tried for, and the seconds between: :func:`is_held` takes it for a moment."""
_WITHOUT_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
"""What some network file systems answer: there processes may do the same work twice, but spoil nothing."""
_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""How files are opened whose names others can know: no link is followed, and a pipe there does not make us wait."""


_HELD: dict[Path, os.stat_result] = {}
"""The folders that this process holds, and which folder each was when the hold began."""
_SHARED: contextvars.ContextVar[tuple[Path, ...]] = contextvars.ContextVar("_SHARED", default=())
"""The folders that a whole run holds: what it does inside them needs no hold of its own."""


@contextlib.contextmanager
def holding(folder: Path) -> Iterator[None]:
    """Make a folder and hold it for a whole run; a training that this run starts there shares the hold."""
    held = FolderLock(folder)
    before = _SHARED.set((*_SHARED.get(), folder))
    try:
        yield
    finally:
        _SHARED.reset(before)
        held.release()


def check_still_there(folder: Path) -> None:
    """Refuse to write where a run's folder was: one that was moved or deleted meanwhile is not made anew."""
    for root, known in list(_HELD.items()):
        if folder != root and root not in folder.parents:
            continue
        try:
            same = os.path.samestat(root.stat(), known)
        except OSError:
            same = False
        if not same:
            raise MetasymError(
                f"{root}: expected the folder that this run writes to, found it moved or deleted meanwhile",
                about=str(root),
                found="moved or deleted",
            )


class FolderLock:
    """Makes and holds a folder: no second process writes into it until :meth:`release` or this one's death.

    The lock is the operating system's, on the folder itself: nothing is left behind to be cleaned up.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._handle: int | None = None
        self._shares = folder in _SHARED.get()
        if self._shares:
            return
        try:
            check_still_there(folder)
            folder.mkdir(parents=True, exist_ok=True)
            known = folder.stat()
            if can_lock():  # Windows neither locks files this way nor opens folders
                self._handle = os.open(folder, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0))
        except OSError as error:
            raise MetasymError(
                f"{folder}: expected a folder, found {error.strerror}",
                about=str(folder),
                found=error.strerror,
            ) from None
        self._lock()
        _HELD[folder] = known

    def _lock(self) -> None:
        if self._handle is None:
            return
        for tries_left in reversed(range(_PATIENCE)):
            try:
                lock(self._handle, wait=False)
            except BlockingIOError:
                if tries_left:
                    time.sleep(_PAUSE)
                    continue
                os.close(self._handle)
                raise MetasymError(
                    f"{self._folder}: expected a folder that no other run writes to, found one that is training "
                    "there now",
                    about=str(self._folder),
                    found="a run that trains there",
                ) from None
            except OSError:  # a file system without locks: nothing is guarded there
                pass
            return

    def release(self) -> None:
        """Let others in."""
        if not self._shares:
            _HELD.pop(self._folder, None)
        if self._handle is not None:
            os.close(self._handle)


def is_held(folder: Path) -> bool:
    """Whether a living process holds the folder with a :class:`FolderLock`; False where there are no locks."""
    if not can_lock() or not folder.is_dir():
        return False
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise MetasymError(
            f"{folder}: expected a folder to look into, found {error.strerror}",
            about=str(folder),
            found=error.strerror,
        ) from None
    try:
        lock(handle, wait=False)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock for ``path``; processes that want it too wait. Its file is gone afterwards."""
    place = path.with_name(path.name + ".lock")
    while True:
        with os.fdopen(os.open(place, os.O_WRONLY | os.O_CREAT | _PLAIN, 0o666), "ab") as file:
            held = _hold(file)
            if held and _is_gone(file):
                continue  # its last holder removed it: the lock is a new file by now
            try:
                yield
            finally:
                if held:
                    place.unlink(missing_ok=True)
            return


@contextlib.contextmanager
def temporary(path: Path) -> Iterator[tuple[BinaryIO, Path]]:
    """A new file beside ``path``, held while it is written; removed unless it has been moved to its place."""
    while True:
        # Unlike tempfile's, this file has the rights that the user's umask gives.
        name = path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")
        with os.fdopen(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _PLAIN, 0o666), "wb") as file:
            if _hold(file) and _is_gone(file):
                continue  # removed before we held it
            try:
                yield file, name
            finally:
                name.unlink(missing_ok=True)
            return


def remove_abandoned(folder: Path, suffix: str) -> None:
    """Remove locks and temporary files, for names that end in ``suffix``, whose processes no longer exist."""
    suffix = glob.escape(suffix)
    for left in [*folder.glob(f"*{suffix}.*.tmp"), *folder.glob(f"*{suffix}.lock")]:
        with contextlib.suppress(OSError), os.fdopen(os.open(left, os.O_RDWR | _PLAIN), "rb+") as file:
            if _is_plain(file) and lock(file, wait=False) and not _is_gone(file):
                left.unlink()


def _hold(file: IO[bytes]) -> bool:
    """Wait until nothing else holds the file; False where the system or the file system has no locks."""
    try:
        return lock(file, wait=True)
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        return False


def _is_plain(file: IO[bytes]) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def _is_gone(file: IO[bytes]) -> bool:
    return os.fstat(file.fileno()).st_nlink == 0
