"""Rows of many tasks sorted into one block for each task, and the checks that every file of tasks goes through."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from metasym.tasks.plain_facts import Array, size_in_words, stamp_of
from metasym.tasks.task_file import (
    LEAST_TASKS,
    TOO_SHORT,
    Columns,
    Reading,
    TaskFile,
    check_inputs_vary,
    check_varies,
    count_classes,
    names_of,
    parts,
    present,
    root_mean_square,
)
from metasym.types import MetasymError


@dataclass(frozen=True, eq=False)
class Grouped:
    """Padded arrays ``x`` and ``y`` ``[tasks, most examples, ...]`` of tasks with ``counts [tasks]`` examples."""

    x: Array
    y: Array
    counts: npt.NDArray[np.int64]
    task_names: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    """The block of each task, or nothing."""
    dropped: int = 0
    """Tasks with fewer than two examples, left out."""
    crc: tuple[int, int] = field(default=(0, 0))


def group_rows(
    where: str, column: str, task: Array, x: Array, y: Array, memory: int, blocks: Array | None = None
) -> Grouped:
    """``x [rows, ...]`` and ``y [rows, ...]`` of each task of ``task [rows]``, by first appearance.

    ``column`` is what errors call ``task``. Tasks with a single row are left out: nothing could be scored on them.
    ``blocks [rows]`` says which tasks belong together.
    """
    names, first, inverse, counts = np.unique(
        task, return_index=True, return_inverse=True, return_counts=True
    )
    kept = enough_rows(where, column, names, counts)
    order = np.argsort(first, kind="stable")
    order = order[kept[order]]
    place = np.full(len(names), -1)
    place[order] = np.arange(len(order))
    row_task = place[inverse]
    rows = np.argsort(row_task, kind="stable")[int((row_task < 0).sum()) :]
    sizes = counts[order].astype(np.int64)
    most = int(sizes.max())
    width = sum(math.prod(a.shape[1:]) * a.dtype.itemsize for a in (x, y))
    if len(order) * most * width > memory // 2:
        largest = names[order][int(sizes.argmax())]
        raise MetasymError(
            f"{where}: expected tasks that, padded to the longest, fit into half of {size_in_words(memory)} of free "
            f"memory, found {size_in_words(len(order) * most * width)}: task {str(largest)!r} has {most} rows, "
            f"the median task {int(np.median(sizes))}; keep fewer rows of the longest",
            about=f"{where}: task {str(largest)!r}",
            found=most,
        )
    mask = np.arange(most) < sizes[:, None]
    padded = []
    for values in (x, y):
        whole = np.zeros((len(order), most, *values.shape[1:]), dtype=values.dtype)
        whole[mask] = values[rows]
        padded.append(whole)
    return Grouped(
        padded[0],
        padded[1],
        sizes,
        task_names=tuple(str(name) for name in names[order]),
        blocks=() if blocks is None else _blocks_of(where, names, order, inverse, blocks),
        dropped=int((~kept).sum()),
        crc=(zlib.crc32(padded[0].data), zlib.crc32(padded[1].data)),
    )


def enough_rows(where: str, column: str, names: Array, counts: Array) -> npt.NDArray[np.bool_]:
    """``[tasks]``: which have rows for support and query; refuses too few such tasks."""
    if len(names) < LEAST_TASKS:
        found = ", ".join(repr(str(name)) for name in names)
        raise MetasymError(
            f"{where}: expected at least {LEAST_TASKS} tasks in {column} (dozens to learn a symmetry from), "
            f"found {len(names)}: {found}",
            about=f"{where}: {column}",
            found=len(names),
        )
    kept = counts >= TOO_SHORT
    if kept.sum() < LEAST_TASKS:
        raise MetasymError(
            f"{where}: expected at least {LEAST_TASKS} tasks of 2 or more rows (support and query) in {column}, "
            f"found {int(kept.sum())} such tasks among {len(names)}",
            about=f"{where}: {column}",
            found=int(kept.sum()),
        )
    enough: npt.NDArray[np.bool_] = kept
    return enough


def _blocks_of(where: str, names: Array, order: Array, inverse: Array, blocks: Array) -> tuple[str, ...]:
    """The block of each task, which all its rows have to name."""
    found = []
    rows = np.asarray(blocks)
    for index in order.tolist():
        own = np.unique(rows[inverse == index])
        if len(own) != 1:
            task = str(names[index])
            raise MetasymError(
                f"{where}: expected one block for all rows of a task, found {str(own[0])!r} and {str(own[1])!r} in "
                f"task {task!r}",
                about=f"{where}: blocks",
                found=task,
            )
        found.append(str(own[0]))
    return tuple(found)


def checked_file(
    path: Path,
    grouped: Grouped,
    reading: Reading,
    *,
    labels: bool,
    stored: Mapping[str, tuple[str, ...]],
    columns: Columns | None = None,
) -> TaskFile:
    """The file of these tasks, with finite numbers, targets that vary, labels without gaps and names that fit."""
    where, x, y, counts = str(path), grouped.x, grouped.y, grouped.counts
    classes = 0
    if labels:
        y = whole_numbers(where, y, counts)
        classes = count_classes(where, y, counts)
    else:
        y_rms = root_mean_square(where, "y", y, counts)
        check_varies(where, y, counts)
        check_inputs_vary(where, x, counts)
    inputs, outputs = math.prod(x.shape[2:]), classes or math.prod(y.shape[2:])
    none: tuple[str, ...] = ()
    return TaskFile(
        path=path,
        x=x,
        y=y,
        counts=counts,
        classes=classes,
        mapped=isinstance(x, np.memmap),
        stamps={path: stamp_of(path)} if isinstance(x, np.memmap) else {},
        x_rms=root_mean_square(where, "x", x, counts),
        y_rms=1.0 if labels else y_rms,
        x_crc=grouped.crc[0],
        y_crc=grouped.crc[1],
        input_names=names_of(
            where, "input_names", reading.input_names, stored.get("input_names", none), inputs
        ),
        output_names=names_of(
            where, "output_names", reading.output_names, stored.get("output_names", none), outputs
        ),
        columns=columns,
        task_names=grouped.task_names,
        blocks=_checked_blocks(where, grouped),
        dropped=grouped.dropped,
        reading=reading,
    )


LEAST_BLOCKS = 3
"""Blocks of tasks that a file needs: to train, to validate and to test on."""


def _checked_blocks(where: str, grouped: Grouped) -> tuple[str, ...]:
    blocks, tasks = grouped.blocks, len(grouped.x)
    if blocks and len(blocks) != tasks:
        raise MetasymError(
            f"{where}: expected a block for each of {tasks} tasks, found {len(blocks)}",
            about=f"{where}: blocks",
            found=len(blocks),
        )
    if blocks and len(set(blocks)) < LEAST_BLOCKS:
        raise MetasymError(
            f"{where}: expected at least {LEAST_BLOCKS} blocks of tasks (to train, to validate and to test on), "
            f"found {len(set(blocks))}",
            about=f"{where}: blocks",
            found=len(set(blocks)),
        )
    return blocks


def whole_numbers(where: str, y: Array, counts: npt.NDArray[np.int64]) -> Array:
    """Labels as whole numbers ``[tasks, most examples]``, even where a file stores them as floats."""
    if y.ndim == 3 and y.shape[2] == 1:
        y = y[..., 0]
    if y.ndim != 2:
        raise MetasymError(
            f"{where}: expected labels y [tasks, examples], found {list(y.shape)}",
            about=f"{where}: y",
            found=tuple(y.shape),
        )
    if y.dtype.kind != "f":
        return y
    for first, part in parts(y):
        odd = (part != np.floor(part)) & present(counts, first, part)  # NaN is odd too
        if odd.any():
            task, example = (int(i) for i in np.argwhere(odd)[0])
            raise MetasymError(
                f"{where}: expected labels y of whole numbers, found {part[task, example]:g} in task {first + task}, "
                f"example {example}",
                about=f"{where}: y",
                found=(float(part[task, example]), first + task, example),
            )
    return y.astype(np.int64)
