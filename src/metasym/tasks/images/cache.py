"""Converted images in one file: written whole or not at all, checked when opened, memory-mapped.

The file holds the pixels of all classes, one class after the other (uint8, from offset 0, so that they can be
mapped), then a JSON index with a checksum for each class, then the checksum of the index. Processes that convert
at the same time take turns by a lock of the operating system's, which ends with the process that holds it.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch

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
    """What the images were converted from."""

    @property
    def images(self) -> int:
        """The number of images."""
        return sum(entry.count for entry in self.entries)


def user_folder() -> Path:
    """The user's cache folder for metasym; not made here."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "metasym"


def data_folder(data: str | os.PathLike[str] | None) -> Path:
    """Where data sets and their conversions are: ``data``, else ``METASYM_DATA``, else the user's cache folder."""
    chosen = os.fspath(data) if data is not None else os.environ.get(VARIABLE)
    return Path(chosen).expanduser() if chosen else user_folder()


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
                "the file is damaged: delete it and convert again"
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
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            tail = file.read(_TAIL)
            length = int.from_bytes(tail[_DIGEST : _DIGEST + _LENGTH], "little")
            if len(tail) < _TAIL or not tail.endswith(_MAGIC) or length > min(size - _TAIL, _LONGEST_INDEX):
                raise _damaged(path)
            file.seek(size - _TAIL - length)
            text = file.read(length)
    except OSError as error:
        raise MetasymError(f"{path}: expected converted images, found {error.strerror}") from None
    if hashlib.sha256(text).digest() != tail[:_DIGEST]:
        raise _damaged(path)
    try:
        found = json.loads(text)
        entries = tuple(Entry(**entry) for entry in found["classes"])
        index = Index(tuple(found["shape"]), entries, found["source"])
        whole = index.images * math.prod(index.shape) == size - _TAIL - length
    except (ValueError, KeyError, TypeError, RecursionError):
        raise _damaged(path) from None
    if not whole:
        raise _damaged(path)
    return index


def _damaged(path: Path) -> MetasymError:
    return MetasymError(
        f"{path}: expected converted images, found a truncated or damaged file; delete it and convert again"
    )


def convert(
    path: Path, source: str, classes: Callable[[], Iterable[Converted]], *, again: bool = False
) -> Index:
    """Make the file ``path`` from ``classes()`` unless a sound one is there; ``again`` makes it anyway.

    A second process waits for the first, then finds its file. Whatever stops this one, SIGKILL included, leaves
    the file that was there or none; what is left of a killed conversion is removed by the next.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path) as alone:
            if not again:
                with contextlib.suppress(MetasymError):
                    return read_index(path)
            if alone:
                for left in path.parent.glob(f"{path.name}.*.tmp"):
                    left.unlink(missing_ok=True)
            return _write(path, source, classes())
    except OSError as error:
        raise MetasymError(
            f"{path.parent}: expected a folder to write converted images to, found {error.strerror or error}; "
            f"choose another with --data DIR or {VARIABLE}"
        ) from None


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold the lock for ``path``; yields whether there is one (some network file systems have none)."""
    with path.with_name(path.name + ".lock").open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            alone = True
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            alone = False
        yield alone


def _write(path: Path, source: str, classes: Iterable[Converted]) -> Index:
    handle, name = tempfile.mkstemp(prefix=f"{path.name}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            index = _write_classes(file, source, classes)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return index


def _write_classes(file: BinaryIO, source: str, classes: Iterable[Converted]) -> Index:
    shape: tuple[int, ...] | None = None
    entries = []
    for found in classes:
        shape = shape or found.images.shape[1:]
        if found.images.dtype != np.uint8 or found.images.shape[1:] != shape or len(found.images) == 0:
            raise MetasymError(
                f"class {found.name}: expected uint8 images of shape {shape}, "
                f"found {found.images.dtype} {found.images.shape}"
            )
        pixels = np.ascontiguousarray(found.images)
        file.write(pixels.data)
        entries.append(Entry(found.name, found.split, len(pixels), hashlib.sha256(pixels.data).hexdigest()))
    if shape is None:
        raise MetasymError(f"{source}: expected at least one class of images, found none")
    channels, height, width = shape
    index = Index((channels, height, width), tuple(entries), source)
    body: dict[str, Any] = {
        "shape": index.shape,
        "source": source,
        "classes": [vars(entry) for entry in entries],
    }
    text = json.dumps(body).encode()
    file.write(text + hashlib.sha256(text).digest() + len(text).to_bytes(_LENGTH, "little") + _MAGIC)
    return index
