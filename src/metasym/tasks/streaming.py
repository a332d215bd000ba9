"""Tasks of more rows than are held: statistics of all of them, a sample of each task's, some tasks in order.

Everything that is held grows with the number of tasks. The rows are read twice: how many each task has, then what
they are. Under ``torchrun`` every process reads its share of them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from metasym.storage.system import available_memory
from metasym.tasks import arrow_columns
from metasym.tasks.grouping import Grouped, checked_file, enough_rows
from metasym.tasks.many_rows import ManyRows
from metasym.tasks.plain_facts import size_in_words
from metasym.tasks.row_factors import Floats, Ints, RowBlock, RowFactors
from metasym.tasks.row_sample import sampled_rows
from metasym.tasks.sampling import mix
from metasym.tasks.streamed import (
    Processes,
    Sharing,
    Streamed,
    from_all,
    merged,
    sorted_blocks,
    together,
)
from metasym.tasks.table_files import Chosen, chosen_columns, classes_of
from metasym.tasks.task_file import Columns, Reading, TaskFile
from metasym.types import MetasymError

KEPT = 2**27
"""Bytes of rows that are kept: all, if they are no more, or else as many of each task."""
LEAST_KEPT = 50
"""Rows of each task that are kept in any case."""
WHOLE = 20
"""Tasks of no more rows than this many times the inputs, and one, are kept whole: their own noise takes all."""
WIDEST = 32
"""Inputs up to which this holds."""
_IN_ORDER = 3_000_000
"""Numbers of tasks that are kept from their first row on."""
_FEWEST = 50
"""Tasks that are kept so, however long they are."""
LARGEST_EXAMPLE = 260
"""Numbers of an example, x and y, up to which statistics of all rows are made."""
SEED = 0
_SAMPLE, _BITS, _LONGEST = 37, 2**64, 2**40


def stream_tasks(
    source: ManyRows,
    reading: Reading,
    processes: Processes | None = None,
    *,
    kept: int = KEPT,
    memory: int | None = None,
) -> TaskFile:
    """The tasks of ``source``: ``kept`` bytes of their rows and, where there are more, statistics of all."""
    where = str(source.path)
    chosen = chosen_columns(source.path, reading, source.names)
    surveyed = _survey(source, chosen, processes)
    names = np.array(surveyed.names)
    enough = enough_rows(where, f"column {chosen.task!r}", names, surveyed.counts)
    counts = surveyed.counts[enough]
    tasks, inputs = len(counts), len(chosen.inputs)
    outputs = 1 if chosen.labels else len(chosen.outputs)
    each = _kept_of_each(counts, inputs, outputs, kept)
    most = int(min(each, counts.max()))
    numbers = inputs + outputs
    streams = most < counts.max()
    factored = streams and not chosen.labels and numbers <= LARGEST_EXAMPLE
    needs = 8 * tasks * (2 * most * numbers + (3 * (numbers + 1) ** 2 if factored else 0))
    free = available_memory() if memory is None else memory
    if needs > free:
        raise MetasymError(
            f"{where}: expected tasks whose statistics and {most} rows each fit into {size_in_words(free)} of "
            f"memory, found {tasks:,} tasks that take {size_in_words(needs)}: keep fewer tasks or columns",
            about=f"{where}: tasks",
            found=tasks,
        )
    stream = Streamed(
        source,
        chosen.task,
        (*chosen.inputs, *chosen.outputs),
        inputs,
        {name: place for place, name in enumerate(names[enough].tolist())},
        counts,
        Sharing(processes, surveyed.before[enough]),
        RowFactors(tasks, numbers) if factored else None,
    )
    classes = classes_of(surveyed.classes) if chosen.labels else ()
    held = _Held(stream, most, streams, classes)
    together(processes, sorted_blocks(stream, held.numbers), lambda item: held.add(*item))
    grouped, stream = held.grouped(
        names[enough], None if surveyed.blocks is None else surveyed.blocks[enough]
    )
    stored = {"input_names": tuple(chosen.inputs), "output_names": classes or tuple(chosen.outputs)}
    columns = Columns(chosen.task, tuple(chosen.inputs), tuple(chosen.outputs))
    grouped = replace(grouped, dropped=int((~enough).sum()))
    file = checked_file(source.path, grouped, reading, labels=chosen.labels, stored=stored, columns=columns)
    return replace(file, streamed=stream if streams else None, stamps=source.stamps())


@dataclass(frozen=True, eq=False)
class _Survey:
    """What the columns of text say."""

    names: list[str]
    counts: Ints
    before: Ints
    """Rows of each task that earlier processes read."""
    blocks: Any
    classes: list[str]


def _survey(source: ManyRows, chosen: Chosen, processes: Processes | None) -> _Survey:
    """How many rows each task has, by first appearance; its block; the classes that there are."""
    tasks, labels, together_in = (arrow_columns.Numbered() for _ in range(3))
    counts: Ints = np.zeros(0, dtype=np.int64)
    block_of: dict[str, str] = {}
    columns = {chosen.task: tasks}
    columns |= {name: together_in for name in chosen.blocks if name not in columns}
    columns |= {name: labels for name in chosen.outputs if chosen.labels and name not in columns}

    def look(part: Any) -> None:
        nonlocal counts
        where, before, batch = part
        found = {}
        for name, numbered in columns.items():
            arrow_columns.check_filled(where, name, batch.column(name), before)
            found[name] = numbered.look(where, name, batch.column(name), before, new=True)
        own = np.bincount(found[chosen.task], minlength=len(tasks.place)).astype(np.int64)
        own[: len(counts)] += counts
        counts = own
        if chosen.blocks:
            called = [list(one.place) for one in (tasks, columns[chosen.blocks[0]])]
            pairs = np.unique(np.stack([found[chosen.task], found[chosen.blocks[0]]]), axis=1)
            for task, block in pairs.T.tolist():
                _one_block(str(source.path), block_of, called[0][task], called[1][block])

    rank, size = (0, 1) if processes is None else (processes.rank, processes.size)
    together(processes, source.parts(list(columns), rank, size), look)
    everyone = from_all(
        processes,
        lambda: (
            (list(tasks.place), counts.tolist(), block_of, list(columns[chosen.outputs[0]].place))
            if chosen.labels
            else (list(tasks.place), counts.tolist(), block_of, [])
        ),
    )
    everywhere: dict[str, int] = {}
    for some, *_ in everyone:
        for name in some:
            everywhere.setdefault(name, len(everywhere))
    if not everywhere:
        raise MetasymError(f"{source.path}: expected rows, found none", about=f"{source.path}: rows", found=0)
    total, before = (np.zeros(len(everywhere), dtype=np.int64) for _ in range(2))
    together_blocks: dict[str, str] = {}
    for number, (some, own, named, _) in enumerate(everyone):
        places = [everywhere[name] for name in some]
        total[places] += own
        if number < rank:
            before[places] += own
        for task, block in named.items():
            _one_block(str(source.path), together_blocks, task, block)
    found = np.array([together_blocks[name] for name in everywhere]) if chosen.blocks else None
    return _Survey(list(everywhere), total, before, found, [one for *_, some in everyone for one in some])


def _one_block(where: str, blocks: dict[str, str], task: str, block: str) -> None:
    other = blocks.setdefault(task, block)
    if other != block:
        raise MetasymError(
            f"{where}: expected one block for all rows of a task, found {other!r} and {block!r} in task {task!r}",
            about=f"{where}: blocks",
            found=task,
        )


def _kept_of_each(counts: Ints, inputs: int, outputs: int, kept: int) -> int:
    """So many rows of every task fit into ``kept`` bytes, padding included; but never fewer than it takes."""
    short = counts[counts <= WHOLE * inputs + 1] if inputs <= WIDEST else counts[:0]
    least = max(LEAST_KEPT, int(short.max(initial=0)))
    return max(least, kept // (8 * (inputs + outputs) * len(counts)))


class _Held:
    """What is kept while the rows go by."""

    def __init__(self, stream: Streamed, most: int, streams: bool, classes: tuple[str, ...]) -> None:
        self.stream, self.streams = stream, streams
        self.classes = {name: number for number, name in enumerate(classes)}
        counts, numbers = stream.counts, len(stream.columns)
        self.counts = np.minimum(counts, most)
        self.x, self.y = (np.zeros((len(counts), most, n)) for n in (stream.inputs, numbers - stream.inputs))
        self.long = np.unique(counts[counts > most])
        """Numbers of rows of tasks that are not kept whole."""
        self.kept = np.zeros(len(self.long) * most, dtype=np.int64)
        """For each of these the rows that are kept, as ``which * _LONGEST + row``: sorted."""
        for which, count in enumerate(self.long.tolist()):
            rows = sampled_rows(count, most, SEED)
            assert rows is not None
            self.kept[which * most : (which + 1) * most] = which * _LONGEST + rows
        self.some = self._some() if streams else np.zeros(0, dtype=np.int64)
        longest = max(1, _IN_ORDER // (numbers * max(1, len(self.some))))
        self.some_counts = np.minimum(counts[self.some], longest)
        self.in_order = np.zeros((len(self.some), int(self.some_counts.max(initial=0)), numbers))
        self.place = np.full(len(counts), -1)
        self.place[self.some] = np.arange(len(self.some))
        self.sums = [0, 0]

    def _some(self) -> Ints:
        """Some tasks by chance, as many as fit, in their order."""
        counts, numbers = self.stream.counts, len(self.stream.columns)
        order = mix(SEED, _SAMPLE, torch.arange(len(counts))).argsort().numpy()
        fits = int(np.searchsorted(np.cumsum(counts[order]) * numbers, _IN_ORDER))
        return np.sort(order[: max(_FEWEST, fits)])

    def numbers(self, where: str, before: int, batch: Any) -> Floats:
        """The numbers of a batch, ``[rows, columns]``; labels as numbers of classes."""
        stream, found = self.stream, []
        for number, name in enumerate(stream.columns):
            column = batch.column(name)
            if self.classes and number >= stream.inputs:
                codes, called = arrow_columns.encoded(where, name, column, before)
                found.append(np.array([self.classes.get(one, -1) for one in called], dtype=np.float64)[codes])
                continue
            arrow_columns.check_filled(where, name, column, before)
            found.append(arrow_columns.numbers(where, name, column, before))
        return np.stack(found, axis=1)

    def add(self, block: RowBlock, number: Ints) -> None:
        """Keep what is kept of some rows."""
        self._sum(block, number)
        if self.stream.factors is not None:
            self.stream.factors.add(block)
        total, (_, most, cut) = self.stream.counts[block.task], self.x.shape
        slot, kept = number.copy(), total <= most
        if len(self.kept):
            kind = np.searchsorted(self.long, total)
            keys = kind * _LONGEST + number
            found = np.minimum(np.searchsorted(self.kept, keys), len(self.kept) - 1)
            sampled = ~kept & (self.kept[found] == keys)
            slot[sampled] = (found - kind * most)[sampled]
            kept |= sampled
        task, slot, rows = block.task[kept], slot[kept], block.rows[kept]
        self.x[task, slot], self.y[task, slot] = rows[:, :cut], rows[:, cut:]
        if len(self.some):
            place = self.place[block.task]
            early = (place >= 0) & (number < self.in_order.shape[1])
            early &= number < np.append(self.some_counts, 0)[place]
            self.in_order[place[early], number[early]] = block.rows[early]

    def _sum(self, block: RowBlock, number: Ints) -> None:
        """Sums that reveal other data, whatever the order in which they are read."""
        row = mix(SEED, torch.from_numpy(block.task), torch.from_numpy(number)).numpy().view(np.uint64)
        column = mix(SEED, torch.arange(block.rows.shape[1])).numpy().view(np.uint64) | np.uint64(1)
        cut = self.stream.inputs
        for which, part in enumerate((slice(None, cut), slice(cut, None))):
            bits = np.ascontiguousarray(block.rows[:, part]).view(np.uint64)
            with np.errstate(over="ignore"):
                one = ((bits * column[part]).sum(1) * (row | np.uint64(1))).sum()
            self.sums[which] = (self.sums[which] + int(one)) % _BITS

    def grouped(self, names: Any, blocks: Any) -> tuple[Grouped, Streamed]:
        """All of it, from all processes."""
        stream, cut = self.stream, self.stream.inputs
        sharing = stream.sharing
        if sharing.share[1] > 1:
            self.x, self.y = (sharing.total(torch.from_numpy(one)).numpy() for one in (self.x, self.y))
            self.in_order = sharing.total(torch.from_numpy(self.in_order)).numpy()
            self.sums = [
                sum(column) % _BITS
                for column in zip(*from_all(sharing.processes, lambda: self.sums), strict=True)
            ]
        x, y = self.x, self.y[..., 0].astype(np.int64) if self.classes else self.y
        crc = tuple(zlib.crc32(value.to_bytes(8, "little")) for value in self.sums)
        if not self.streams:  # all rows are there: the same data have the same sums, however they are read
            crc = zlib.crc32(x.data), zlib.crc32(y.data)
        found = Grouped(
            x,
            y,
            self.counts,
            task_names=tuple(str(name) for name in names),
            blocks=() if blocks is None else tuple(str(block) for block in blocks),
            crc=(crc[0], crc[1]),
        )
        stream = replace(
            stream,
            factors=None if stream.factors is None else merged(stream.factors, sharing),
            some_x=self.in_order[..., :cut],
            some_y=np.zeros_like(self.in_order[..., cut:]) if self.classes else self.in_order[..., cut:],
            some_ids=self.some,
            some_counts=self.some_counts,
        )
        return found, stream
