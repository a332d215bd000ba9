"""From a folder of data to a file of converted images: found, or made at the first use."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from metasym.tasks.images.cache import (
    VARIABLE,
    Index,
    convert,
    make_folder,
    open_images,
    read_index,
    user_folder,
)
from metasym.tasks.images.sources import Progress, Source, read_all
from metasym.types import MetasymError


@dataclass(frozen=True)
class DataSet:
    """What a data set is called, and how its images are found."""

    title: str
    name: str
    """The name of the file of converted images."""
    find: Callable[[Path, Path | None], Source | None]
    """The images at a path, with ``lists``; None where there are none, an error where they are not sound."""
    provide: str
    """What a user can do to get the data."""
    lists: Path | None = None
    """Where its split lists are, if not with the images."""


@dataclass(frozen=True)
class Prepared:
    """A file of converted images."""

    path: Path
    index: Index
    fresh: bool
    """Whether it was made now; if not, another process made it in the meantime."""


def prepared(data_set: DataSet, folder: Path, *, progress: Progress | None = None) -> Path:
    """The file of converted images for the data in ``folder``, made if it is not there yet.

    It is in ``folder``. Where that cannot be written to, it is in the user's cache folder, under a name that
    belongs to ``folder``.
    """
    there = existing(data_set, folder)
    if there is not None:
        return there
    return prepare(data_set, folder, source_at(data_set, folder), origin=folder, progress=progress).path


def prepare(
    data_set: DataSet,
    folder: Path,
    source: Source,
    *,
    origin: Path,
    again: bool = False,
    exactly: bool = False,
    progress: Progress | None = None,
) -> Prepared:
    """Convert ``source``, found at ``origin``, into the file of ``folder``, unless it is there.

    ``again`` converts anyway, ``exactly`` if what is there was converted from something else.
    """
    path = target(data_set, folder)
    places = [place for place in (origin, data_set.lists) if place is not None]
    index, fresh = convert(
        path,
        source.text,
        lambda: read_all(source, progress),
        origin=tuple(str(place.absolute()) for place in places),
        again=again,
        exactly=exactly,
    )
    return Prepared(path, index, fresh)


def existing(data_set: DataSet, folder: Path) -> Path | None:
    """The file that was made for ``folder`` before, if there is one."""
    if (folder / data_set.name).is_file():
        return folder / data_set.name
    try:
        path = _elsewhere(data_set, folder)
    except MetasymError:  # no home folder, so nothing in it either
        return None
    return path if path.is_file() else None


def is_sound(path: Path, source: str | None = None) -> bool:
    """Whether every pixel is as it was converted, and from ``source`` if that is given."""
    try:
        if source is not None and read_index(path).source != source:
            return False
        open_images(path)
        return True
    except MetasymError:
        return False


def source_at(data_set: DataSet, path: Path) -> Source:
    """The images at ``path``, or an error that says how to get them."""
    found = data_set.find(path, data_set.lists)
    if found is None:
        what = "none" if path.exists() else "no such file or folder"
        raise MetasymError(
            f"{path}: expected {data_set.title}, found {what}; {data_set.provide}; "
            f"the folder is chosen with --data DIR or {VARIABLE}",
            about=str(path),
            found=what,
        )
    return found


def target(data_set: DataSet, folder: Path) -> Path:
    """Where the converted images of ``folder`` are to be written."""
    make_folder(folder, "for data")
    return folder / data_set.name if writable(folder) else _elsewhere(data_set, folder)


def writable(folder: Path) -> bool:
    """Whether we may write there. A folder that no user may write to is left alone even by the superuser."""
    return os.access(folder, os.W_OK) and folder.stat().st_mode & 0o222 != 0


def mark(path: Path) -> str:
    """A short name for a place."""
    return hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:12]


def _elsewhere(data_set: DataSet, folder: Path) -> Path:
    return user_folder() / f"{mark(folder)}-{data_set.name}"
