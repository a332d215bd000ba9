"""Columns of Arrow's record batches as arrays, each entry checked: errors name its place, row and column."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from metasym.tasks.plain_facts import Array
from metasym.types import MetasymError

_LONGEST = 1000
"""Characters of the name of a task or a class; a column of longer ones is no column of names."""

Text = npt.NDArray[np.str_]
Codes = npt.NDArray[np.int64]


def wrong(where: str, want: str, column: str, row: int, found: str) -> MetasymError:
    """What is wrong with an entry; ``row`` counts from 0."""
    return MetasymError(
        f"{where}: expected {want} in row {row + 1}, column {column!r}, found {found}",
        about=f"{where}: row {row + 1}, column {column}",
        found=found,
    )


def check_filled(where: str, name: str, column: Any, before: int) -> None:
    """Refuse a column with an empty entry; ``before`` rows were read before it."""
    if column.null_count:
        first = int(np.argmax(column.is_null().to_numpy(zero_copy_only=False)))
        raise wrong(where, "a value", name, before + first, "an empty cell")


def encoded(where: str, name: str, column: Any, before: int) -> tuple[Codes, list[str]]:
    """A number for each row, and the text that it stands for: a long one may stand in every row."""
    found = column if hasattr(column, "dictionary") else column.dictionary_encode()
    codes = found.indices.to_numpy(zero_copy_only=False)
    different = [str(value) for value in found.dictionary.to_pylist()]
    longest = max(map(len, different), default=0)
    if longest > _LONGEST:
        odd = next(i for i, value in enumerate(different) if len(value) > _LONGEST)
        row = before + int(np.argmax(codes == odd))
        raise wrong(where, f"text of at most {_LONGEST:,} characters", name, row, f"{longest:,}")
    return np.asarray(codes, dtype=np.int64), different


def words(where: str, name: str, column: Any, before: int) -> Text:
    """Text, of which each different one is made once."""
    codes, different = encoded(where, name, column, before)
    found: Text = np.array(different)[codes]
    return found


def numbers(where: str, name: str, column: Any, before: int) -> Array:
    """Finite numbers, float64."""
    from pyarrow import types

    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not any(
        check(kind) for check in (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    ):
        raise wrong(where, "a number", name, before, f"{str(column[0].as_py())[:40]!r} of type {kind}")
    values = np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
    if not np.isfinite(values).all():
        first = int(np.argmin(np.isfinite(values)))
        raise wrong(where, "a finite number", name, before + first, str(values[first]))
    return values


class Numbered:
    """Names and a number for each; batches that share their dictionary are looked up once."""

    def __init__(self, place: dict[str, int] | None = None) -> None:
        self.place: dict[str, int] = {} if place is None else place
        self._dictionary: Any = None
        self._names: list[str] = []
        self._numbers: Codes = np.zeros(0, dtype=np.int64)

    def look(self, where: str, name: str, column: Any, before: int, *, new: bool = False) -> Codes:
        """The number of each row's name; -1 where it has none, or with ``new`` the next, by first appearance."""
        found = column if hasattr(column, "dictionary") else column.dictionary_encode()
        if self._dictionary is None or not found.dictionary.equals(self._dictionary):
            self._names = encoded(where, name, found, before)[1]
            self._numbers = np.array([self.place.get(one, -1) for one in self._names], dtype=np.int64)
            self._dictionary = found.dictionary
        codes = np.asarray(found.indices.to_numpy(zero_copy_only=False), dtype=np.int64)
        numbers_of: Codes = self._numbers[codes]
        if new and (numbers_of < 0).any():
            used, first = np.unique(codes[numbers_of < 0], return_index=True)
            for at in np.argsort(first).tolist():
                code = int(used[at])
                self._numbers[code] = self.place.setdefault(self._names[code], len(self.place))
            numbers_of = self._numbers[codes]
        return numbers_of
