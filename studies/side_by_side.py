"""The cells of a study as programs of their own: several at once, on a dask cluster, or as lines for a job array.

A study whose cells each leave a file, and are not run again where it is there, is resumed and completed by the same
command. The workers of a cluster have to be started in the repository and see the same folders.
"""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterable

from metasym.runs.cells import BACKENDS, Cell, Where, run_cells


def add_where(parser: argparse.ArgumentParser) -> None:
    """The flags that say where cells run."""
    parser.add_argument("--jobs", type=int, default=1, help="cells side by side, of one thread each")
    parser.add_argument("--backend", choices=BACKENDS, default="threading", help="here, or on a dask cluster")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="of the dask cluster")
    parser.add_argument("--commands", action="store_true", help="print one command a cell; run nothing")


def elsewhere(options: argparse.Namespace, module: str, cells: Iterable[tuple[object, ...]]) -> bool:
    """Print the cells' commands or run them in programs of their own; False where they are to be run here."""
    wanted = [Cell(module, tuple(map(str, arguments))) for arguments in cells]
    if options.commands:
        for cell in wanted:
            print(shlex.join(cell.command))
        return True
    where = Where(options.jobs, options.backend, options.scheduler)
    if not where.beside:
        return False
    failed = []

    def done(number: int, error: str | None) -> None:
        failed.extend([] if error is None else [number])
        print(" ".join(wanted[number].arguments), "done" if error is None else f"failed: {error}", flush=True)

    run_cells(wanted, where, done)
    if failed:
        raise SystemExit(f"{len(failed)} of {len(wanted)} cells failed")
    return True
