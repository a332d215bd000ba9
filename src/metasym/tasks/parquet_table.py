"""A Parquet file as a table, by pyarrow if it is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from metasym.errors import in_one_line
from metasym.storage.plain_files import check_plain
from metasym.storage.system import available_memory
from metasym.tasks import arrow_columns
from metasym.tasks.arrow_columns import Text
from metasym.tasks.plain_facts import Array, size_in_words
from metasym.tasks.row_sample import RowSample
from metasym.types import MetasymError

_ROWS = 20_000
"""Rows of a file that are made into numbers at once."""
_ENTRY = 8
"""Bytes of a number in memory."""
_COPIES = 4
"""How often what was read is in memory at once: as it came, joined, as rows, as tasks."""
_BUFFER = 2**16
"""Bytes of a column that are read from the disk at once; without a buffer it is a whole row group."""


class ParquetTable:
    """A Parquet file; only the columns that are asked for are read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            from pyarrow import ArrowException, parquet, types
        except ImportError:
            raise MetasymError(
                f"{path}: expected the package pyarrow, which reads Parquet (pip install 'metasym[tables]'), found "
                "none; a CSV file needs no package",
                about="pyarrow",
            ) from None
        try:
            check_plain(path)
            schema = parquet.read_schema(path, memory_map=False)
            words = [
                field.name
                for field in schema
                if types.is_string(field.type) or types.is_large_string(field.type)
            ]
            # Text stays as the file has it, each different one once.
            self.file = parquet.ParquetFile(
                path, memory_map=False, read_dictionary=words, buffer_size=_BUFFER
            )
        except OSError as error:
            raise MetasymError(
                f"{path}: expected a Parquet file, found {error.strerror or error}",
                about=str(path),
                found=error.strerror or str(error),
            ) from None
        except ArrowException as error:
            raise MetasymError(
                f"{path}: expected a Parquet file, found {in_one_line(error)}",
                about=str(path),
                found=in_one_line(error),
            ) from None
        self.names: list[str] = list(self.file.schema_arrow.names)
        for name, times in Counter(self.names).items():
            if times > 1:
                raise MetasymError(
                    f"{path}: expected each column's name once, found {name!r} twice",
                    about=f"{path}: columns",
                    found=name,
                )

    def read(
        self, text: list[str], numbers: list[str], sample: RowSample | None = None
    ) -> tuple[dict[str, Text], dict[str, Array]]:
        """The columns ``text`` as text and the columns ``numbers`` as float64, of rows in ``sample``."""
        kept = RowSample() if sample is None else sample
        memory = available_memory()
        held = 0
        if sample is None:
            self._check_room(_ENTRY * self.file.metadata.num_rows * (len(text) + len(numbers)), memory)
        for batch in self.batches([*text, *numbers]):
            where = str(self.path)
            for name in (*text, *numbers):
                arrow_columns.check_filled(where, name, batch.column(name), kept.seen)
            words = {n: arrow_columns.words(where, n, batch.column(n), kept.seen) for n in text}
            values = {n: arrow_columns.numbers(where, n, batch.column(n), kept.seen) for n in numbers}
            if sample is None:
                held += sum(one.nbytes for one in (*words.values(), *values.values()))
                self._check_room(held, memory)
            kept.add({**words, **values})
        if not kept.seen:
            raise MetasymError(f"{self.path}: expected rows, found none", about=f"{self.path}: rows", found=0)
        joined = kept.columns()
        return {name: joined[name] for name in text}, {name: joined[name] for name in numbers}

    def _check_room(self, needs: int, memory: int) -> None:
        """Refuse what does not fit into memory: equal entries take almost nothing in the file."""
        if needs * _COPIES > memory:
            rows = self.file.metadata.num_rows
            raise MetasymError(
                f"{self.path}: expected columns that fit into {size_in_words(memory)} of memory {_COPIES} times, "
                f"found {rows:,} rows of more than {size_in_words(needs)}: keep fewer rows or columns",
                about=f"{self.path}: rows",
                found=rows,
            )

    @property
    def groups(self) -> list[int]:
        """The rows of each row group."""
        about = self.file.metadata
        return [int(about.row_group(i).num_rows) for i in range(about.num_row_groups)]

    def batches(
        self, columns: list[str], groups: list[int] | None = None, rows: int = _ROWS
    ) -> Iterator[Any]:
        """The rows of the file, or of some of its row groups, a part at a time."""
        from pyarrow import ArrowException

        try:
            for batch in self.file.iter_batches(rows, row_groups=groups, columns=columns, use_threads=False):
                if batch.num_rows:
                    yield batch
        except (OSError, ArrowException) as error:
            raise MetasymError(
                f"{self.path}: expected a whole Parquet file, found {in_one_line(error)}",
                about=str(self.path),
                found=in_one_line(error),
            ) from None
