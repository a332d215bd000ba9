"""JSON objects as files: written atomically, read with one line about what is wrong."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from metasym.storage.atomic import make_folder, write_atomically
from metasym.types import MetasymError


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write ``value`` atomically, a line for each key; NaN and infinity, which JSON does not know, as null."""
    make_folder(path.parent)
    lines = [
        f" {json.dumps(key)}: {json.dumps(_finite(item), allow_nan=False)}" for key, item in value.items()
    ]
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode(), what="a JSON file")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in the file, or one line that says why not."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise MetasymError(f"{path}: expected {what}, found {error.strerror}") from None
    except (ValueError, RecursionError):
        raise MetasymError(
            f"{path}: expected {what}, found a truncated or corrupted file; move it away to run again"
        ) from None
    if not isinstance(found, dict):
        raise MetasymError(f"{path}: expected {what}, found a {type(found).__name__}")
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
