"""Rows that are read as often as they are needed, and what is known of all of them: of a file that keeps a sample."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.tasks import arrow_columns
from metasym.tasks.many_rows import ManyRows
from metasym.tasks.plain_facts import LARGEST_SIZE
from metasym.tasks.row_factors import Floats, Ints, RowBlock, RowFactors
from metasym.types import MetasymError

T = TypeVar("T")
_NUMBERS = 2**22
"""Numbers of a block: 32 MB."""
_MEET = 10.0
"""Seconds after which processes that share the rows wait for each other: none waits long enough to give up."""


class Processes(Protocol):
    """Those that read a share each: ``training.distributed.Ranks``."""

    @property
    def rank(self) -> int:
        """Which one this is."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def sum(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Every tensor summed over them."""
        ...

    def gather(self, value: T) -> list[T]:
        """The values of all, on the first."""
        ...

    def on_main(self, work: Callable[[], T]) -> T:
        """On all, what the first computes."""
        ...


def from_all(processes: Processes | None, work: Callable[[], T]) -> list[T]:
    """What ``work()`` returns in each process, in all of them; an error of one is raised in all."""
    if processes is None or processes.size == 1:
        return [work()]
    value: T | None = None
    error: MetasymError | None = None
    try:
        value = work()
    except MetasymError as found:
        error = found
    seen = processes.gather((value, error))
    everyone = processes.on_main(lambda: seen)
    for _, one in everyone:
        if one is not None:
            raise one
    return [one for one, _ in everyone]  # type: ignore[misc]


def together(processes: Processes | None, items: Iterable[Any], work: Callable[[Any], None]) -> None:
    """Do the work for the items of this process's share; the processes meet now and then until all are done."""
    rest, over = iter(items), [False]

    def some() -> bool:
        until = time.monotonic() + _MEET
        for item in rest:
            work(item)
            if processes is not None and processes.size > 1 and time.monotonic() > until:
                return False
        return True

    while not all(over):
        over = from_all(processes, some)


@dataclass(frozen=True, eq=False)
class Sharing:
    """How the rows of tasks are spread over processes."""

    processes: Processes | None
    before: Ints
    """``[tasks]``: how many rows of each task other processes read before this one's."""

    @property
    def share(self) -> tuple[int, int]:
        """Rank and size."""
        return (0, 1) if self.processes is None else (self.processes.rank, self.processes.size)

    def total(self, values: Tensor) -> Tensor:
        """Summed over the processes."""
        return values if self.share[1] == 1 else self.processes.sum([values])[0]  # type: ignore[union-attr]


@dataclass(frozen=True, eq=False)
class Streamed:
    """All rows of a file: where they are, and the factors that they leave of each task."""

    source: ManyRows
    task: str
    """The column that names the task."""
    columns: tuple[str, ...]
    """Those of x and, behind them, of y."""
    inputs: int
    """How many are x."""
    place: dict[str, int] = field(repr=False)
    """The number of each task that is not left out."""
    counts: Ints
    """``[tasks]``: rows of each task, kept or not."""
    sharing: Sharing
    factors: RowFactors | None = None
    """Of all rows; None where examples are too large, or labels."""
    some_x: Floats | None = None
    """``[some tasks, most, inputs]``: successive rows of some tasks, for what needs to be seen in order."""
    some_y: Floats | None = None
    some_ids: Ints | None = None
    some_counts: Ints | None = None
    _less: dict[float, RowFactors] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    def blocks(self, before: float = 0.0) -> Iterator[tuple[RowBlock, Ints]]:
        """This process's rows and each one's number in its task; less ``before`` times the row before.

        The first row of a task has none before it and is left out then: of its first row in each process's share.
        """
        last: dict[int, Floats] = {}
        for block, number in sorted_blocks(self, self._numbers):
            if before:
                yield less_the_row_before(block, before, last), number[:0]
            else:
                yield block, number

    def factors_less(self, before: float) -> RowFactors:
        """The factors of all rows; less ``before`` times the row before."""
        assert self.factors is not None
        if not before:
            return self.factors
        if before not in self._less:
            found = RowFactors(len(self.counts), len(self.columns))
            together(self.sharing.processes, self.blocks(before), lambda item: found.add(item[0]))
            self._less[before] = merged(found, self.sharing)
        return self._less[before]

    def _numbers(self, where: str, before: int, batch: Any) -> Floats:
        """The numbers of a batch, ``[rows, columns]``."""
        found = []
        for name in self.columns:
            column = batch.column(name)
            arrow_columns.check_filled(where, name, column, before)
            found.append(arrow_columns.numbers(where, name, column, before))
        return np.stack(found, axis=1)


def sorted_blocks(
    streamed: Streamed, numbers: Callable[[str, int, Any], Floats]
) -> Iterator[tuple[RowBlock, Ints]]:
    """Blocks of rows, those of a task together, with the number of each row in its task."""
    wanted = list(dict.fromkeys([streamed.task, *streamed.columns]))
    seen = streamed.sharing.before.copy()
    most = max(1, _NUMBERS // len(streamed.columns))
    waiting: list[tuple[Ints, Floats]] = []
    held, named = 0, arrow_columns.Numbered(streamed.place)
    for where, before, batch in streamed.source.parts(wanted, *streamed.sharing.share):
        tasks = named.look(where, streamed.task, batch.column(streamed.task), before)
        rows, kept = numbers(where, before, batch), tasks >= 0
        if not kept.all():
            tasks, rows = tasks[kept], rows[kept]
        waiting.append((tasks, rows))
        held += len(rows)
        if held >= most:
            yield _sorted(waiting, seen)
            waiting, held = [], 0
    if held:
        yield _sorted(waiting, seen)


def _sorted(waiting: list[tuple[Ints, Floats]], seen: Ints) -> tuple[RowBlock, Ints]:
    tasks = np.concatenate([one for one, _ in waiting])
    order = np.argsort(tasks, kind="stable")
    rows = np.concatenate([rows for _, rows in waiting])
    waiting.clear()
    _refuse_extremes(rows)
    block = RowBlock(tasks[order], rows[order])
    ids, first, count = block.segments()
    number = seen[block.task] + np.arange(len(order)) - np.repeat(first, count)
    seen[ids] += count
    return block, number


def less_the_row_before(block: RowBlock, times: float, last: dict[int, Floats]) -> RowBlock:
    """Every row less so many times the one before it; ``last`` keeps each task's last row between blocks."""
    ids, first, count = block.segments()
    ends = first + count - 1
    shifted = np.empty_like(block.rows)
    shifted[1:] = block.rows[:-1]
    there: npt.NDArray[np.bool_] = np.ones(len(block.rows), dtype=bool)
    for task, start, end in zip(ids.tolist(), first.tolist(), ends.tolist(), strict=True):
        if task in last:
            shifted[start] = last[task]
        else:
            there[start] = False
        last[task] = block.rows[end].copy()
    return RowBlock(block.task[there], (block.rows - times * shifted)[there])


def merged(factors: RowFactors, sharing: Sharing) -> RowFactors:
    """The factors of all processes' rows, the same bits in all of them."""
    rank, size = sharing.share
    if size == 1:
        return factors
    found = RowFactors(len(factors.counts), factors.values.shape[1] - 1)
    for one in range(size):
        mine = factors.values if one == rank else torch.zeros_like(factors.values)
        found.merge(sharing.total(mine))
    found.counts = sharing.total(torch.from_numpy(factors.counts)).numpy()
    return found


def _refuse_extremes(rows: Floats) -> None:
    largest = float(np.abs(rows).max(initial=0.0))
    if largest > LARGEST_SIZE:
        raise MetasymError(
            f"expected numbers whose squares are finite, found {largest:g}", about="rows", found=largest
        )
