"""A user's own tasks from an ``.npz`` file: checked before use, read or memory-mapped, nothing unpickled."""

from __future__ import annotations

import lzma
import math
import struct
import tokenize
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from metasym.storage.plain_files import open_plain
from metasym.tasks.grouping import Grouped, checked_file, group_rows
from metasym.tasks.plain_facts import Array, size_in_words
from metasym.tasks.task_file import LEAST_TASKS, TOO_SHORT, Reading, TaskFile
from metasym.types import MetasymError

NAMES = ("input_names", "output_names")

DAMAGED: tuple[type[Exception], ...] = (
    *(OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, SyntaxError, OverflowError),
    *(RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    tokenize.TokenError,
)
"""What reading a damaged .npz raises: errors of the file, of zip, of its compressions and of numpy's header."""
_LOCAL_HEADER = 30


def damage(error: Exception) -> str:
    """What is wrong, from a ``DAMAGED`` error; numpy's own words advise to allow pickles, which run code."""
    if "pickle" in str(error):
        return "Python objects, which would have to be unpickled"
    return f"a damaged file: {error}"


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


def read_npz(path: Path, reading: Reading, memory: int) -> TaskFile:
    """The arrays ``x`` and ``y`` of the file, or one line that says what is wrong with them.

    ``x [tasks, examples, ...]`` holds numbers; ``y [tasks, examples, ...]`` floats (regression), or whole numbers
    ``[tasks, examples]`` (classification: each task's labels, from 0 without gaps). With an array ``task [rows]``,
    whose entries say which task a row belongs to, they are ``x [rows, ...]`` and ``y [rows, ...]``, and tasks may
    have different numbers of examples. ``input_names`` and ``output_names`` may say what the numbers are called.
    An array ``blocks``, one entry for each task (or row), says which tasks belong together.
    Arrays of more than half of ``memory`` (what is free, in bytes) stay in the file and are mapped, which needs a
    file that is not compressed.
    """
    members = _members(path)
    x, y = members["x"], members["y"]
    stored = {name: _names(path, members[name]) for name in NAMES if name in members}
    labels = y.dtype.kind != "f" if reading.labels is None else reading.labels
    needs = sum(m.bytes for m in members.values())
    blocks = _read(path, members["blocks"]) if "blocks" in members else None
    if "task" in members:
        _check_rows(path, members)
        _check_room(path, needs, memory, members)
        task = _read(path, members["task"])
        grouped = group_rows(
            str(path), "the array task", task, _read(path, x), _read(path, y), memory, blocks
        )
        return checked_file(path, grouped, reading, labels=labels, stored=stored)
    _check_shapes(path, x, y, reading, labels)
    mapped = needs > memory // 2
    if mapped:
        _check_room(path, needs, memory, members)
    arrays = [_map(path, member) if mapped else _read_or_map(path, member) for member in (x, y)]
    counts = np.full(x.shape[0], x.shape[1], dtype=np.int64)
    together = () if blocks is None else tuple(str(one) for one in blocks.tolist())
    grouped = Grouped(arrays[0], arrays[1], counts, blocks=together, crc=(x.crc, y.crc))
    return checked_file(path, grouped, reading, labels=labels, stored=stored)


def _check_room(file: Path, needs: int, memory: int, members: dict[str, _Member]) -> None:
    """Refuse what neither fits into memory nor can stay in the file."""
    flat = "task" in members
    compressed = next((m for m in members.values() if m.start is None), None)
    if needs <= memory // 2 or (compressed is None and not flat):
        return
    free = f"{file}: expected arrays that fit into half of {size_in_words(memory)} of free memory"
    if flat:
        raise MetasymError(
            f"{free}, found {size_in_words(needs)} in rows with an array task: store x and y as [tasks, "
            "examples, ...] with numpy.savez, which can stay on the disk, or fewer tasks",
            about="memory",
            found=needs,
        )
    assert compressed is not None
    raise MetasymError(
        f"{free}, or a file that is not compressed (numpy.savez), which stays on the disk; found a compressed "
        f"{compressed.name} of {size_in_words(compressed.bytes)}",
        about=f"{file}: {compressed.name}",
        found=compressed.bytes,
    )


def _members(file: Path) -> dict[str, _Member]:
    want = f"{file}: expected an .npz file with arrays x and y"
    if file.is_dir():
        raise MetasymError(f"{want}, found a folder", about=str(file), found="a folder")
    try:
        with open_plain(file) as stream:
            if stream.read(6) == b"\x93NUMPY":
                raise MetasymError(
                    f"{want} (numpy.savez), found a single array (numpy.save)",
                    about=str(file),
                    found="a single array",
                )
            if not zipfile.is_zipfile(stream):
                raise MetasymError(
                    f"{want}, found another kind of file, or a truncated one",
                    about=str(file),
                    found="another kind of file",
                )
            with zipfile.ZipFile(stream) as archive:
                found = sorted(n.removesuffix(".npy") for n in archive.namelist() if n.endswith(".npy"))
                missing = [name for name in ("x", "y") if name not in found]
                if missing:
                    there = ", ".join(found) or "no arrays"
                    raise MetasymError(
                        f"{want}, found no {' and no '.join(missing)} among: {there}",
                        about=str(file),
                        found=missing,
                    )
                known = [name for name in ("x", "y", "task", "blocks", *NAMES) if name in found]
                return {name: _member(file, stream, archive, name) for name in known}
    except OSError as error:
        raise MetasymError(
            f"{want}, found {error.strerror or error}", about=str(file), found=error.strerror or str(error)
        ) from None
    except MetasymError:
        raise
    except DAMAGED as error:
        raise MetasymError(
            f"{want}, found {damage(error)}", about=str(file), found="a damaged file"
        ) from None


def _member(file: Path, stream: IO[bytes], archive: zipfile.ZipFile, name: str) -> _Member:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as entry:
        try:
            form: Any = np.lib.format
            version = form.read_magic(entry)
            read = form.read_array_header_1_0 if version[0] == 1 else form.read_array_header_2_0
            shape, fortran, dtype = read(entry)
        except (ValueError, SyntaxError) as error:
            raise MetasymError(
                f"{file}: expected an array {name}, found a damaged one: {error}",
                about=f"{file}: {name}",
                found=str(error),
            ) from None
        header = entry.tell()
    if dtype.hasobject:
        raise MetasymError(
            f"{file}: expected {name} to be an array of numbers or text, found one of Python objects, which would "
            "have to be unpickled: tasks of different sizes are stored row by row, x [rows, ...], y [rows, ...] and "
            "task [rows]",
            about=f"{file}: {name}",
            found="Python objects",
        )
    whole = ("iuU", "whole numbers or text")
    allowed = {"task": whole, "blocks": whole, **dict.fromkeys(NAMES, ("U", "text"))}
    kinds, words = allowed.get(name, ("fiub", "real numbers"))
    if dtype.kind not in kinds:
        raise MetasymError(
            f"{file}: expected {name} to be an array of {words}, found {dtype}",
            about=f"{file}: {name}",
            found=str(dtype),
        )
    start = None
    if info.compress_type == zipfile.ZIP_STORED:
        stream.seek(info.header_offset)
        local = stream.read(_LOCAL_HEADER)
        names = int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
        start = info.header_offset + _LOCAL_HEADER + names + header
    member = _Member(name, tuple(int(size) for size in shape), fortran, dtype, start, info.CRC)
    if info.file_size != header + member.bytes:
        raise MetasymError(
            f"{file}: expected {member.bytes:,} bytes of {name} {list(shape)}, found {info.file_size - header:,}",
            about=f"{file}: {name}",
            found=info.file_size - header,
        )
    return member


def _check_shapes(file: Path, x: _Member, y: _Member, reading: Reading, labels: bool) -> None:
    shapes = f"x {list(x.shape)} and y {list(y.shape)}"
    if len(x.shape) < 2 or len(y.shape) < 2 or x.shape[:2] != y.shape[:2]:
        raise MetasymError(
            f"{file}: expected x and y with the same [tasks, examples, ...] in front, found {shapes}",
            about=f"{file}: x, y",
            found=(x.shape, y.shape),
        )
    if len(x.shape) == 2 and not reading.scalar_x:
        a, b = x.shape
        raise MetasymError(
            f"{file}: expected x [tasks, examples, features], found x {list(x.shape)}: if these are {a} tasks of {b} "
            f"examples of one number each, say so with --scalar-x; if they are {a} rows of {b} features, add an "
            "array task that says which task a row belongs to",
            about=f"{file}: x",
            found=x.shape,
        )
    if 0 in x.shape[2:] or 0 in y.shape[2:]:
        raise MetasymError(
            f"{file}: expected x and y of at least one number per example, found {shapes}",
            about=f"{file}: numbers an example",
            found=(x.shape, y.shape),
        )
    if x.shape[0] < LEAST_TASKS:
        raise MetasymError(
            f"{file}: expected at least {LEAST_TASKS} tasks (to train, to validate and to test on; dozens to learn "
            f"a symmetry from), found {x.shape[0]}",
            about=f"{file}: tasks",
            found=x.shape[0],
        )
    if x.shape[1] < TOO_SHORT:
        raise MetasymError(
            f"{file}: expected at least 2 examples per task (support and query), found {x.shape[1]}",
            about=f"{file}: examples",
            found=x.shape[1],
        )
    if labels and len(y.shape) > 2:
        raise MetasymError(
            f"{file}: expected labels y [tasks, examples], or y of floats (or --no-labels) for regression, "
            f"found {y.dtype} {list(y.shape)}",
            about=f"{file}: y",
            found=(str(y.dtype), y.shape),
        )


def _check_rows(file: Path, members: dict[str, _Member]) -> None:
    """Check the shapes of arrays that hold the rows of all tasks one below the other."""
    shapes = {name: members[name].shape for name in ("x", "y", "task", "blocks") if name in members}
    found = ", ".join(f"{name} {list(shape)}" for name, shape in shapes.items())
    rows = {shape[:1] for shape in shapes.values()}
    if () in rows or len(rows) > 1 or len(shapes["task"]) != 1 or len(shapes["x"]) < 2 or 0 in shapes["x"]:
        raise MetasymError(
            f"{file}: expected x [rows, features], y [rows, ...] and task [rows] with the same rows, found {found}",
            about=f"{file}: rows",
            found=shapes,
        )


def _names(file: Path, member: _Member) -> tuple[str, ...]:
    if len(member.shape) != 1:
        raise MetasymError(
            f"{file}: expected {member.name} to be a list of names, found {list(member.shape)}",
            about=f"{file}: {member.name}",
            found=member.shape,
        )
    return tuple(str(name) for name in _read(file, member))


def _read_or_map(file: Path, member: _Member) -> Array:
    """Read the array; map it after all where the machine gives less memory than it seemed to have."""
    try:
        return _read(file, member)
    except MemoryError:
        if member.start is not None:
            return _map(file, member)
        raise MetasymError(
            f"{file}: expected {member.name} to fit into memory, found {size_in_words(member.bytes)}, more than "
            "there is: store it with numpy.savez, not compressed, so that it can stay on the disk",
            about=f"{file}: {member.name}",
            found=member.bytes,
        ) from None


def _read(file: Path, member: _Member) -> Array:
    try:
        with open_plain(file) as stream, np.load(stream, allow_pickle=False) as archive:
            return np.asarray(archive[member.name])
    except DAMAGED as error:
        said = damage(error)
        raise MetasymError(
            f"{file}: expected an array {member.name}, found {said}",
            about=f"{file}: {member.name}",
            found=said,
        ) from None


def _map(file: Path, member: _Member) -> Array:
    assert member.start is not None
    order: Any = "F" if member.fortran else "C"
    try:
        return np.memmap(file, member.dtype, "r", member.start, member.shape, order)
    except (OSError, ValueError) as error:
        raise MetasymError(
            f"{file}: expected an array {member.name}, found a damaged one: {error}",
            about=f"{file}: {member.name}",
            found=str(error),
        ) from None
