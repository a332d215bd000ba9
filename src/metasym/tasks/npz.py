"""A user's own tasks from an ``.npz`` file: checked before use, read or memory-mapped, nothing unpickled."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from metasym.types import MetasymError

Array = npt.NDArray[Any]
_LOCAL_HEADER = 30
_CHUNK = 2**26
"""Bytes that are looked at in one go."""
LEAST_TASKS = 4


@dataclass(frozen=True, eq=False)
class TaskFile:
    """The tasks of one file: ``x [tasks, examples, ...]`` and ``y [tasks, examples, ...]``, as they are stored."""

    path: Path
    x: Array
    y: Array
    classes: int
    """How many labels ``y`` holds; 0 for regression."""
    mapped: bool
    """Whether the arrays stay in the file and are read as they are needed."""
    x_rms: float
    """The root mean square of all entries of x."""
    y_rms: float
    """That of y; of no meaning for labels."""
    x_crc: int
    """The file's own checksum of x: which data these are."""
    y_crc: int

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.x.shape[0])

    @property
    def examples(self) -> int:
        """The number of examples of each task."""
        return int(self.x.shape[1])

    def describe(self) -> dict[str, Any]:
        """Plain types, for ``config.json``: enough to know the same data again."""
        return {
            "path": str(self.path.resolve()),
            "x": {"shape": list(self.x.shape), "dtype": str(self.x.dtype), "crc32": self.x_crc},
            "y": {"shape": list(self.y.shape), "dtype": str(self.y.dtype), "crc32": self.y_crc},
            "classes": self.classes,
        }


@dataclass(frozen=True)
class _Member:
    """One array in the file, by its header alone."""

    name: str
    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int | None
    """Where its entries begin in the file; None where they are compressed."""
    crc: int

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_tasks(path: str | os.PathLike[str], *, memory: int | None = None) -> TaskFile:
    """The arrays ``x`` and ``y`` of the file, or one line that says what is wrong with them.

    ``x [tasks, examples, ...]`` holds numbers; ``y [tasks, examples, ...]`` floats (regression), or whole numbers
    ``[tasks, examples]`` (classification: each task's labels, from 0 without gaps). Arrays of more than half of
    ``memory`` (what is free, in bytes) stay in the file and are mapped, which needs a file that is not compressed.
    """
    file = Path(path)
    x, y = _members(file)
    _check_shapes(file, x, y)
    free = available_memory() if memory is None else memory
    mapped = x.bytes + y.bytes > free // 2
    if mapped:
        for member in (x, y):
            if member.start is None:
                raise MetasymError(
                    f"{file}: expected arrays that fit into {_size(free)} of free memory, or a file that is not "
                    f"compressed (numpy.savez), which stays on the disk; found a compressed {member.name} of "
                    f"{_size(member.bytes)}"
                )
    arrays = [_map(file, member) if mapped else _read(file, member) for member in (x, y)]
    classes = 0 if y.dtype.kind == "f" else _classes(file, arrays[1])
    return TaskFile(
        path=file,
        x=arrays[0],
        y=arrays[1],
        classes=classes,
        mapped=mapped,
        x_rms=_root_mean_square(file, "x", arrays[0]),
        y_rms=1.0 if classes else _root_mean_square(file, "y", arrays[1]),
        x_crc=x.crc,
        y_crc=y.crc,
    )


def available_memory() -> int:
    """Bytes of memory that are free for new data."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2


def _members(file: Path) -> tuple[_Member, _Member]:
    want = f"{file}: expected an .npz file with arrays x and y"
    if file.is_dir():
        raise MetasymError(f"{want}, found a folder")
    try:
        with file.open("rb") as stream:
            if stream.read(6) == b"\x93NUMPY":
                raise MetasymError(f"{want} (numpy.savez), found a single array (numpy.save)")
            if not zipfile.is_zipfile(stream):
                raise MetasymError(f"{want}, found a file that is none, or a truncated one")
            with zipfile.ZipFile(stream) as archive:
                found = sorted(n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy"))
                missing = [name for name in ("x", "y") if name not in found]
                if missing:
                    there = ", ".join(found) or "no arrays"
                    raise MetasymError(f"{want}, found no {' and no '.join(missing)} among: {there}")
                return _member(file, stream, archive, "x"), _member(file, stream, archive, "y")
    except OSError as error:
        raise MetasymError(f"{want}, found {error.strerror or error}") from None
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError) as error:
        raise MetasymError(f"{want}, found a damaged file: {error}") from None


def _member(file: Path, stream: IO[bytes], archive: zipfile.ZipFile, name: str) -> _Member:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as entry:
        try:
            form: Any = np.lib.format
            version = form.read_magic(entry)
            read = form.read_array_header_1_0 if version[0] == 1 else form.read_array_header_2_0
            shape, fortran, dtype = read(entry)
        except (ValueError, SyntaxError) as error:
            raise MetasymError(f"{file}: expected an array {name}, found a damaged one: {error}") from None
        header = entry.tell()
    if dtype.hasobject:
        raise MetasymError(
            f"{file}: expected {name} to be an array of numbers, found one of Python objects, which would have to be "
            "unpickled: tasks of different sizes have to be cut or padded to one"
        )
    if dtype.kind not in "fiub":
        raise MetasymError(f"{file}: expected {name} to be an array of real numbers, found {dtype}")
    start = None
    if info.compress_type == zipfile.ZIP_STORED:
        stream.seek(info.header_offset)
        local = stream.read(_LOCAL_HEADER)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        start = info.header_offset + _LOCAL_HEADER + names + header
    member = _Member(name, tuple(int(size) for size in shape), fortran, dtype, start, info.CRC)
    if info.file_size != header + member.bytes:
        raise MetasymError(
            f"{file}: expected {member.bytes:,} bytes of {name} {list(shape)}, found {info.file_size - header:,}"
        )
    return member


def _check_shapes(file: Path, x: _Member, y: _Member) -> None:
    shapes = f"x {list(x.shape)} and y {list(y.shape)}"
    if len(x.shape) < 2 or len(y.shape) < 2 or x.shape[:2] != y.shape[:2]:
        raise MetasymError(
            f"{file}: expected x and y with the same [tasks, examples, ...] in front, found {shapes}"
        )
    if 0 in x.shape[2:] or 0 in y.shape[2:]:
        raise MetasymError(f"{file}: expected x and y of at least one number an example, found {shapes}")
    if x.shape[0] < LEAST_TASKS:
        raise MetasymError(
            f"{file}: expected at least {LEAST_TASKS} tasks (to train, to validate and to test on; hundreds to learn "
            f"a symmetry from), found {x.shape[0]}"
        )
    if x.shape[1] < 2:
        raise MetasymError(
            f"{file}: expected at least 2 examples a task (support and query), found {x.shape[1]}"
        )
    if y.dtype.kind != "f" and len(y.shape) > 2:
        raise MetasymError(
            f"{file}: expected labels y [tasks, examples], or y of floats for regression, "
            f"found {y.dtype} {list(y.shape)}"
        )


def _read(file: Path, member: _Member) -> Array:
    try:
        with np.load(file, allow_pickle=False) as archive:
            return np.asarray(archive[member.name])
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise MetasymError(f"{file}: expected an array {member.name}, found a damaged one: {error}") from None


def _map(file: Path, member: _Member) -> Array:
    assert member.start is not None
    order: Any = "F" if member.fortran else "C"
    try:
        return np.memmap(file, member.dtype, "r", member.start, member.shape, order)
    except (OSError, ValueError) as error:
        raise MetasymError(f"{file}: expected an array {member.name}, found a damaged one: {error}") from None


def _parts(array: Array) -> Iterator[tuple[int, Array]]:
    """The tasks in parts of some 64 MB, each with the number of its first task."""
    step = max(1, _CHUNK * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), step):
        yield first, np.asarray(array[first : first + step])


def _root_mean_square(file: Path, name: str, array: Array) -> float:
    """Over all entries; refuses NaN and infinity, naming the first task and example that has one."""
    total = 0.0
    for first, part in _parts(array):
        if part.dtype.kind == "f":
            bad = ~np.isfinite(part)
            if bad.any():
                task, example = (int(i) for i in np.argwhere(bad)[0][:2])
                count = sum(int((~np.isfinite(rest)).sum()) for _, rest in _parts(array))
                raise MetasymError(
                    f"{file}: expected finite numbers, found {count} NaN or infinite in {name}, the first in task "
                    f"{first + task}, example {example}"
                )
        with np.errstate(over="ignore"):
            total += float(np.square(part, dtype=np.float64).sum())
    found = math.sqrt(total / array.size)
    if not math.isfinite(found):
        raise MetasymError(f"{file}: expected numbers whose squares are finite, found larger ones in {name}")
    return found


def _classes(file: Path, y: Array) -> int:
    """The number of labels; refuses gaps, negative ones and a single one."""
    labels = sorted({int(label) for _, part in _parts(y) for label in np.unique(part)})
    if labels[0] < 0:
        raise MetasymError(f"{file}: expected labels y from 0 on, found {labels[0]}")
    gap = next((i for i, label in enumerate(labels) if label != i), None)
    if gap is not None:
        raise MetasymError(
            f"{file}: expected labels y from 0 to {len(labels) - 1} without gaps ({len(labels)} different ones), "
            f"found no {gap} but {labels[gap]}"
        )
    if len(labels) < 2:
        raise MetasymError(f"{file}: expected at least two different labels y, found {labels[0]} only")
    return len(labels)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
