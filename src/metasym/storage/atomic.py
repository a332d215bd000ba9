"""Files that are written whole or not at all, and read with one line about what is wrong."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from metasym.storage.serialization import CheckpointError
from metasym.storage.system import sync_folder
from metasym.types import MetasymError


def write_atomically(
    path: Path, data: bytes, *, keep: Path | None = None, what: str = "a checkpoint"
) -> None:
    """Write ``data`` so that ``path`` always holds either what it held before or all of ``data``.

    With ``keep``, the file that was there is moved to that path first. A kill between the two renames leaves
    only ``keep``, which is whole. The bytes are on the disk before either rename, and the renames before this
    returns.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None:
            with contextlib.suppress(FileNotFoundError):
                path.replace(keep)
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):  # removing the temporary file may fail for the same reason
            temporary.unlink()
        raise MetasymError(f"{path}: expected to write {what}, found {error.strerror}") from None


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, or one line that says why not."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: expected a checkpoint, found {error.strerror}") from None


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, or say in one line why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetasymError(f"{folder}: expected a folder to write to, found {error.strerror}") from None
