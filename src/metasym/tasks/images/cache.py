"""Converted images in one file: written whole or not at all, checked when opened, memory-mapped.

The file holds the pixels of all classes, one class after the other (uint8, from offset 0, so that they can be
mapped), then a JSON index with a checksum for each class, then the checksum of the index. Processes that convert
at the same time take turns.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

from metasym.storage.atomic import refuse_other
from metasym.storage.locks import locked, remove_abandoned, temporary
from metasym.storage.plain_files import open_plain
from metasym.storage.system import replace_open, sync_folder
from metasym.tasks.images.classes import ImageClasses, Images
from metasym.types import MetasymError

SUFFIX = ".images"
VARIABLE = "METASYM_DATA"
_MAGIC = b"metasym images 1"
_LENGTH, _DIGEST = 8, 32
_TAIL = _DIGEST + _LENGTH + len(_MAGIC)
_LONGEST_INDEX = 1 << 28


@dataclass(frozen=True)
class Converted:
    """One class as a source gives it."""

    name: str
    split: str
    """``train``, ``val`` or ``test`` where the data set fixes it, else empty."""
    images: Images
    """``[images, C, H, W]``, uint8."""


@dataclass(frozen=True)
class Entry:
    """What the index says about a class."""

    name: str
    split: str
    count: int
    sha256: str


@dataclass(frozen=True)
class Index:
    """What a file of converted images holds."""

    shape: tuple[int, int, int]
    entries: tuple[Entry, ...]
    source: str
    """What the images were converted from, in words."""
    origin: tuple[str, ...] = ()
    """The paths where the source was found, for converting again."""

    @property
    def images(self) -> int:
        """The number of images."""
        return sum(entry.count for entry in self.entries)


def user_folder() -> Path:
    """The user's cache folder for metasym; this does not create it."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "metasym"
    try:
        return Path.home() / ".cache" / "metasym"
    except RuntimeError:  # neither HOME nor an entry in the list of users
        raise MetasymError(
            f"expected a home folder for the data, found none; choose a folder with --data DIR or {VARIABLE}",
            about="home folder",
        ) from None


def expanded(path: str | os.PathLike[str]) -> Path:
    """``path``, with the home folder in place of a leading ``~``."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise MetasymError(
            f"{os.fspath(path)}: expected a path in a home folder, found no such home; write the path out",
            about=os.fspath(path),
        ) from None


def make_folder(folder: Path, purpose: str) -> None:
    """Make ``folder`` unless it is there; an error says what it was meant for."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unusable(folder, purpose, error) from None


def unusable(folder: Path, purpose: str, error: OSError) -> MetasymError:
    """The error for a folder that cannot be made or written to."""
    found = "a file" if isinstance(error, FileExistsError) else error.strerror or error
    return MetasymError(
        f"{folder}: expected a folder {purpose}, found {found}; choose another with --data DIR or {VARIABLE}",
        about=str(folder),
        found=found,
    )


def data_folder(data: str | os.PathLike[str] | None) -> Path:
    """Where data sets and their conversions are: ``data``, else ``METASYM_DATA``, else the user's cache folder."""
    chosen = os.fspath(data) if data is not None else os.environ.get(VARIABLE)
    return expanded(chosen) if chosen else user_folder()


def open_images(path: Path, split: str | None = None) -> ImageClasses:
    """The classes of a file of :func:`write`, those of ``split`` only if one is given; their pixels are checked."""
    index = read_index(path)
    mapped: Images = np.memmap(path, dtype=np.uint8, mode="r", shape=(index.images, *index.shape))
    first = np.cumsum([0, *(entry.count for entry in index.entries)])
    chosen = [i for i, entry in enumerate(index.entries) if split is None or entry.split == split]
    for i in chosen:
        entry = index.entries[i]
        stretch = mapped[first[i] : first[i + 1]]
        if hashlib.sha256(stretch.data).hexdigest() != entry.sha256:
            raise MetasymError(
                f"{path}: expected the images of class {entry.name} as they were converted, found others; "
                "the file is damaged: delete it and convert again",
                about=f"{path}: {entry.name}",
                found="other images",
            )
    return ImageClasses(
        mapped,
        torch.from_numpy(first[chosen]),
        torch.tensor([index.entries[i].count for i in chosen]),
        [index.entries[i].name for i in chosen],
    )


def read_index(path: Path) -> Index:
    """The index of a file of converted images, checked; the pixels are not read."""
    try:
        with open_plain(path) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            tail = file.read(_TAIL)
            length = int.from_bytes(tail[_DIGEST : _DIGEST + _LENGTH], "little")
            if len(tail) < _TAIL or not tail.endswith(_MAGIC) or length > min(size - _TAIL, _LONGEST_INDEX):
                raise _damaged(path)
            file.seek(size - _TAIL - length)
            text = file.read(length)
    except OSError as error:
        raise MetasymError(
            f"{path}: expected converted images, found {error.strerror}",
            about=str(path),
            found=error.strerror,
        ) from None
    if hashlib.sha256(text).digest() != tail[:_DIGEST]:
        raise _damaged(path)
    try:
        found = json.loads(text)
        entries = tuple(Entry(**entry) for entry in found["classes"])
        origin = tuple(str(path) for path in found.get("origin", [found["source"]]))
        index = Index(tuple(found["shape"]), entries, found["source"], origin)
        whole = index.images * math.prod(index.shape) == size - _TAIL - length
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(path) from None
    if not whole:
        raise _damaged(path)
    return index


def _damaged(path: Path) -> MetasymError:
    return MetasymError(
        f"{path}: expected converted images, found a truncated or damaged file; delete it and convert again",
        about=str(path),
        found="a damaged file",
    )


def convert(
    path: Path,
    source: str,
    classes: Callable[[], Iterable[Converted]],
    *,
    origin: tuple[str, ...] = (),
    again: bool = False,
    exactly: bool = False,
) -> tuple[Index, bool]:
    """Make the file ``path`` from ``classes()`` unless a sound one is there; ``again`` makes it anyway.

    With ``exactly``, only a file that was made from ``source`` will do. Returns what the file holds, and whether it
    was made now. A second process waits for the first, then finds its file. Whatever stops this process, SIGKILL
    included, either the file that was there stays or there is none. The next conversion removes whatever killed
    conversions have left in this folder.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path):
            if not again:
                with contextlib.suppress(MetasymError):
                    there = read_index(path)
                    if there.source == source or not exactly:
                        return there, False
            refuse_other(path, "converted images, or nothing yet")
            remove_abandoned(path.parent, SUFFIX)
            return _write(path, source, origin, classes()), True
    except OSError as error:
        raise unusable(path.parent, "to write converted images to", error) from None


def _write(path: Path, source: str, origin: tuple[str, ...], classes: Iterable[Converted]) -> Index:
    with temporary(path) as (file, name):
        index = _write_classes(file, source, origin, classes)
        file.flush()
        os.fsync(file.fileno())
        replace_open(file, name, path)
    sync_folder(path.parent)
    return index


def _write_classes(
    file: BinaryIO, source: str, origin: tuple[str, ...], classes: Iterable[Converted]
) -> Index:
    shape: tuple[int, ...] | None = None
    entries = []
    for found in classes:
        shape = shape or found.images.shape[1:]
        if found.images.dtype != np.uint8 or found.images.shape[1:] != shape or len(found.images) == 0:
            raise MetasymError(
                f"class {found.name}: expected uint8 images of shape {shape}, "
                f"found {found.images.dtype} {found.images.shape}",
                about=f"class {found.name}",
                found=(str(found.images.dtype), tuple(found.images.shape)),
            )
        pixels = np.ascontiguousarray(found.images)
        file.write(pixels.data)
        entries.append(Entry(found.name, found.split, len(pixels), hashlib.sha256(pixels.data).hexdigest()))
    if shape is None:
        raise MetasymError(
            f"{source}: expected at least one class of images, found none", about=str(source), found=0
        )
    channels, height, width = shape
    index = Index((channels, height, width), tuple(entries), source, origin)
    body: dict[str, Any] = {
        "shape": index.shape,
        "source": source,
        "origin": origin,
        "classes": [vars(entry) for entry in entries],
    }
    text = json.dumps(body).encode()
    file.write(text + hashlib.sha256(text).digest() + len(text).to_bytes(_LENGTH, "little") + _MAGIC)
    return index
