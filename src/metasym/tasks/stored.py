"""Tasks of a file as episodes: gathered, scaled and shaped for a network when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from metasym.tasks.arrays import draw_seed, shuffled, single
from metasym.tasks.plain_facts import Array
from metasym.tasks.task_file import TaskFile
from metasym.types import Batch, Episode, MetasymError

_MOST_QUERY = 0.9
"""Where tasks differ in size, this quantile of their sizes decides how long all query sets are."""


@dataclass(frozen=True)
class Layout:
    """How a network sees an example: its shape, what x and y are divided by, and what is subtracted before.

    Offsets and column scales have one entry for each number of an example, in the order of its entries, or none.
    """

    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    """``()`` for labels."""
    x_scale: float = 1.0
    y_scale: float = 1.0
    x_offset: tuple[float, ...] = ()
    """What is subtracted from each number of x before anything else."""
    y_offset: tuple[float, ...] = ()
    x_columns: tuple[float, ...] = ()
    """A further divisor of each number of x, beside ``x_scale``, where columns have very different scales."""
    y_columns: tuple[float, ...] = ()

    def inputs(self, x: Array) -> Array:
        """``x [..., entries]`` of an example flattened, as the network sees it."""
        return _standardised(x, self.x_offset, self.x_columns, self.x_scale)

    def targets(self, y: Array) -> Array:
        """``y [..., entries]`` in the network's units."""
        return _standardised(y, self.y_offset, self.y_columns, self.y_scale)


class Examples(NamedTuple):
    """All examples of some tasks, as a network sees them; the rows after a task's ``counts`` are padding."""

    x: Tensor
    """``[tasks, most examples, *input_shape]``, float64."""
    y: Tensor
    """``[tasks, most examples, *output_shape]``, float64, or labels ``[tasks, most examples]``."""
    counts: Tensor
    """``[tasks]``, int64."""


class StoredTasks:
    """The tasks ``ids`` of a file, numbered from 0; ``support`` examples of each are the support set.

    An episode of a task is a random split of its examples. Labels are split evenly: each class gives its first
    example to the support set before any class gives its second. Where the arrays are mapped, an episode reads
    its own examples alone.

    Where tasks have different numbers of examples, those with no more than ``support`` are left out, and all query
    sets have one length: from longer tasks some examples are drawn, those of shorter tasks are repeated in turn, so
    that a score is still the mean over a task's own examples.
    """

    def __init__(self, file: TaskFile, ids: Sequence[int] | Tensor, *, support: int, layout: Layout) -> None:
        self.given = torch.as_tensor(ids, dtype=torch.int64)
        """All of the tasks, including those with too few examples for an episode."""
        counts = torch.from_numpy(file.counts)[self.given]
        most = int(counts.max()) if len(counts) else 0
        if not 1 <= support < most:
            raise MetasymError(
                f"expected 1 to {most - 1} support examples, so that one is left as query, found {support}",
                about="support",
                found=support,
            )
        self.file, self.support, self.layout = file, support, layout
        self.ids = self.given[counts > support]
        self.counts = torch.from_numpy(file.counts)[self.ids]
        typical = np.quantile(self.counts.numpy(), _MOST_QUERY, method="lower") if file.ragged else most
        self.query = max(1, int(typical) - support)

    def __repr__(self) -> str:
        layout = self.layout
        shapes = f"x {list(layout.input_shape)}, y {list(layout.output_shape)}"
        return f"StoredTasks({len(self)} tasks of {str(self.file.path)!r:.200}, {shapes}, support {self.support})"

    def __len__(self) -> int:
        return len(self.ids)

    def with_support(self, support: int) -> StoredTasks:
        """The same tasks with another number of support examples."""
        return StoredTasks(self.file, self.given, support=support, layout=self.layout)

    def only(self, index: int) -> Batch:
        """Every example of one task, float64, as the network sees them."""
        found = self._examples(self.given[index : index + 1])
        count = int(found.counts[0])
        return Batch(found.x[0, :count], found.y[0, :count])

    def examples(self) -> Examples:
        """Every example of every task, including tasks with too few for an episode."""
        return self._examples(self.given)

    def factors(self, before: float = 0.0) -> tuple[Tensor, Tensor]:
        """Of all rows of a file that keeps some: the factors of ``[1 x y]`` as the network sees it, and how many.

        Triangular, ``[tasks, 1 + numbers, 1 + numbers]`` float64, and ``[tasks]``. ``before``: of every row less so
        many times the one before it.
        """
        assert self.file.streamed is not None
        found, layout = self.file.streamed.factors_less(before), self.layout
        inputs = self.file.streamed.inputs
        outputs = found.values.shape[1] - 1 - inputs
        change = torch.eye(1 + inputs + outputs, dtype=torch.float64)
        for first, size, offset, columns, scale in (
            (1, inputs, layout.x_offset, layout.x_columns, layout.x_scale),
            (1 + inputs, outputs, layout.y_offset, layout.y_columns, layout.y_scale),
        ):
            divisor = torch.tensor(columns or (1.0,), dtype=torch.float64) * scale
            moved = torch.tensor(offset or (0.0,), dtype=torch.float64) * (1 - before)
            places = torch.arange(first, first + size)
            change[places, places] = 1 / divisor.expand(size)
            change[0, places] = (-moved / divisor).expand(size)
        return found.values[self.given] @ change, torch.from_numpy(found.counts)[self.given]

    def _examples(self, given: Tensor) -> Examples:
        rows, file, layout = given.numpy(), self.file, self.layout
        counts = given.new_tensor(file.counts[rows])
        most = int(counts.max())
        x, y = np.asarray(file.x[rows, :most]), np.asarray(file.y[rows, :most])
        flat = (len(rows), most, -1)
        there = (torch.arange(most) < counts.unsqueeze(1)).unsqueeze(2)  # offsets would move the padding
        inputs = torch.from_numpy(layout.inputs(x.reshape(flat)).astype(np.float64)) * there
        if file.classes:
            target = torch.from_numpy(y.astype(np.int64))
        else:
            target = torch.from_numpy(layout.targets(y.reshape(flat)).astype(np.float64)) * there
            target = target.reshape(len(rows), most, *layout.output_shape)
        return Examples(inputs.reshape(len(rows), most, *layout.input_shape), target, counts)

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The support and query set of task ``index``, split by ``generator``."""
        return single(self.episodes(torch.tensor([index]), draw_seed(generator)))

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """The episodes of tasks ``ids [tasks]``, each split by its own seed of ``seeds [tasks]``."""
        rows = self.ids[ids].unsqueeze(1).numpy()
        columns = self._order(rows, self.counts[ids], seeds).numpy()
        layout, count = self.layout, len(ids)
        x = layout.inputs(np.asarray(self.file.x[rows, columns]).reshape(*columns.shape, -1))
        inputs = _float32(x).reshape(count, -1, *layout.input_shape)
        y = np.asarray(self.file.y[rows, columns])
        if self.file.classes:
            target = torch.from_numpy(y.astype(np.int64))
        else:
            target = _float32(layout.targets(y.reshape(*columns.shape, -1)))
            target = target.reshape(count, -1, *layout.output_shape)
        s = self.support
        return Episode(Batch(inputs[:, :s], target[:, :s]), Batch(inputs[:, s:], target[:, s:]), ids)

    def _order(self, rows: Array, counts: Tensor, seeds: Tensor) -> Tensor:
        """Which example stands where, ``[tasks, support + query]``: support first."""
        most = int(counts.max())
        order = shuffled(seeds, most)
        if self.file.ragged:
            missing = order >= counts.unsqueeze(1)  # padding goes to the end
            order = order.gather(1, missing.to(torch.int8).argsort(dim=1, stable=True))
        if self.file.classes:
            labels = torch.from_numpy(np.asarray(self.file.y[rows, order.numpy()]).astype(np.int64))
            there = torch.arange(most) < counts.unsqueeze(1)
            order = order.gather(1, evenly(labels, self.file.classes, there))
        if not self.file.ragged:
            return order
        left = (counts - self.support).unsqueeze(1)
        turn = self.support + torch.arange(self.query) % left
        first = torch.arange(self.support).expand(len(counts), -1)
        return order.gather(1, torch.cat([first, turn], dim=1))


def evenly(labels: Tensor, classes: int, there: Tensor | None = None) -> Tensor:
    """For ``labels [tasks, examples]`` an order ``[tasks, examples]`` in which the classes take turns.

    The first examples of all classes come before the second example of any; otherwise the order stays. Entries where
    ``there`` is false are padding and come last.
    """
    seen = torch.nn.functional.one_hot(labels, classes).cumsum(1)
    turn = seen.gather(2, labels.unsqueeze(2)).squeeze(2)
    if there is not None:
        turn = turn.where(there, labels.shape[1] + 1)
    return turn.argsort(dim=1, stable=True)


def split_tasks(count: int, validation: float, test: float, order: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cut ``count`` tasks, taken in ``order``, into those to train, to validate and to test on.

    At least one each, and two for the test: its interval needs them.
    """
    for_test = max(2, round(count * test))
    for_validation = max(1, round(count * validation))
    if for_test + for_validation >= count:
        raise MetasymError(
            f"expected parts for validation and test that leave tasks to train on, found {for_validation} and "
            f"{for_test} of {count} tasks",
            about="validation, test",
            found=(for_validation, for_test),
        )
    parts = order.split([count - for_validation - for_test, for_validation, for_test])
    train, held_out, tested = (part.sort().values for part in parts)
    return train, held_out, tested


def split_blocks(
    blocks: Tensor, validation: float, test: float, order: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same for tasks of which ``blocks [tasks]`` belong together; blocks are taken in ``order``.

    The test and the validation have as few blocks as make the tasks that were asked for, and at least one each.
    """
    sizes = torch.bincount(blocks)[order].flip(0).cumsum(0)
    count = len(blocks)
    for_test = int(torch.searchsorted(sizes, max(2, round(count * test)))) + 1
    tested = int(sizes[min(for_test, len(sizes)) - 1])
    wanted = tested + max(1, round(count * validation))
    for_both = max(for_test + 1, int(torch.searchsorted(sizes, wanted)) + 1)
    if for_both >= len(order):
        raise MetasymError(
            f"expected blocks for validation and test that leave tasks to train on, found {len(order)} blocks, the "
            f"largest of {int(torch.bincount(blocks).max())} of {count} tasks",
            about="blocks",
            found=len(order),
        )
    late = order.flip(0)
    chosen = (late[for_both:], late[for_test:for_both], late[:for_test])
    train, held_out, last = (torch.nonzero(torch.isin(blocks, part)).flatten() for part in chosen)
    return train, held_out, last


def _standardised(values: Array, offset: Sequence[float], columns: Sequence[float], scale: float) -> Array:
    if not offset and not columns and scale == 1.0:
        return values
    numbers = values.astype(np.float64)
    if offset:
        numbers -= np.asarray(offset)
    return numbers / (np.asarray(columns) * scale if columns else scale)


def _float32(values: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
