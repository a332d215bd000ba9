"""Tasks of a file as episodes: gathered, scaled and shaped for a network when they are asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from metasym.tasks.arrays import draw_seed, shuffled, single
from metasym.tasks.npz import TaskFile
from metasym.types import Batch, Episode, MetasymError


@dataclass(frozen=True)
class Layout:
    """How a network sees an example: its shape, and the numbers that x and y are divided by."""

    input_shape: tuple[int, ...]
    output_shape: tuple[int, ...]
    """``()`` for labels."""
    x_scale: float = 1.0
    y_scale: float = 1.0


class StoredTasks:
    """The tasks ``ids`` of a file, numbered from 0; ``support`` examples of each are the support set.

    An episode of a task is a random split of its examples. Labels are split evenly: each class gives its first
    example to the support set before any class gives its second. Where the arrays are mapped, an episode reads
    its own examples alone.
    """

    def __init__(self, file: TaskFile, ids: Sequence[int] | Tensor, *, support: int, layout: Layout) -> None:
        if not 1 <= support < file.examples:
            raise MetasymError(
                f"expected 1 to {file.examples - 1} support examples, so that one is left as query, found {support}"
            )
        self.file, self.support, self.layout = file, support, layout
        self.ids = torch.as_tensor(ids, dtype=torch.int64)

    def __len__(self) -> int:
        return len(self.ids)

    def with_support(self, support: int) -> StoredTasks:
        """The same tasks with another number of support examples."""
        return StoredTasks(self.file, self.ids, support=support, layout=self.layout)

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The support and query set of task ``index``, split by ``generator``."""
        return single(self.episodes(torch.tensor([index]), draw_seed(generator)))

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """The episodes of tasks ``ids [tasks]``, each split by its own of ``seeds [tasks]``."""
        rows = self.ids[ids].unsqueeze(1).numpy()
        order = shuffled(seeds, self.file.examples)
        if self.file.classes:
            labels = np.asarray(self.file.y[rows, order.numpy()]).astype(np.int64)
            order = order.gather(1, evenly(torch.from_numpy(labels), self.file.classes))
        columns = order.numpy()
        layout, count = self.layout, len(ids)
        x = _scaled(self.file.x[rows, columns], layout.x_scale).reshape(count, -1, *layout.input_shape)
        y = self.file.y[rows, columns]
        if self.file.classes:
            target = torch.from_numpy(np.asarray(y).astype(np.int64))
        else:
            target = _scaled(y, layout.y_scale).reshape(count, -1, *layout.output_shape)
        s = self.support
        return Episode(Batch(x[:, :s], target[:, :s]), Batch(x[:, s:], target[:, s:]), ids)


def evenly(labels: Tensor, classes: int) -> Tensor:
    """For ``labels [tasks, examples]`` an order ``[tasks, examples]`` in which the classes take turns.

    The first examples of all classes come before the second of any; otherwise the order stays.
    """
    seen = torch.nn.functional.one_hot(labels, classes).cumsum(1)
    turn = seen.gather(2, labels.unsqueeze(2)).squeeze(2)
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
            f"{for_test} of {count} tasks"
        )
    parts = order.split([count - for_validation - for_test, for_validation, for_test])
    train, held_out, tested = (part.sort().values for part in parts)
    return train, held_out, tested


def _scaled(values: np.ndarray[tuple[int, ...], np.dtype[np.generic]], scale: float) -> Tensor:
    numbers = np.asarray(values)
    if scale != 1.0:
        numbers = numbers.astype(np.float64) / scale
    return torch.from_numpy(np.ascontiguousarray(numbers, dtype=np.float32))
