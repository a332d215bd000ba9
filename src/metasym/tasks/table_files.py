"""Tasks from a table with a row for each example."""

from __future__ import annotations

import difflib
import fnmatch
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from metasym.errors import asked, option_name
from metasym.tasks.arrow_columns import Text
from metasym.tasks.csv_table import CsvTable
from metasym.tasks.grouping import checked_file, group_rows
from metasym.tasks.parquet_table import ParquetTable
from metasym.tasks.plain_facts import Array
from metasym.tasks.row_sample import RowSample
from metasym.tasks.task_file import Columns, Reading, TaskFile
from metasym.types import MetasymError, MetasymWarning

_SHOWN = 20
_INDEX = ("", "Unnamed: 0", "__index_level_0__")
"""What pandas calls the column of the rows' numbers that it writes."""


class Table(Protocol):
    """Columns with names."""

    path: Path
    names: list[str]

    def read(self, text: list[str], numbers: list[str]) -> tuple[dict[str, Text], dict[str, Array]]:
        """The columns ``text`` as text and the columns ``numbers`` as float64."""
        ...


def read_table(path: Path, reading: Reading, memory: int) -> TaskFile:
    """The tasks of a table: ``--task`` names the column that groups rows, ``--inputs`` and ``--outputs`` the others.

    The columns' names become the names of the inputs and outputs, unless the user gives others.
    """
    return tasks_of_table(_opened(path), reading, memory)


def tasks_of_table(table: Table, reading: Reading, memory: int) -> TaskFile:
    """The tasks of an opened table, or of a data frame."""
    path = table.path
    task, inputs, outputs, blocks, labels = chosen_columns(path, reading, table.names)
    words = list(dict.fromkeys([task, *blocks, *(outputs if labels else [])]))
    text, numbers = table.read(words, [*inputs, *([] if labels else outputs)])
    x, y, classes = _stacked(text, numbers, inputs, outputs, labels=labels)
    together = text[blocks[0]] if blocks else None
    grouped = group_rows(str(path), f"column {task!r}", text[task], x, y, memory, together)
    stored = {"input_names": tuple(inputs), "output_names": classes or tuple(outputs)}
    columns = Columns(task, tuple(inputs), tuple(outputs))
    return checked_file(path, grouped, reading, labels=labels, stored=stored, columns=columns)


class Chosen(NamedTuple):
    """Which columns are what."""

    task: str
    inputs: list[str]
    outputs: list[str]
    blocks: list[str]
    """One column, or none."""
    labels: bool


def chosen_columns(path: Path, reading: Reading, names: Sequence[str]) -> Chosen:
    """The columns that ``--task``, ``--inputs``, ``--outputs`` and ``--blocks`` stand for, each for one thing."""
    if reading.scalar_x:
        raise MetasymError(
            f"expected {asked('scalar_x')} only for arrays, found it with {path.name}",
            about=option_name("scalar_x"),
            found=path.name,
        )
    for flag in ("task", "inputs", "outputs"):
        if getattr(reading, flag) is None:
            raise MetasymError(
                f"{path}: expected {asked('task')}, {asked('inputs')} and {asked('outputs')} to say what the columns "
                f"of a table are, found no {asked(flag)}; {_listed(names)}",
                about=f"{path}: {option_name(flag)}",
            )
    assert reading.task is not None
    assert reading.inputs is not None
    assert reading.outputs is not None
    task = _chosen(path, "task", reading.task, names)
    inputs = _chosen(path, "inputs", reading.inputs, names)
    outputs = _chosen(path, "outputs", reading.outputs, names)
    if len(task) != 1:
        raise MetasymError(
            f"{path}: expected {asked('task')} to name one column, found {', '.join(task)}",
            about=f"{path}: {option_name('task')}",
            found=task,
        )
    blocks = [] if reading.blocks is None else _chosen(path, "blocks", reading.blocks, names)
    if len(blocks) > 1 or set(blocks) & set(task):
        found = f"that of {asked('task')}" if set(blocks) & set(task) else ", ".join(blocks)
        raise MetasymError(
            f"{path}: expected {asked('blocks')} to name one column other than that of {asked('task')}, found "
            f"{found}",
            about=f"{path}: {option_name('blocks')}",
            found=blocks,
        )
    for name, times in Counter([*task, *inputs, *outputs]).items():
        if times > 1:
            raise MetasymError(
                f"{path}: expected each column once among {asked('task')}, {asked('inputs')} and {asked('outputs')}, "
                f"found {name!r} twice",
                about=f"{path}: {name}",
                found="twice",
            )
    labels = bool(reading.labels)
    if labels and len(outputs) != 1:
        raise MetasymError(
            f"{path}: expected one column of {asked('outputs')} with {asked('labels')}, found {len(outputs)}",
            about=f"{path}: {option_name('outputs')}",
            found=len(outputs),
        )
    return Chosen(task[0], inputs, outputs, blocks, labels)


def read_columns(
    path: Path, inputs: str | None, outputs: str | None, *, labels: bool, sample: RowSample
) -> tuple[Array, Array, tuple[str, ...], tuple[str, ...]]:
    """A table as one data set: ``x [rows, inputs]``, ``y [rows, outputs]`` or labels ``[rows]``, and their names.

    Without ``inputs``, all columns that are not outputs are inputs. All rows are read and checked, a part at a time;
    those that ``sample`` keeps are returned.
    """
    table = _opened(path)
    if outputs is None:
        raise MetasymError(
            f"{path}: expected {asked('outputs')} to say which columns of the table are predicted, found none; "
            f"{_listed(table.names)}",
            about=f"{path}: {option_name('outputs')}",
        )
    targets = _chosen(path, "outputs", outputs, table.names)
    predicted = set(targets)
    rest = [name for name in table.names if name not in predicted]
    if inputs is None:
        rest = without_index(path, rest)
    features = rest if inputs is None else _chosen(path, "inputs", inputs, table.names)
    if not features:
        raise MetasymError(
            f"{path}: expected columns that are not outputs to be the inputs, found none",
            about=f"{path}: {option_name('inputs')}",
        )
    for name, times in Counter([*features, *targets]).items():
        if times > 1:
            raise MetasymError(
                f"{path}: expected each column once among {asked('inputs')} and {asked('outputs')}, "
                f"found {name!r} twice",
                about=f"{path}: {name}",
                found="twice",
            )
    if labels and len(targets) != 1:
        raise MetasymError(
            f"{path}: expected one column of {asked('outputs')} with {asked('labels')}, found {len(targets)}",
            about=f"{path}: {option_name('outputs')}",
            found=len(targets),
        )
    text, numbers = table.read(targets if labels else [], [*features, *([] if labels else targets)], sample)
    x, y, classes = _stacked(text, numbers, features, targets, labels=labels)
    return x, y, tuple(features), classes or tuple(targets)


def read_one_task(path: Path, columns: Columns, *, labels: bool) -> tuple[Array, Array, tuple[str, ...]]:
    """The rows of one task: ``x [rows, inputs]``, ``y [rows, outputs]`` or labels ``[rows]``, and the classes' names.

    Columns are found by name, whatever their order in this table; others are ignored. The column that names the task
    may be missing.
    """
    table = _opened(path)
    there = set(table.names)
    for name in (*columns.inputs, *columns.outputs):
        if name not in there:
            raise MetasymError(
                f"{path}: expected the columns that the run learned from, found no {name!r}; {_listed(table.names)}",
                about=f"{path}: {name}",
            )
    if columns.task in table.names:
        tasks = _labels(table.read([columns.task], [])[0][columns.task])[0]
        if len(tasks) > 1:
            raise MetasymError(
                f"{path}: expected the rows of one task, found {len(tasks)} in column {columns.task!r}: "
                f"{', '.join(tasks[:3])}{', ...' if len(tasks) > 3 else ''}",
                about=f"{path}: {columns.task}",
                found=len(tasks),
            )
    text, numbers = table.read(
        [*columns.outputs] if labels else [], [*columns.inputs, *([] if labels else columns.outputs)]
    )
    return _stacked(text, numbers, columns.inputs, columns.outputs, labels=labels)


def _stacked(
    text: dict[str, Text],
    numbers: dict[str, Array],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    labels: bool,
) -> tuple[Array, Array, tuple[str, ...]]:
    """``x [rows, inputs]``, ``y [rows, outputs]`` or labels ``[rows]`` of one column, and the classes' names."""
    x = np.stack([numbers[name] for name in inputs], axis=1)
    if labels:
        classes, rows = _labels(text[outputs[0]])
        return x, rows, classes
    return x, np.stack([numbers[name] for name in outputs], axis=1), ()


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = ", ".join(name or "''" for name in names[:_SHOWN])
    return f"the columns are {shown}{more}"


def without_index(path: Path, names: Sequence[str]) -> list[str]:
    """The columns without a first one that has no name: what programs write there are the rows' numbers."""
    if len(names) < 2 or names[0] not in _INDEX:
        return list(names)
    warnings.warn(
        f"{path}: column 1 has no name ({names[0]!r}) and looks like the rows' numbers: it is left out; name it in "
        f"the header, or in {asked('inputs')}, to use it",
        MetasymWarning,
        stacklevel=2,
    )
    return list(names[1:])


def _chosen(path: Path, flag: str, wish: str, names: Sequence[str]) -> list[str]:
    """The columns that a list of names and patterns stands for, in its order; a pattern's as in the file."""
    found: list[str] = []
    there = set(names)
    for word in (part.strip() for part in wish.split(",")):
        some = [word] if word and word in there else []
        some = some or [name for name in names if fnmatch.fnmatchcase(name, word)]
        some = without_index(path, some) if word not in there else some
        if not some:
            near = difflib.get_close_matches(word, names, 1)
            hint = f" (is {near[0]!r} meant?)" if near else ""
            raise MetasymError(
                f"{path}: expected {asked(flag)} to name columns of the table, found {word!r}{hint}; "
                f"{_listed(names)}",
                about=f"{path}: {option_name(flag)}",
                found=word,
            )
        found += some
    return found


def classes_of(labels: Iterable[str]) -> tuple[str, ...]:
    """The classes in the order of their numbers or of the alphabet."""
    return _labels(np.array(list(labels)))[0]


def _labels(text: Text) -> tuple[tuple[str, ...], Array]:
    """The classes in the order of their numbers or of the alphabet, and each row's class."""
    names, rows = np.unique(text, return_inverse=True)
    try:
        order = np.argsort(names.astype(np.float64), kind="stable")
    except ValueError:
        order = np.arange(len(names))
    place = np.empty(len(names), dtype=np.int64)
    place[order] = np.arange(len(names))
    return tuple(str(name) for name in names[order]), place[rows]


def _opened(path: Path) -> CsvTable | ParquetTable:
    return ParquetTable(path) if path.suffix.lower() == ".parquet" else CsvTable(path)
