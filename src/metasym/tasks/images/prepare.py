"""From a folder of data to a file of converted images: found, or made at the first use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from metasym.tasks.images.cache import VARIABLE, convert, user_folder
from metasym.tasks.images.sources import Progress, Source, read_all
from metasym.types import MetasymError


@dataclass(frozen=True)
class DataSet:
    """What a data set is called, and how its images are found."""

    title: str
    name: str
    """Of the file of converted images."""
    find: Callable[[Path], Source | None]
    missing: str
    """What to do where it is not found."""


def prepared(data_set: DataSet, folder: Path, *, progress: Progress | None = None) -> Path:
    """The file of converted images for the data in ``folder``, made if it is not there yet.

    It is in ``folder``. Where that cannot be written to, it is in the user's cache folder, under a name that
    belongs to ``folder``.
    """
    for path in (folder / data_set.name, _elsewhere(data_set, folder)):
        if path.is_file():
            return path
    source = data_set.find(folder)
    if source is None:
        raise MetasymError(
            f"{folder}: expected {data_set.title}, found none; {data_set.missing}; "
            f"another folder is chosen with --data DIR or {VARIABLE}"
        )
    path = target(data_set, folder)
    convert(path, source.text, lambda: read_all(source, progress))
    return path


def target(data_set: DataSet, folder: Path) -> Path:
    """Where the converted images of ``folder`` are to be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetasymError(f"{folder}: expected a folder for data, found {error.strerror}") from None
    return folder / data_set.name if _writable(folder) else _elsewhere(data_set, folder)


def _writable(folder: Path) -> bool:
    """Whether we may write there. A folder that denies it to all is left alone by the superuser too."""
    return os.access(folder, os.W_OK) and folder.stat().st_mode & 0o222 != 0


def _elsewhere(data_set: DataSet, folder: Path) -> Path:
    mark = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:12]
    return user_folder() / f"{mark}-{data_set.name}"
