"""The machine and the code that a result was made with, and what can go wrong on a machine."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import torch

from metasym.types import MetasymError


def commit() -> str | None:
    """The commit of the code, where it is run from a git checkout."""
    try:
        found = subprocess.run(
            ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return found.stdout.strip() or None


@contextlib.contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Run torch with this many threads (None: its own choice) and restore the number afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def one_line(folder: Path) -> Iterator[None]:
    """A full disk or an unwritable folder as one line; what was written before stays."""
    try:
        yield
    except OSError as error:
        raise MetasymError(f"{folder}: expected to write results, found {error.strerror}") from None
