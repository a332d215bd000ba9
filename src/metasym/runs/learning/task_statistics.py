"""The statistics of a file's tasks: of the examples that it holds, or of all the rows that went by."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from metasym.certification import judge
from metasym.certification.all_tasks import AllTasks
from metasym.certification.own_weights import OwnWeights, own_weights, own_weights_of_rows
from metasym.diagnosis.repeated_tasks import dependent_blocks
from metasym.evidence import TaskStatistics
from metasym.tasks.stored import StoredTasks
from metasym.tasks.task_file import TaskFile

if TYPE_CHECKING:
    from metasym.tasks.row_factors import Floats, Ints, RowBlock


def summed(file: TaskFile) -> bool:
    """Whether statistics of all rows were made, more rows than the file holds."""
    return file.streamed is not None and file.streamed.factors is not None


def statistics(tasks: StoredTasks, offset: bool, before: float = 0.0) -> TaskStatistics:
    """All examples of the tasks, as a linear layer sees them, less ``before`` times the example before."""
    if summed(tasks.file):
        factors, counts = tasks.factors(before)
        inputs = math.prod(tasks.layout.input_shape)
        return TaskStatistics.of_factors(factors, counts, inputs, offset=offset)
    x, y = _examples(tasks, before)
    if len({len(one) for one in x}) == 1:
        return TaskStatistics.of(torch.stack(x), torch.stack(y), offset=offset)
    return TaskStatistics.of(x, y, offset=offset)


def _examples(tasks: StoredTasks, before: float) -> tuple[list[Tensor], list[Tensor]]:
    """``x [N_t, n]`` and ``y [N_t, m]`` of every task, each example less ``before`` times the one before."""
    found = tasks.examples()
    x, y = (
        [one[:count] for one, count in zip(value.flatten(2), found.counts.tolist(), strict=True)]
        for value in (found.x, found.y)
    )
    if before:
        x, y = ([one[1:] - before * one[:-1] for one in value] for value in (x, y))
    return x, y


def all_tasks(test: StoredTasks, offset: bool, before: float) -> AllTasks | TaskStatistics:
    """Every task of the file that the ``test`` tasks are from: with its own weights, where all determine theirs."""
    ids = torch.arange(test.file.tasks)
    everything = StoredTasks(test.file, ids, support=test.support, layout=test.layout)
    blocks = torch.from_numpy(dependent_blocks(test.file))
    apart = len(blocks.unique()) == len(ids)
    if summed(test.file):
        own = _own_weights(everything, offset, before)
        if own is None:
            return statistics(everything, offset, before)
        return AllTasks(own, torch.isin(ids, test.given), ids, None if apart else blocks)
    x, y = _examples(everything, before)
    return judge.all_tasks(x, y, torch.isin(ids, test.given), offset=offset, blocks=None if apart else blocks)


def _own_weights(tasks: StoredTasks, offset: bool, before: float) -> OwnWeights | None:
    """Every task's own weights from all of its rows, which are read once more.

    Tasks of few rows, whose covariance takes all of them at once, are held whole; None where they are not.
    """
    from metasym.tasks.row_factors import padded
    from metasym.tasks.streamed import together  # few files have more rows than are held
    from metasym.tasks.streaming import WHOLE

    file, layout = tasks.file, tasks.layout
    streamed = file.streamed
    assert streamed is not None
    found = statistics(tasks, offset, before)
    n = found.inputs
    few = found.counts + int(offset) <= WHOLE * n
    whole = torch.from_numpy(streamed.counts == file.counts)
    if bool((few & ~whole).any()):
        return None
    cut = streamed.inputs

    def seen(values: Floats) -> Tensor:
        # less_the_row_before has subtracted this part of the offset already
        x = layout.inputs(
            values[..., :cut] + (before * np.asarray(layout.x_offset) if layout.x_offset else 0.0)
        )
        y = layout.targets(
            values[..., cut:] + (before * np.asarray(layout.y_offset) if layout.y_offset else 0.0)
        )
        return torch.from_numpy(np.concatenate([x, y], axis=-1))

    def each(work: Callable[[Tensor, Tensor, Tensor], None]) -> None:
        def of_block(item: tuple[RowBlock, Ints]) -> None:
            for ids, rows, there in padded(item[0]):
                work(torch.from_numpy(ids), seen(rows), torch.from_numpy(there))

        together(streamed.sharing.processes, streamed.blocks(before), of_block)

    own = own_weights_of_rows(found, each, streamed.sharing.total)
    if own is None or not bool(few.any()):
        return own
    ids = torch.nonzero(few).flatten()
    x, y = _examples(StoredTasks(file, ids, support=1, layout=layout), before)
    exact = own_weights(x, y, offset=offset)
    if exact is None:
        return None
    covariance, positive = own.covariance.clone(), own.positive.clone()
    covariance[ids], positive[ids] = exact.covariance, exact.positive
    return OwnWeights(own.weights, covariance, positive, own.spare, own.shape)
