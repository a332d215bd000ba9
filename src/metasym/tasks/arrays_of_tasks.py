"""Tasks that a program holds in memory, as arrays or tensors, checked as those of a file are."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from metasym.storage.system import available_memory
from metasym.tasks.grouping import Grouped, checked_file, group_rows
from metasym.tasks.plain_facts import Array
from metasym.tasks.task_file import LEAST_TASKS, TOO_SHORT, Reading, TaskFile
from metasym.types import MetasymError

NAME = Path("arrays")
"""What errors and a run's config call arrays, which have no path."""


def tasks_of_arrays(x: Any, y: Any, reading: Reading, blocks: Any = None) -> TaskFile:
    """The tasks ``x [tasks, examples, ...]``, ``y [tasks, examples, ...]``; they are copied into plain arrays.

    ``blocks [tasks]``, names or numbers, says which tasks belong together.
    """
    for flag in ("task", "inputs", "outputs", "blocks"):
        if getattr(reading, flag) is not None:
            raise MetasymError(
                f"expected {flag}= only with a frame or the path of a table, found it with arrays",
                about=flag,
                found="arrays",
            )
    inputs, targets = _array("x", x), _array("y", y)
    for name, value, least in (("x", inputs, 2 if reading.scalar_x else 3), ("y", targets, 2)):
        if value.ndim < least:
            more = (
                "; an example that is one number needs scalar_x=True"
                if name == "x" and value.ndim == 2
                else ""
            )
            raise MetasymError(
                f"expected {name} [tasks, examples, ...], found {list(value.shape)}{more}",
                about=name,
                found=tuple(value.shape),
            )
    if inputs.shape[:2] != targets.shape[:2]:
        raise MetasymError(
            f"expected as many tasks and examples in y as in x, found {list(targets.shape[:2])} and "
            f"{list(inputs.shape[:2])}",
            about="x, y",
            found=(tuple(inputs.shape), tuple(targets.shape)),
        )
    tasks, examples = inputs.shape[:2]
    if tasks < LEAST_TASKS or examples < TOO_SHORT:
        raise MetasymError(
            f"expected at least {LEAST_TASKS} tasks of {TOO_SHORT} examples, found {tasks} of {examples}",
            about="x",
            found=(tasks, examples),
        )
    labels = targets.dtype.kind != "f" if reading.labels is None else reading.labels
    crc = (zlib.crc32(inputs.data), zlib.crc32(targets.data))
    counts = np.full(tasks, examples, dtype=np.int64)
    grouped = Grouped(inputs, targets, counts, blocks=_blocks(blocks), crc=crc)
    return checked_file(NAME, grouped, reading, labels=labels, stored={})


def tasks_of_rows(
    task: Array, x: Array, y: Array, *, labels: bool, names: Mapping[str, tuple[str, ...]]
) -> TaskFile:
    """The tasks of rows ``x [rows, ...]`` and ``y [rows, ...]``, each of the task that ``task [rows]`` says."""
    grouped = group_rows(str(NAME), "task", task, x, y, available_memory())
    return checked_file(NAME, grouped, Reading(), labels=labels, stored=names)


def _blocks(blocks: Any) -> tuple[str, ...]:
    if blocks is None:
        return ()
    found = blocks.detach().cpu().numpy() if isinstance(blocks, Tensor) else np.asarray(blocks)
    if found.ndim != 1 or found.dtype.kind not in "iubUSO":
        raise MetasymError(
            f"expected blocks to be a list of names or whole numbers, one for each task, found {found.dtype} "
            f"{list(found.shape)}",
            about="blocks",
            found=found.shape,
        )
    return tuple(str(one) for one in found.tolist())


def _array(name: str, value: Any) -> Array:
    try:
        found = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    except (TypeError, ValueError) as error:
        raise MetasymError(
            f"expected {name} to be numbers, found {type(value).__name__}: {error}",
            about=name,
            found=type(value).__name__,
        ) from None
    if found.dtype.kind not in "fiub":
        raise MetasymError(
            f"expected {name} to be numbers, found {found.dtype} of {type(value).__name__}",
            about=name,
            found=str(found.dtype),
        )
    kept = found.astype(np.int64) if found.dtype.kind in "ub" else found
    return np.ascontiguousarray(kept)
