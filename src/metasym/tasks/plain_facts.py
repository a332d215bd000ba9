"""Facts about any file or array: when it was changed, how large it is, how large its numbers may be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy.typing as npt

Array = npt.NDArray[Any]
TABLES = (".csv", ".tsv", ".parquet")
"""Files that are tables, by their suffix."""
LEAST_SIZE, LARGEST_SIZE = 1e-100, 1e150
"""Between these the squares of numbers, and products of squares, differ from 0 and from infinity."""


def stamp_of(path: Path) -> tuple[int, int]:
    """When a file was last changed, and its size."""
    about = path.stat()
    return about.st_mtime_ns, about.st_size


def size_in_words(count: int) -> str:
    """Bytes as MB or GB."""
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"
