"""What a linear layer needs to know of any number of rows: a triangular factor for each task.

The rows ``[1 x y]`` of a task enter through the R of their QR decomposition, which more rows update. Its size is that
of one example squared, however many rows there are. Not through sums of squares: without noise the interesting
numbers are 1e-14 of the squares that would be subtracted from each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_PADDED = 2**20
"""Numbers of tasks that are padded at once."""


@dataclass(frozen=True, eq=False)
class RowBlock:
    """Some rows, those of a task below each other in the order in which they were read."""

    task: Ints
    """``[rows]``, sorted."""
    rows: Floats
    """``[rows, numbers]``: x and, behind it, y."""

    def segments(self) -> tuple[Ints, Ints, Ints]:
        """The tasks, the first row of each, and how many it has."""
        return np.unique(self.task, return_index=True, return_counts=True)


def padded(block: RowBlock) -> Iterator[tuple[Ints, Floats, npt.NDArray[np.bool_]]]:
    """Tasks with about equally many rows together: ``[k]``, ``[k, most, numbers]``, and which rows are there."""
    tasks, first, count = block.segments()
    kinds = np.ceil(np.log2(count)).astype(np.int64)
    for kind in np.unique(kinds).tolist():
        same = np.flatnonzero(kinds == kind)
        step = max(1, _PADDED // (int(count[same].max()) * block.rows.shape[1]))
        for start in range(0, len(same), step):
            chosen = same[start : start + step]
            most = int(count[chosen].max())
            there = np.arange(most) < count[chosen, None]
            places = np.minimum(first[chosen, None] + np.arange(most), len(block.rows) - 1)
            values = block.rows[places]
            values *= there[..., None]
            yield tasks[chosen], values, there


class RowFactors:
    """The factors of all tasks, as far as rows have been added."""

    def __init__(self, tasks: int, numbers: int) -> None:
        self.values = torch.zeros(tasks, numbers + 1, numbers + 1, dtype=torch.float64)
        """``[tasks, 1 + numbers, 1 + numbers]``, upper triangular."""
        self.counts = np.zeros(tasks, dtype=np.int64)

    def add(self, block: RowBlock) -> None:
        """Take some rows in."""
        for tasks, values, there in padded(block):
            ids = torch.from_numpy(tasks)
            rows = torch.from_numpy(np.concatenate([there[..., None].astype(np.float64), values], axis=2))
            self._join(ids, rows)
            self.counts[tasks] += there.sum(1)

    def merge(self, other: Tensor) -> None:
        """Take in the factors of other rows of all tasks."""
        self._join(torch.arange(len(other)), other)

    def _join(self, ids: Tensor, rows: Tensor) -> None:
        self.values[ids] = torch.linalg.qr(torch.cat([self.values[ids], rows], 1), mode="r").R
