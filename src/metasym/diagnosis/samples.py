"""As many of a file's examples as it takes to know their statistics, in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from metasym.diagnosis.findings import NOTE, Finding
from metasym.tasks.task_file import TaskFile

if TYPE_CHECKING:
    from metasym.tasks.streamed import Streamed

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_ENTRIES = 3_000_000
"""Numbers of x and y that are examined; of larger files every n-th task."""
_LEAST = 50
"""Tasks that are examined however large they are."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Examples of some tasks, each flattened: ``x [tasks, most, inputs]``, ``y [tasks, most, outputs]``.

    ``there [tasks, most]`` says which rows are no padding; the others hold zeros.
    """

    x: Floats
    y: Floats
    there: npt.NDArray[np.bool_]
    ids: Ints
    """Which tasks of the file these are."""

    @property
    def counts(self) -> Ints:
        """``[tasks]``: the examples of each."""
        found: Ints = self.there.sum(1)
        return found

    def rows(self, of: str) -> Floats:
        """All examples below each other, ``[rows, numbers]`` of ``"x"`` or ``"y"``."""
        found: Floats = (self.x if of == "x" else self.y)[self.there]
        return found

    def within(self, of: str) -> Floats:
        """``[tasks, most, numbers]``: the deviations from each task's own mean."""
        values = self.x if of == "x" else self.y
        mean = values.sum(1, keepdims=True) / self.counts[:, None, None]
        found: Floats = (values - mean) * self.there[..., None]
        return found


def take(file: TaskFile) -> Samples:
    """Samples of the file's tasks, evenly from its beginning to its end; labels give a y of zeros.

    Of a file that keeps some rows of each task: the tasks that it keeps in order.
    """
    if file.streamed is not None:
        return _in_order(file.streamed)
    each = int(file.counts.max()) * (math.prod(file.x.shape[2:]) + math.prod(file.y.shape[2:]))
    count = min(file.tasks, max(_LEAST, _ENTRIES // max(1, each)))
    ids = np.unique(np.linspace(0, file.tasks - 1, count).round().astype(np.int64))
    most = int(file.counts[ids].max())
    there = np.arange(most) < file.counts[ids, None]
    flat = (len(ids), most, -1)
    x = np.asarray(file.x[ids, :most]).reshape(flat).astype(np.float64)
    y = np.asarray(file.y[ids, :most]).reshape(flat).astype(np.float64)
    return Samples(x, np.zeros_like(y) if file.classes else y, there, ids)


def sampled_rows(file: TaskFile) -> list[Finding]:
    """A word where only some rows are held: what rests on all of them, and what on a sample."""
    streamed = file.streamed
    if streamed is None:
        return []
    assert streamed.some_ids is not None
    each, some = int(file.counts.max()), len(streamed.some_ids)
    sample = f"{each} rows of each task (seed 0)"
    whole = (
        "the directions of a linear layer and its certificates rest on all of them"
        if streamed.factors is not None
        else "all is learned from a sample of them"
    )
    return [
        Finding(
            "sampled_rows",
            NOTE,
            f"There are {streamed.rows:,} rows, more than are held: {whole}; scores and the baseline rest "
            f"on {sample}, findings about columns on {some} tasks",
            {"rows": streamed.rows, "rows_of_each_task": each, "tasks_looked_at": some, "seed": 0},
        )
    ]


def _in_order(streamed: Streamed) -> Samples:
    found = streamed.some_x, streamed.some_y, streamed.some_counts, streamed.some_ids
    x, y, counts, ids = found
    assert x is not None
    assert y is not None
    assert counts is not None
    assert ids is not None
    return Samples(x, y, np.arange(x.shape[1]) < counts[:, None], ids)
