"""The least that any network has to beat: always predicting the mean of the outputs seen in training."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from metasym.tasks.stored import StoredTasks

_TASKS = 256


def predicting_the_mean(train: StoredTasks, test: StoredTasks) -> float:
    """The squared error, in the network's units, of the training tasks' mean output on the test tasks.

    The mean over tasks of each task's own mean, as scores are.
    """
    total, rows = torch.zeros(()), 0
    for y, there, _ in _targets(train):
        total, rows = total + (y * there).sum((0, 1)), rows + int(there.sum())
    mean = total / rows
    squares = [(((y - mean) ** 2) * there).sum(1).mean(1) / counts for y, there, counts in _targets(test)]
    return float(torch.cat(squares).mean())


def _targets(tasks: StoredTasks) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """``y [tasks, most, numbers]``, which rows are there ``[tasks, most, 1]``, and counts, some tasks at a time."""
    for ids in tasks.given.split(_TASKS):
        some = StoredTasks(tasks.file, ids, support=1, layout=tasks.layout).examples()
        there = torch.arange(some.y.shape[1]) < some.counts.unsqueeze(1)
        yield some.y.reshape(*some.y.shape[:2], -1), there.unsqueeze(2), some.counts
