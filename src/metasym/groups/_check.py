"""Argument checks shared by the constructors: one line that says what was expected and what was found."""

from __future__ import annotations

import operator
from collections.abc import Collection

from metasym.types import MetasymError


def positive_int(value: object, what: str, most: int | None = None) -> int:
    """``value`` as an int of at least 1 (and at most ``most``), or an error that names ``what``."""
    limit = "" if most is None else f" of at most {most}"
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = 0
    if isinstance(value, bool) or number < 1 or (most is not None and number > most):
        raise MetasymError(
            f"{what}: expected a positive integer{limit}, found {value!r}", about=what, found=value
        )
    return number


def one_of(value: object, options: Collection[object], what: str) -> None:
    """Raise unless ``value`` is one of ``options``."""
    if value not in options:
        names = " or ".join(repr(option) for option in options)
        raise MetasymError(f"{what}: expected {names}, found {value!r}", about=what, found=value)
