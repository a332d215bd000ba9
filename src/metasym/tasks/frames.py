"""A data frame (pandas, polars, pyarrow) as a table with a row for each example."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from metasym.tasks.plain_facts import Array
from metasym.types import MetasymError

NAME = Path("frame")
"""What errors and a run's config call a frame, which has no path."""


def is_frame(value: Any) -> bool:
    """Whether it has named columns and can be asked for one of them."""
    return bool(_names(value)) and hasattr(value, "__getitem__")


def _names(value: Any) -> list[str]:
    found = getattr(value, "column_names", None) or getattr(value, "columns", None)
    return [] if found is None or callable(found) else [str(name) for name in found]


def names_in(value: Any) -> tuple[str, ...]:
    """The names of a frame's columns; none of arrays, and of columns that have no name."""
    names = tuple(_names(value)) if is_frame(value) else ()
    return () if names == tuple(map(str, range(len(names)))) else names


class Frame:
    """The columns of a frame, each checked as it is read."""

    def __init__(self, value: Any) -> None:
        self.path, self._value, self.names = NAME, value, _names(value)
        own = (
            getattr(value, "column_names", None) or value.columns
        )  # pandas calls columns 0, 1, 2 where have no name them
        self._called = dict(zip(self.names, own, strict=True))

    def read(
        self, text: list[str], numbers: list[str]
    ) -> tuple[dict[str, npt.NDArray[np.str_]], dict[str, Array]]:
        """The columns ``text`` as text and the columns ``numbers`` as float64."""
        words = {name: self._column(name).astype(str) for name in text}
        return words, {name: self._numbers(name) for name in numbers}

    def _column(self, name: str) -> npt.NDArray[Any]:
        found = np.asarray(self._value[self._called[name]].to_numpy())
        if found.ndim != 1:
            raise MetasymError(
                f"{NAME}: expected each column once, found {name!r} several times",
                about=f"{NAME}: {name}",
                found="several times",
            )
        if not len(found):
            raise MetasymError(f"{NAME}: expected rows, found none", about=f"{NAME}: rows", found=0)
        empty = np.array([value is None or value != value for value in found.tolist()])
        if empty.any():
            raise MetasymError(
                f"{NAME}: expected a value in row {int(np.argmax(empty))}, column {name!r}, found none",
                about=f"{NAME}: row {int(np.argmax(empty))}, column {name}",
            )
        return found

    def _numbers(self, name: str) -> Array:
        found = self._column(name)
        try:
            values = found.astype(np.float64)
        except (TypeError, ValueError):
            first = next(i for i, value in enumerate(found.tolist()) if not _is_number(value))
            raise MetasymError(
                f"{NAME}: expected a number in row {first}, column {name!r}, found {str(found[first])[:40]!r}",
                about=f"{NAME}: row {first}, column {name}",
                found=str(found[first]),
            ) from None
        if not np.isfinite(values).all():
            first = int(np.argmin(np.isfinite(values)))
            raise MetasymError(
                f"{NAME}: expected a finite number in row {first}, column {name!r}, found {values[first]}",
                about=f"{NAME}: row {first}, column {name}",
                found=float(values[first]),
            )
        return values


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True
