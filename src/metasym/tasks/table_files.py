"""Tasks from a table with a row for each example: CSV by Python's reader, Parquet by pyarrow if it is installed."""

from __future__ import annotations

import csv
import difflib
import fnmatch
import io
import itertools
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from metasym.storage.plain_files import open_plain
from metasym.tasks.grouping import checked_file, group_rows
from metasym.tasks.parquet_table import ParquetTable
from metasym.tasks.row_sample import RowSample
from metasym.tasks.task_file import Array, Columns, Reading, TaskFile
from metasym.types import MetasymError, MetasymWarning

_ROWS = 20_000
"""Rows of a file that are made into numbers in one go."""
_SHOWN = 20
_INDEX = ("", "Unnamed: 0", "__index_level_0__")
"""What pandas calls the column of the rows' numbers that it writes."""

Text = npt.NDArray[np.str_]


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
    if reading.scalar_x:
        raise MetasymError(
            f"expected --scalar-x only for arrays, found it with {path.name}",
            about="--scalar-x",
            found=path.name,
        )
    for flag in ("task", "inputs", "outputs"):
        if getattr(reading, flag) is None:
            raise MetasymError(
                f"{path}: expected --task, --inputs and --outputs to say what the columns of a table are, found no "
                f"--{flag}; {_listed(table.names)}",
                about=f"{path}: --{flag}",
            )
    assert reading.task is not None
    assert reading.inputs is not None
    assert reading.outputs is not None
    task = _chosen(path, "--task", reading.task, table.names)
    inputs = _chosen(path, "--inputs", reading.inputs, table.names)
    outputs = _chosen(path, "--outputs", reading.outputs, table.names)
    if len(task) != 1:
        raise MetasymError(
            f"{path}: expected --task to name one column, found {', '.join(task)}",
            about=f"{path}: --task",
            found=task,
        )
    blocks = [] if reading.blocks is None else _chosen(path, "--blocks", reading.blocks, table.names)
    if len(blocks) > 1 or set(blocks) & set(task):
        found = "that of --task" if set(blocks) & set(task) else ", ".join(blocks)
        raise MetasymError(
            f"{path}: expected --blocks to name one column besides that of --task, found {found}",
            about=f"{path}: --blocks",
            found=blocks,
        )
    for name, times in Counter([*task, *inputs, *outputs]).items():
        if times > 1:
            raise MetasymError(
                f"{path}: expected each column once among --task, --inputs and --outputs, found {name!r} twice",
                about=f"{path}: {name}",
                found="twice",
            )
    labels = bool(reading.labels)
    if labels and len(outputs) != 1:
        raise MetasymError(
            f"{path}: expected one column of --outputs with --labels, found {len(outputs)}",
            about=f"{path}: --outputs",
            found=len(outputs),
        )
    words = list(dict.fromkeys([*task, *blocks, *(outputs if labels else [])]))
    text, numbers = table.read(words, [*inputs, *([] if labels else outputs)])
    x, y, classes = _stacked(text, numbers, inputs, outputs, labels=labels)
    together = text[blocks[0]] if blocks else None
    grouped = group_rows(str(path), f"column {task[0]!r}", text[task[0]], x, y, memory, together)
    stored = {"input_names": tuple(inputs), "output_names": classes or tuple(outputs)}
    columns = Columns(task[0], tuple(inputs), tuple(outputs))
    return checked_file(path, grouped, reading, labels=labels, stored=stored, columns=columns)


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
            f"{path}: expected --outputs to say which columns of the table are predicted, found none; "
            f"{_listed(table.names)}",
            about=f"{path}: --outputs",
        )
    targets = _chosen(path, "--outputs", outputs, table.names)
    predicted = set(targets)
    rest = [name for name in table.names if name not in predicted]
    if inputs is None:
        rest = without_index(path, rest)
    features = rest if inputs is None else _chosen(path, "--inputs", inputs, table.names)
    if not features:
        raise MetasymError(
            f"{path}: expected columns that are not outputs to be the inputs, found none",
            about=f"{path}: --inputs",
        )
    for name, times in Counter([*features, *targets]).items():
        if times > 1:
            raise MetasymError(
                f"{path}: expected each column once among --inputs and --outputs, found {name!r} twice",
                about=f"{path}: {name}",
                found="twice",
            )
    if labels and len(targets) != 1:
        raise MetasymError(
            f"{path}: expected one column of --outputs with --labels, found {len(targets)}",
            about=f"{path}: --outputs",
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
    return f"the columns are {', '.join(names[:_SHOWN])}{more}"


def without_index(path: Path, names: Sequence[str]) -> list[str]:
    """The columns without a first one that has no name: what programs write there are the rows' numbers."""
    if len(names) < 2 or names[0] not in _INDEX:
        return list(names)
    warnings.warn(
        f"{path}: column 1 has no name ({names[0]!r}) and looks like the rows' numbers: it is left out; name it in "
        "the header, or in --inputs, to use it",
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
                f"{path}: expected {flag} to name columns of the table, found {word!r}{hint}; {_listed(names)}",
                about=f"{path}: {flag}",
                found=word,
            )
        found += some
    return found


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


def _opened(path: Path) -> _Csv | ParquetTable:
    return ParquetTable(path) if path.suffix.lower() == ".parquet" else _Csv(path)


def _filled(rows: Iterator[list[str]]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with their numbers as a spreadsheet counts them, from 1."""
    return (
        (number, cells)
        for number, cells in enumerate(rows, start=1)
        if cells and (len(cells) > 1 or cells[0].strip())
    )


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


class _Csv:
    """A text file with a header; separated by commas, semicolons or tabs, whichever the header has most of."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.header, header = next(_filled(self._rows()), (0, []))
        """The row of the header, as a spreadsheet counts; lines above it are empty."""
        if not header:
            raise MetasymError(
                f"{path}: expected a table with a header, found an empty file",
                about=str(path),
                found="an empty file",
            )
        self.names = [name.strip() for name in header]
        for name, times in Counter(self.names).items():
            if times > 1:
                raise MetasymError(
                    f"{path}: expected each column's name once in the header, found {name!r} twice",
                    about=f"{path}: header",
                    found=name,
                )

    def _rows(self) -> Any:
        """All rows, empty ones too."""
        want = f"{self.path}: expected a text file with a table (UTF-8)"
        try:
            with io.TextIOWrapper(open_plain(self.path), newline="", encoding="utf-8-sig") as stream:
                first = next((line for line in stream if line.strip()), "")
                stream.seek(0)
                tab = self.path.suffix.lower() == ".tsv"
                yield from csv.reader(stream, delimiter="\t" if tab else max(",;\t", key=first.count))
        except OSError as error:
            raise MetasymError(
                f"{want}, found {error.strerror or error}",
                about=str(self.path),
                found=error.strerror or str(error),
            ) from None
        except UnicodeDecodeError as error:
            raise MetasymError(
                f"{want}, found byte {error.object[error.start]:#04x}, which is not UTF-8",
                about=str(self.path),
                found=error.object[error.start],
            ) from None
        except csv.Error as error:
            raise MetasymError(f"{want}, found {error}", about=str(self.path), found=str(error)) from None

    def read(
        self, text: list[str], numbers: list[str], sample: RowSample | None = None
    ) -> tuple[dict[str, Text], dict[str, Array]]:
        """The columns ``text`` as they are written and the columns ``numbers`` as float64, of rows in ``sample``."""
        of = {name: place for place, name in enumerate(self.names)}
        places = {name: of[name] for name in (*text, *numbers)}
        kept = RowSample() if sample is None else sample
        rows = _filled(self._rows())
        next(rows)
        while chunk := list(itertools.islice(rows, _ROWS)):
            numbered, lines = zip(*chunk, strict=True)
            lengths = list(map(len, lines))
            if lengths.count(len(self.names)) != len(lines):
                odd = next(i for i, length in enumerate(lengths) if length != len(self.names))
                raise MetasymError(
                    f"{self.path}: expected {len(self.names)} cells in every row, as in the header, found "
                    f"{lengths[odd]} in row {numbered[odd]} (the header is row {self.header})",
                    about=f"{self.path}: row {numbered[odd]}",
                    found=lengths[odd],
                )
            columns = list(zip(*lines, strict=True))
            kept.add(
                {
                    name: (self._text if name in text else self._numbers)(name, columns[place], numbered)
                    for name, place in places.items()
                }
            )
        if not kept.seen:
            raise MetasymError(
                f"{self.path}: expected rows below the header, found none",
                about=f"{self.path}: rows",
                found=0,
            )
        joined = kept.columns()
        return {name: joined[name] for name in text}, {name: joined[name] for name in numbers}

    def _text(self, name: str, cells: Sequence[str], rows: Sequence[int]) -> Text:
        clean = [cell.strip() for cell in cells]
        if "" in clean:
            raise self._wrong("a name", name, rows[clean.index("")], "an empty cell")
        return np.array(clean)

    def _numbers(self, name: str, cells: Sequence[str], rows: Sequence[int]) -> Array:
        try:
            values = np.array(cells, dtype=np.float64)
            if "_" in "".join(cells):  # 1_234 is a number in Python's source only
                raise ValueError
        except ValueError:
            odd = next(i for i, cell in enumerate(cells) if not _is_number(cell))
            found = f"{cells[odd][:40]!r}" if cells[odd].strip() else "an empty cell"
            raise self._wrong("a number", name, rows[odd], found) from None
        if not np.isfinite(values).all():
            first = int(np.argmin(np.isfinite(values)))
            raise self._wrong("a finite number", name, rows[first], cells[first].strip())
        return values

    def _wrong(self, want: str, column: str, row: int, found: str) -> MetasymError:
        return MetasymError(
            f"{self.path}: expected {want} in row {row}, column {column!r} (the header is row {self.header}), "
            f"found {found}",
            about=f"{self.path}: row {row}, column {column}",
            found=found,
        )
