"""A Parquet file as a table, by pyarrow if it is installed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metasym.storage.plain_files import check_plain
from metasym.storage.system import available_memory
from metasym.tasks.row_sample import RowSample
from metasym.tasks.task_file import Array, size_in_words
from metasym.types import MetasymError

_ROWS = 20_000
"""Rows of a file that are made into numbers in one go."""
_ENTRY = 8
"""Bytes of a number in memory."""
_COPIES = 4
"""How often what was read is in memory at once: as it came, joined, as rows, as tasks."""
_LONGEST = 1000
"""Characters of the name of a task or a class; a column of longer ones is no column of names."""

Text = npt.NDArray[np.str_]


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
            self.file = parquet.ParquetFile(path, memory_map=False, read_dictionary=words)
        except OSError as error:
            raise MetasymError(
                f"{path}: expected a Parquet file, found {error.strerror or error}",
                about=str(path),
                found=error.strerror or str(error),
            ) from None
        except ArrowException as error:
            raise MetasymError(
                f"{path}: expected a Parquet file, found {str(error).splitlines()[0]}",
                about=str(path),
                found=str(error).splitlines()[0],
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
        for batch in self._batches([*text, *numbers]):
            for name in (*text, *numbers):
                if batch.column(name).null_count:
                    first = int(np.argmax(batch.column(name).is_null().to_numpy(zero_copy_only=False)))
                    raise self._wrong("a value", name, kept.seen + first, "an empty cell")
            words = {name: self._words(name, batch.column(name), kept.seen) for name in text}
            values = {name: self._numbers(name, batch.column(name), kept.seen) for name in numbers}
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

    def _words(self, name: str, column: Any, before: int) -> Text:
        """Text, of which each different one is made once: a long one may stand in every row."""
        encoded = column.dictionary_encode() if not hasattr(column, "dictionary") else column
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        different = [str(value) for value in encoded.dictionary.to_pylist()]
        longest = max(map(len, different), default=0)
        if longest > _LONGEST:
            odd = next(i for i, value in enumerate(different) if len(value) > _LONGEST)
            row = before + int(np.argmax(codes == odd))
            raise self._wrong(f"text of at most {_LONGEST:,} characters", name, row, f"{longest:,}")
        found: Text = np.array(different)[codes]
        return found

    def _batches(self, columns: list[str]) -> Iterator[Any]:
        """The rows of the file, a part at a time."""
        from pyarrow import ArrowException

        try:
            for batch in self.file.iter_batches(_ROWS, columns=columns):
                if batch.num_rows:
                    yield batch
        except (OSError, ArrowException) as error:
            raise MetasymError(
                f"{self.path}: expected a whole Parquet file, found {str(error).splitlines()[0]}",
                about=str(self.path),
                found=str(error).splitlines()[0],
            ) from None

    def _numbers(self, name: str, column: Any, before: int) -> Array:
        from pyarrow import types

        kind = column.type.value_type if types.is_dictionary(column.type) else column.type
        if not any(
            check(kind) for check in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
        ):
            raise self._wrong("a number", name, before, f"{str(column[0].as_py())[:40]!r} of type {kind}")
        values = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        if not np.isfinite(values).all():
            first = int(np.argmin(np.isfinite(values)))
            raise self._wrong("a finite number", name, before + first, str(values[first]))
        return values

    def _wrong(self, want: str, column: str, row: int, found: str) -> MetasymError:
        return MetasymError(
            f"{self.path}: expected {want} in row {row + 1}, column {column!r}, found {found}",
            about=f"{self.path}: row {row + 1}, column {column}",
            found=found,
        )
