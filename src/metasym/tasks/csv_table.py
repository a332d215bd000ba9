"""A CSV file as a table, by Python's reader."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metasym.storage.plain_files import open_plain
from metasym.tasks.arrow_columns import Text
from metasym.tasks.plain_facts import Array
from metasym.tasks.row_sample import RowSample
from metasym.types import MetasymError

_ROWS = 20_000
"""Rows of a file that are made into numbers at once."""


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
    return _is_plain(cell)


def _is_plain(text: str) -> bool:
    """Without what only Python reads in a number: 1_234, and digits of other scripts."""
    return "_" not in text and text.isascii()


class CsvTable:
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
            if not _is_plain("".join(cells)):
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
