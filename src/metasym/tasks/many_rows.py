"""Where more rows come from than fit into memory: Parquet files by a pattern or in a folder, pyarrow's data sets."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from metasym.tasks.parquet_table import ParquetTable
from metasym.tasks.plain_facts import stamp_of
from metasym.types import MetasymError

_ROWS = 2**16
_ENTRY, _COPIES = 8, 4
"""Bytes of a number in memory, and how many copies there are while a table is read at once."""
_SUFFIX = ".parquet"
_OTHERS = (".npz", ".csv", ".tsv")
"""A folder with such a name is treated as a mistake."""


class Part(NamedTuple):
    """A batch of rows, and where it stands."""

    where: str
    """The file that it is from."""
    before: int
    """The rows of that file before it."""
    batch: Any
    """A ``pyarrow.RecordBatch``."""


class ManyRows(Protocol):
    """Rows that are read a part at a time, as often as they are needed."""

    path: Path
    names: list[str]

    def parts(self, columns: list[str], rank: int = 0, size: int = 1) -> Iterator[Part]:
        """The rows, or the share of one of ``size`` processes: consecutive ones, in order of the processes."""
        ...

    def stamps(self) -> dict[Path, tuple[int, int]]:
        """When each file was last changed, and its size."""
        ...


@dataclass(frozen=True)
class _Unit:
    """What is read at once by one process: a row group of a file."""

    path: Path
    group: int
    rows: int
    before: int


class ParquetFiles:
    """Parquet files with the same columns, in the order of their names."""

    def __init__(self, path: Path, files: list[Path]) -> None:
        self.path, self.files = path, files
        self._units: list[_Unit] = []
        for file in files:
            table, before = ParquetTable(file), 0
            if file == files[0]:
                self.names = table.names
            for number, rows in enumerate(table.groups):
                self._units.append(_Unit(file, number, rows, before))
                before += rows

    @property
    def rows(self) -> int:
        """Rows of all files."""
        return sum(unit.rows for unit in self._units)

    def beyond(self, memory: int) -> bool:
        """Whether the rows, with all of their columns, are more than can be read at once."""
        return _COPIES * _ENTRY * self.rows * len(self.names) > memory

    def parts(self, columns: list[str], rank: int = 0, size: int = 1) -> Iterator[Part]:
        """Row group by row group."""
        table: ParquetTable | None = None
        for unit in _share(self._units, [unit.rows for unit in self._units], rank, size):
            if table is None or table.path != unit.path:
                table = ParquetTable(unit.path)
                for name in columns:
                    if name not in table.names:
                        raise MetasymError(
                            f"{unit.path}: expected the columns of {self.files[0].name}, found no {name!r}",
                            about=f"{unit.path}: {name}",
                        )
            before = unit.before
            for batch in table.batches(columns, [unit.group], _ROWS):
                yield Part(str(unit.path), before, batch)
                before += batch.num_rows

    def stamps(self) -> dict[Path, tuple[int, int]]:
        """Of every file."""
        return {file: stamp_of(file) for file in self.files}


class ArrowDataset:
    """A ``pyarrow.dataset.Dataset``, with the filter that it may have."""

    def __init__(self, dataset: Any) -> None:
        self.path, self._dataset = Path("dataset"), dataset
        self.names: list[str] = list(dataset.schema.names)
        for name in self.names:
            if self.names.count(name) > 1:
                raise MetasymError(
                    f"{self.path}: expected each column's name once, found {name!r} twice",
                    about=f"{self.path}: columns",
                    found=name,
                )

    def parts(self, columns: list[str], rank: int = 0, size: int = 1) -> Iterator[Part]:
        """Fragment by fragment; of Parquet files that processes share, row group by row group."""
        from pyarrow import ArrowException

        how = {"columns": columns, "batch_size": _ROWS, "batch_readahead": 1, "fragment_readahead": 1}
        try:
            if getattr(self._dataset, "_scan_options", None):
                yield from self._filtered(how, rank, size)
                return
            units: list[tuple[Any, str]] = []
            for fragment in self._dataset.get_fragments():
                where = str(getattr(fragment, "path", self.path))
                split = getattr(fragment, "split_by_row_group", None)
                units += [(one, where) for one in (split() if split is not None and size > 1 else [fragment])]
            sizes = [unit.count_rows() for unit, _ in units] if size > 1 else [1] * len(units)
            for unit, where in _share(units, sizes, rank, size):
                before = 0
                scanner = unit.scanner(schema=self._dataset.schema, use_threads=False, **how)
                for batch in scanner.to_batches():
                    if batch.num_rows:
                        yield Part(where, before, batch)
                        before += batch.num_rows
        except (OSError, ArrowException) as error:
            raise MetasymError(
                f"{self.path}: expected a data set that can be read, found {str(error).splitlines()[0]}",
                about=str(self.path),
                found=str(error).splitlines()[0],
            ) from None

    def _filtered(self, how: dict[str, Any], rank: int, size: int) -> Iterator[Part]:
        """Of a data set with a filter, whose fragments pyarrow does not give: all is read, the share is taken."""
        total = self._dataset.count_rows() if size > 1 else 2**62
        first, last, before = total * rank // size, total * (rank + 1) // size, 0
        for batch in self._dataset.scanner(use_threads=False, **how).to_batches():
            start, stop = max(first - before, 0), min(last - before, batch.num_rows)
            if start < stop:
                yield Part(str(self.path), before + start, batch.slice(start, stop - start))
            before += batch.num_rows

    def stamps(self) -> dict[Path, tuple[int, int]]:
        """Nothing is known about where its rows are kept."""
        return {}


def is_dataset(value: Any) -> bool:
    """Whether it is one of pyarrow's data sets; pyarrow is not imported for that."""
    return any(
        base.__name__ == "Dataset" and base.__module__.startswith("pyarrow.") for base in type(value).__mro__
    )


def is_many(path: Path) -> bool:
    """Whether a path is that of a folder, or a pattern of several files."""
    if path.is_dir():
        return path.suffix.lower() not in _OTHERS
    return glob.has_magic(str(path)) and not path.exists()


def many_files(path: Path) -> ParquetFiles:
    """The Parquet files in a folder and the folders in it, or those that a pattern stands for."""
    if path.is_dir():
        found = sorted(file for file in path.rglob(f"*{_SUFFIX}"))
    else:
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))  # noqa: PTH207 - absolute patterns too
    if not found:
        there = "a folder without" if path.is_dir() else "no file of that name"
        raise MetasymError(
            f"{path}: expected a file of tasks, or a folder or pattern of {_SUFFIX} files, found {there}",
            about=str(path),
            found="a folder" if path.is_dir() else there,
        )
    for file in found:
        if file.suffix.lower() != _SUFFIX:
            raise MetasymError(
                f"{path}: expected {_SUFFIX} where there are several files, found {file.name}: "
                "ms.learn(pyarrow.dataset.dataset(...), ...) takes others",
                about=str(path),
                found=file.name,
            )
    return ParquetFiles(path, found)


def _share(units: list[Any], sizes: list[int], rank: int, size: int) -> list[Any]:
    """The units whose middle row is in a process's share of all rows."""
    total, before, found = max(1, sum(sizes)), 0, []
    for unit, rows in zip(units, sizes, strict=True):
        if (2 * before + rows) * size // (2 * total) == rank or (rows == 0 and rank == 0):
            found.append(unit)
        before += rows
    return found
