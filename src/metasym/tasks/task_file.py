"""A user's own tasks as they were read: padded arrays, how many examples each task has, what things are called."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from metasym.errors import asked, option_name
from metasym.storage.options import changed, option
from metasym.tasks.plain_facts import LEAST_SIZE, Array, stamp_of
from metasym.types import MetasymError

if TYPE_CHECKING:
    from metasym.tasks.streamed import Streamed

_CHUNK = 2**26
"""Bytes that are examined at once."""
LEAST_TASKS = 4
TOO_SHORT = 2
"""Examples that a task needs: one to adapt to and one to be scored on."""


@dataclass(frozen=True)
class Reading:
    """What a user says about a file; what is left open is taken from the file itself."""

    task: str | None = option(None, "table: the column that says which task a row belongs to")
    inputs: str | None = option(
        None, "table: the columns of x, as a,b,c; patterns such as 'torque_*' stand for several"
    )
    outputs: str | None = option(None, "table: the columns of y, in the same way")
    blocks: str | None = option(
        None,
        "table: a column that says which tasks belong together (one robot, day or patient): the split keeps them "
        "together, and certificates count them as one",
    )
    labels: bool | None = option(None, "y holds labels, whatever its type (--no-labels: numbers to predict)")
    scalar_x: bool = option(
        False, "Each example is one number. Otherwise a 2-D x is rejected as a probable table of rows."
    )
    input_names: str | None = option(None, "names of the numbers of x, as a,b,c")
    output_names: str | None = option(None, "names of the numbers of y (or of the classes)")


class Columns(NamedTuple):
    """The columns of a table that tasks were read from, by name and in the order of x and y."""

    task: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class TaskFile:
    """The tasks of one file, as they are stored: ``x [tasks, most examples, ...]`` and ``y`` likewise.

    Task ``t`` has ``counts[t]`` examples, which come first; the rows after them are padding and hold zeros.
    """

    path: Path
    x: Array
    y: Array
    counts: npt.NDArray[np.int64]
    """``[tasks]``: how many examples each task has."""
    classes: int
    """How many labels ``y`` holds; 0 for regression."""
    mapped: bool
    """Whether the arrays stay in the file and are read as they are needed."""
    x_rms: float
    """The root mean square of all entries of x."""
    y_rms: float
    """The root mean square of all entries of y; without meaning for labels."""
    x_crc: int
    """A checksum of x, which identifies the data."""
    y_crc: int
    input_names: tuple[str, ...] = ()
    """What the numbers of x are called, in the order of their entries; empty where no names were given."""
    output_names: tuple[str, ...] = ()
    """The same for the numbers of y, or for the classes."""
    columns: Columns | None = None
    """Where the tasks come from a table: what its columns are called, whatever the user calls the numbers."""
    task_names: tuple[str, ...] = ()
    """What the tasks are called in a table; empty where they only have numbers."""
    blocks: tuple[str, ...] = ()
    """``[tasks]``: the block that each task belongs to; empty where all tasks are independent."""
    dropped: int = 0
    """Tasks that were left out because they have fewer than two examples."""
    reading: Reading = field(default_factory=Reading)
    stamps: Mapping[Path, tuple[int, int]] = field(default_factory=dict)
    """When each file that stays on the disk was last changed, and its size, as it was opened."""
    streamed: Streamed | None = None
    """Where there are more rows than are kept: what is known of all of them; the arrays hold a sample."""

    def check_unchanged(self) -> None:
        """Refuse a result of files on the disk that changed since they were opened and checked."""
        for path, stamp in self.stamps.items():
            try:
                now = stamp_of(path)
            except OSError:
                now = None
            if now != stamp:
                raise MetasymError(
                    f"{path}: expected a file that does not change during learning, found it changed or removed: "
                    "start again another folder",
                    about=str(path),
                    found="changed",
                )

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return int(self.x.shape[0])

    @property
    def ragged(self) -> bool:
        """Whether tasks have different numbers of examples."""
        return bool((self.counts != self.counts[0]).any())

    @property
    def examples(self) -> int:
        """The number of examples of each task; where tasks differ, three quarters of them have at least this many."""
        return int(np.quantile(self.counts, 0.25, method="lower"))

    def name_of_task(self, index: int) -> str:
        """``task 3``, or what the table calls it."""
        return f"task {self.task_names[index]!r}" if self.task_names else f"task {index}"

    def task(self, index: int) -> tuple[Array, Array]:
        """``x [examples, ...]`` and ``y [examples, ...]`` of one task, without padding."""
        count = int(self.counts[index])
        return np.asarray(self.x[index, :count]), np.asarray(self.y[index, :count])

    def describe(self) -> dict[str, Any]:
        """Plain types, for ``config.json``: enough to recognise the same data, and to read them again."""
        found: dict[str, Any] = {
            "path": str(self.path.resolve()),
            "x": {"shape": list(self.x.shape), "dtype": str(self.x.dtype), "crc32": self.x_crc},
            "y": {"shape": list(self.y.shape), "dtype": str(self.y.dtype), "crc32": self.y_crc},
            "classes": self.classes,
        }
        if self.ragged:
            crc = zlib.crc32(self.counts.tobytes())
            found["counts"] = {"least": int(self.counts.min()), "most": int(self.counts.max()), "crc32": crc}
        for key, names in (("input_names", self.input_names), ("output_names", self.output_names)):
            if names:
                found[key] = list(names)
        if self.columns is not None:
            task, inputs, outputs = self.columns
            found["columns"] = {"task": task, "inputs": list(inputs), "outputs": list(outputs)}
        if self.blocks:
            found["blocks"] = zlib.crc32("\0".join(self.blocks).encode())
        if self.streamed is not None:
            found["rows"] = self.streamed.rows
        if changed(self.reading):
            found["reading"] = changed(self.reading)
        return found


def parts(array: Array) -> Iterator[tuple[int, Array]]:
    """The tasks in parts of some 64 MB, each with the number of its first task."""
    step = max(1, _CHUNK * len(array) // max(1, array.nbytes))
    for first in range(0, len(array), step):
        yield first, np.asarray(array[first : first + step])


def present(counts: npt.NDArray[np.int64], first: int, part: Array) -> npt.NDArray[np.bool_]:
    """``[tasks, most examples]`` of a part that starts at task ``first``: which rows are not padding."""
    rows: npt.NDArray[np.bool_] = np.arange(part.shape[1]) < counts[first : first + len(part), None]
    return rows


def root_mean_square(where: str, name: str, array: Array, counts: npt.NDArray[np.int64]) -> float:
    """Over all entries except padding; refuses NaN and infinity, naming the first task and example that has one."""
    total, entries = 0.0, 0
    largest: npt.NDArray[np.float64] = np.zeros(1)
    for first, part in parts(array):
        there = present(counts, first, part)
        if part.dtype.kind == "f":
            bad = ~np.isfinite(part).reshape(*part.shape[:2], -1).all(2) & there
            if bad.any():
                task, example = (int(i) for i in np.argwhere(bad)[0][:2])
                count = sum(int((~np.isfinite(p[present(counts, f, p)])).sum()) for f, p in parts(array))
                raise MetasymError(
                    f"{where}: expected finite numbers, found {count} NaN or infinite in {name}, the first in task "
                    f"{first + task}, example {example}",
                    about=f"{where}: {name}",
                    found=(int(count), (first + task, example)),
                )
            largest = np.maximum(largest, largest_of_columns(part))
        values = part if there.all() else part[there]
        entries += values.size
        with np.errstate(over="ignore"):
            total += float(np.square(values, dtype=np.float64).sum())
    found = math.sqrt(total / entries)
    if not math.isfinite(found):
        raise MetasymError(
            f"{where}: expected numbers whose squares are finite, found larger ones in {name}",
            about=f"{where}: {name}",
            found="numbers whose squares are infinite",
        )
    check_not_tiny(where, name, largest)
    return found


def largest_of_columns(values: Array) -> npt.NDArray[np.float64]:
    """``[entries]``: the largest size of each number of an example; ``values [..., entries]`` flattened."""
    flat = values.reshape(-1, math.prod(values.shape[2:]) if values.ndim > 2 else 1)
    found: npt.NDArray[np.float64] = np.maximum(flat.max(0), -flat.min(0)).astype(np.float64)
    return found


def check_not_tiny(where: str, name: str, largest: npt.NDArray[np.float64]) -> None:
    """Refuse numbers so small that their squares are 0: they would be treated as constants."""
    tiny = np.flatnonzero((largest > 0) & (largest < LEAST_SIZE))
    if len(tiny):
        raise MetasymError(
            f"{where}: expected numbers whose squares differ from 0, found none above {largest[tiny[0]]:g} in number "
            f"{tiny[0]} of {name}: give it in smaller units",
            about=f"{where}: {name}",
            found=float(largest[tiny[0]]),
        )


def check_varies(where: str, y: Array, counts: npt.NDArray[np.int64]) -> None:
    """Refuse targets that are all the same: there is nothing to learn from them."""
    least, most = math.inf, -math.inf
    for first, part in parts(y):
        values = part[present(counts, first, part)]
        least, most = min(least, float(values.min())), max(most, float(values.max()))
        if least < most:
            return
    raise MetasymError(
        f"{where}: expected outputs y that differ between examples, found {least:g} everywhere: "
        "there is nothing to learn; look at how y was made",
        about=f"{where}: y",
        found=least,
    )


def check_inputs_vary(where: str, x: Array, counts: npt.NDArray[np.int64]) -> None:
    """Refuse inputs that are the same in every example: no map of them can be learned."""
    first_seen: Array | None = None
    for first, part in parts(x):
        values = part[present(counts, first, part)]
        first_seen = values[:1] if first_seen is None else first_seen
        if (values != first_seen).any():
            return
    raise MetasymError(
        f"{where}: expected inputs x that differ between examples, found the same in all: there is nothing to learn "
        "from; look at how x was made",
        about=f"{where}: x",
        found="the same in all examples",
    )


def count_classes(where: str, y: Array, counts: npt.NDArray[np.int64]) -> int:
    """The number of labels; refuses gaps, negative ones and a single one."""
    found = (np.unique(part[present(counts, first, part)]) for first, part in parts(y))
    labels = sorted({int(label) for some in found for label in some})
    if labels[0] < 0:
        raise MetasymError(
            f"{where}: expected labels y from 0 on, found {labels[0]}",
            about=f"{where}: y",
            found=int(labels[0]),
        )
    gap = next((i for i, label in enumerate(labels) if label != i), None)
    if gap is not None:
        raise MetasymError(
            f"{where}: expected labels y from 0 to {len(labels) - 1} without gaps ({len(labels)} different ones), "
            f"found no {gap} but {labels[gap]}",
            about=f"{where}: y",
            found=(int(gap), int(labels[gap])),
        )
    if len(labels) < 2:
        raise MetasymError(
            f"{where}: expected at least two different labels y, found {labels[0]} only",
            about=f"{where}: labels",
            found=int(labels[0]),
        )
    return len(labels)


def names_of(
    where: str, option: str, given: str | None, stored: tuple[str, ...], count: int
) -> tuple[str, ...]:
    """The names that a user gives, or those in the file: all different, one for each number."""
    names = stored if given is None else tuple(name.strip() for name in given.split(","))
    if not names:
        return ()
    what = f"{where}: expected {option}" if given is None else f"expected {asked(option)}"
    about = f"{where}: {option if given is None else option_name(option)}"
    if len(names) != count:
        raise MetasymError(
            f"{what} to give {count} names, one for each, found {len(names)}", about=about, found=len(names)
        )
    for name, times in Counter(names).items():
        if not name:
            raise MetasymError(
                f"{what} to give names that are not empty, found an empty one", about=about, found=""
            )
        if times > 1:
            raise MetasymError(
                f"{what} to give each name once, found {name!r} twice", about=about, found=name
            )
    return names
