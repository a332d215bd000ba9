"""Many runs side by side, each a program of its own: on this machine, or on a cluster, through joblib."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from metasym.storage.locks import is_held
from metasym.types import MetasymError

Backend = Literal["threading", "dask"]
BACKENDS: tuple[Backend, ...] = ("threading", "dask")
_PATIENCE = 120.0
"""Seconds for which a folder may be held by a run whose worker was killed: it ends after its step."""
_RUNNING: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True)
class Cell:
    """One run: a module of Python with its arguments, and the folder that it writes to."""

    module: str
    arguments: tuple[str, ...]
    folder: Path | None = None

    @property
    def command(self) -> list[str]:
        """The command for a shell."""
        return ["python", "-m", self.module, *self.arguments]


@dataclass(frozen=True)
class Where:
    """Where cells run: ``jobs`` at once here, or on the workers of the dask cluster at ``scheduler``."""

    jobs: int = 1
    backend: Backend = "threading"
    scheduler: str | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise MetasymError(f"expected jobs >= 1, found {self.jobs}", about="jobs", found=self.jobs)
        if self.backend not in BACKENDS:
            raise MetasymError(
                f"expected one of the backends {', '.join(BACKENDS)}, found {self.backend!r}",
                about="backend",
                found=self.backend,
            )
        if (self.scheduler is not None) != (self.backend == "dask"):
            raise MetasymError(
                "expected --scheduler ADDRESS with --backend dask and with no other, found "
                f"{self.backend} {'with' if self.scheduler else 'without'} one",
                about="scheduler",
                found=self.scheduler,
            )

    @property
    def beside(self) -> bool:
        """Whether cells run in programs of their own."""
        return self.jobs > 1 or self.backend != "threading"


def run_cells(cells: Sequence[Cell], where: Where, done: Callable[[int, str | None], None]) -> None:
    """Run all of them; ``done(number, error)`` is called as each ends, in whatever order."""
    from joblib import Parallel, delayed

    with _backend(where) as jobs:
        pool = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1, pre_dispatch="all")
        try:
            for number, error in pool(delayed(run_cell)(number, cell) for number, cell in enumerate(cells)):
                done(number, error)
        except BaseException:
            for process in list(_RUNNING):  # each finishes its step and writes a checkpoint
                process.send_signal(signal.SIGTERM)
            raise


def run_cell(number: int, cell: Cell) -> tuple[int, str | None]:
    """Run one cell here, with one thread: its number, and the last line of what it says if it fails."""
    if cell.folder is not None:
        until = time.monotonic() + _PATIENCE
        while is_held(cell.folder) and time.monotonic() < until:
            time.sleep(0.5)
    process = subprocess.Popen(
        [sys.executable, "-m", "metasym.runs.attended", cell.module, *cell.arguments],
        stdin=subprocess.PIPE,  # closed when this program ends, however it ends
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    _RUNNING.add(process)
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        with process.stdin, process.stderr as said:
            lines = said.read().strip().splitlines()
            status = process.wait()
    finally:
        _RUNNING.discard(process)
    return number, None if status == 0 else lines[-1] if lines else f"exit {status}"


@contextmanager
def _backend(where: Where) -> Iterator[int]:
    """Joblib told where to run; how many at once."""
    from joblib import parallel_config

    if where.backend == "threading":
        with parallel_config(backend="threading"):
            yield where.jobs
        return
    try:
        from distributed import Client
    except ImportError:
        raise MetasymError(
            "expected the package distributed for --backend dask (pip install 'metasym[cluster]'), found none",
            about="distributed",
        ) from None
    try:
        client: Any = Client(where.scheduler, timeout=20)  # type: ignore[no-untyped-call]
    except (OSError, TimeoutError, ValueError) as error:
        raise MetasymError(
            f"expected a dask scheduler at {where.scheduler}, found {str(error).splitlines()[0]}",
            about="scheduler",
            found=where.scheduler,
        ) from None
    with client, parallel_config(backend="dask"):
        yield -1
