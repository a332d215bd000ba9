"""Files of users and of other people, opened after asking what they are.

A name may belong to a pipe, whose reader waits for ever, or to a device, which may have no end. Every file that this
package reads goes through here.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def check_plain(path: str | os.PathLike[str]) -> None:
    """Raise an ``OSError`` that says what is there where ``path`` leads to no ordinary file; nothing is opened."""
    _refuse(Path(path).stat().st_mode, path)


def open_plain(path: str | os.PathLike[str]) -> io.BufferedReader:
    """An ordinary file, opened to be read; an ``OSError`` for anything else."""
    check_plain(path)  # before it is opened: opening a device may do something
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115 - the caller closes it
    try:
        _refuse(os.fstat(file.fileno()).st_mode, path)  # and after: it may be another one by now
    except OSError:
        file.close()
        raise
    return file


def read_plain(path: str | os.PathLike[str]) -> bytes:
    """All bytes of an ordinary file."""
    with open_plain(path) as file:
        return file.read()


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _refuse(mode: int, path: str | os.PathLike[str]) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(Path(path)))
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no ordinary file")
        raise OSError(errno.EINVAL, kind, str(Path(path)))
