"""Files that are written whole or not at all, and read with one line about what is wrong.

A folder may come from someone else. So nothing here follows a symbolic link that stands where a file of ours is
expected, and no name that is written to can be known beforehand.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from metasym.storage.locks import check_still_there, remove_abandoned, temporary
from metasym.storage.plain_files import check_plain, read_plain
from metasym.storage.serialization import CheckpointError
from metasym.storage.system import replace_open, sync_folder
from metasym.types import MetasymError


def write_atomically(
    path: Path, data: bytes, *, keep: Path | None = None, what: str = "a checkpoint"
) -> None:
    """Write ``data`` so that ``path`` always holds either what it held before or all of ``data``.

    With ``keep``, the file that was there is moved to that path first. A kill between the two renames leaves
    only ``keep``, which is whole. The bytes are on the disk before either rename, and the renames before this
    returns. What killed writes of this file have left is removed.
    """
    for place in (path,) if keep is None else (path, keep):
        refuse_other(place, f"{what}, or nothing yet")
    try:
        remove_abandoned(path.parent, path.name)
        with temporary(path) as (file, name):
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
            if keep is not None:
                with contextlib.suppress(FileNotFoundError):
                    path.replace(keep)
            replace_open(file, name, path)
        sync_folder(path.parent)
    except OSError as error:
        raise MetasymError(
            f"{path}: expected to write {what}, found {error.strerror}", about=str(path), found=error.strerror
        ) from None


def as_bytes(text: str) -> bytes:
    """Text for people as UTF-8; bytes of file names that are no text in any language are written as numbers."""
    return text.encode("utf-8", "backslashreplace")


def open_own(path: str, flags: int) -> int:
    """Open a file of ours that is changed in place: an opener for :func:`open`.

    Refuses symbolic links, and files that have a second name, whose contents may belong to someone else.
    """
    refuse_link(Path(path), "a file of this run")
    handle = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0), 0o666)
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        names = "a file with several names (hard links)"
        raise MetasymError(
            f"{path}: expected a file of this run, found {names if found.st_nlink > 1 else 'no ordinary file'}",
            about=str(path),
            found=names if found.st_nlink > 1 else "no ordinary file",
        )
    return handle


def refuse_link(path: Path, what: str) -> None:
    """Refuse a symbolic link where ``what`` is expected: writing there would change another place."""
    if path.is_symlink():
        raise MetasymError(
            f"{path}: expected {what}, found a symbolic link; remove it",
            about=str(path),
            found="a symbolic link",
        )


def refuse_other(path: Path, what: str) -> None:
    """Refuse a link, a folder, a pipe or a device where ``what`` is expected: writing would replace it."""
    refuse_link(path, what)
    try:
        check_plain(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise MetasymError(
            f"{path}: expected {what}, found {error.strerror}", about=str(path), found=error.strerror
        ) from None


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, or one line that says why not."""
    try:
        return read_plain(path)
    except OSError as error:
        raise CheckpointError(
            f"{path}: expected a checkpoint, found {error.strerror}", about=str(path), found=error.strerror
        ) from None


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, or say in one line why not."""
    check_still_there(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetasymError(
            f"{folder}: expected a folder to write to, found {error.strerror}",
            about=str(folder),
            found=error.strerror,
        ) from None


def make_inside(root: Path, name: str) -> Path:
    """Make the folder ``root/name``, unless a link is there, and return it."""
    folder = root / name
    check_inside(root, folder)
    make_folder(folder)
    return folder


def check_inside(root: Path, folder: Path) -> None:
    """Refuse links on the way from ``root``, which the user gave and which may be one, to ``folder`` inside it."""
    for above in (folder, *folder.parents):
        if above == root:
            return
        refuse_link(above, "a folder of ours, or nothing yet")
