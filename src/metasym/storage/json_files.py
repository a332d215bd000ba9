"""JSON objects as files: written atomically, compared with their description when they are read."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from metasym.storage.atomic import as_bytes, make_folder, write_atomically
from metasym.storage.described import described
from metasym.storage.plain_files import read_plain
from metasym.types import MetasymError

_DEEPEST = 64
"""How deep lists may be nested; ours are no deeper than ten. Much deeper ones break any recursion over them."""


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write ``value`` atomically, a line for each key, as :func:`storable` has it."""
    make_folder(path.parent)
    lines = [
        f" {json.dumps(key)}: {json.dumps(item, allow_nan=False)}" for key, item in storable(value).items()
    ]
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode(), what="a JSON file")


def read_json(path: Path, what: str, kind: Any = dict[str, Any]) -> dict[str, Any]:
    """The object in the file, which fits the description ``kind``, or one line that says why not.

    Fields that the description does not know are there too.
    """
    try:
        data = read_plain(path)
    except OSError as error:
        raise MetasymError(
            f"{path}: expected {what}, found {error.strerror}", about=str(path), found=error.strerror
        ) from None
    try:
        found = parse(data)
    except ValueError:
        raise MetasymError(
            f"{path}: expected {what}, found a truncated or corrupted file; move it away to run again",
            about=str(path),
            found="a truncated or corrupted file",
        ) from None
    if not isinstance(found, dict):
        raise MetasymError(
            f"{path}: expected {what}, found a {type(found).__name__}",
            about=str(path),
            found=type(found).__name__,
        )
    described(found, kind, str(path))
    return found


def parse(data: bytes) -> Any:
    """The value of some JSON; ``ValueError`` for other text, for values too deep, and for text no file can hold."""
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("too deep") from None
    _check(found, _DEEPEST)
    return found


def _check(value: Any, left: int) -> None:
    if left == 0:
        raise ValueError("too deep")
    if isinstance(value, dict):
        for key, item in value.items():
            _check(key, left)
            _check(item, left - 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, left - 1)
    elif isinstance(value, str):
        value.encode()  # half a character, \ud800, is a UnicodeError, which is a ValueError


def storable(value: Any) -> Any:
    """``value`` as it can be read again: null for numbers that JSON does not know, undecoded bytes as their numbers.

    A file name that is not Unicode has such bytes, and reaches a config with the name of the data.
    """
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    if isinstance(value, str):
        return as_bytes(value).decode()
    return None if isinstance(value, float) and not math.isfinite(value) else value
