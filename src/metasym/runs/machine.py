"""The machine and the code that a result was made with, and what can go wrong on a machine."""

from __future__ import annotations

import contextlib
import platform
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from torch import nn

import metasym
from metasym.adaptation.functional import evaluating
from metasym.types import Episode, MetasymError

_FEW_FLOPS = 2e7
"""About a millisecond of one core for all tasks of a step: beyond it a second thread begins to help."""

_MOST_THREADS = 256
"""Beyond some thousands the library that shares the work ends the process without a word."""


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


def versions() -> dict[str, str]:
    """The versions that every result names."""
    return {
        "metasym": metasym.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@contextlib.contextmanager
def threads(count: int | None) -> Iterator[None]:
    """Run torch with this many threads (None: its own choice) and restore the number afterwards."""
    if count is not None and not 1 <= count <= _MOST_THREADS:
        raise MetasymError(
            f"expected 1 to {_MOST_THREADS} threads, found {count}", about="threads", found=count
        )
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def threads_of_small_problems(count: int | None) -> Iterator[None]:
    """Torch and numpy with this many threads; None is one, whatever the environment says.

    Threads that wait for each other gain little on systems of at most some thousand rows, and on a machine that is
    busy with other programs they take many times as long.
    """
    with threads(count or 1), threadpool_limits(count or 1):
        yield


def enough_threads(model: nn.Module, episodes: Episode, tasks: int) -> int:
    """How many threads a step on ``tasks`` tasks like these needs: one where there is little to share.

    Two threads that wait for each other gain nothing on small products, and stall on a machine that is busy with
    other programs. Counted are the multiplications of one forward pass; nothing is timed, so that equal runs are
    computed alike.
    """
    from torch.utils.flop_counter import FlopCounterMode

    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    counter = FlopCounterMode(display=False)
    with torch.no_grad(), evaluating(model), counter:
        try:
            model(episodes.query.x[0].to(device))
        except (RuntimeError, ValueError, TypeError):  # the step itself reports what does not fit
            return torch.get_num_threads()
    return threads_for(counter.get_total_flops() * tasks)


def threads_for(flops: float) -> int:
    """How many threads a step of so many multiplications and additions needs."""
    return 1 if flops < _FEW_FLOPS else torch.get_num_threads()


@contextlib.contextmanager
def one_line(folder: Path) -> Iterator[None]:
    """A full disk or an unwritable folder as one line; what was written before stays."""
    try:
        yield
    except OSError as error:
        raise MetasymError(
            f"{folder}: expected to write results, found {error.strerror}",
            about=str(folder),
            found=error.strerror,
        ) from None
