"""The states of a table's cells as a table: what is done, what is running and how far, what is left."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from metasym.experiments.paper.catalogue import printed
from metasym.experiments.paper.table_status import DONE, RUNNING, CellState
from metasym.report.tables import Table


def states(table: str, cells: Sequence[CellState]) -> Table:
    """One row for each cell, and a remark that sums them up."""
    several = len({cell.recipe for cell in cells}) > 1
    rows = []
    for cell in cells:
        problem, _, method = cell.name.rpartition("/")
        size = "" if table != "sizes" else f" {cell.image_size} x {cell.image_size}"
        paper = printed(cell.name)
        rows.append(
            (
                problem + size,
                f"{method} ({cell.recipe})" if several else method,
                str(cell.seed),
                cell.state,
                f"{cell.step:,} / {cell.steps:,}",
                _score(cell.metric, cell.validation)
                + (f" at {cell.validated_at:,}" if cell.validation is not None else ""),
                _score(cell.metric, cell.test, cell.ci95),
                str(paper) if paper else "-",
                _hours(cell.hours),
                _hours(cell.hours_left if cell.state != DONE else None),
            )
        )
    header = (
        "problem", "method", "seed", "state", "steps", "validation", "test", "paper", "hours", "hours left",
    )  # fmt: skip
    title = table if several else f"{table}, recipe {cells[0].recipe}"
    return Table(title, header, tuple(rows), _remarks(cells))


def _remarks(cells: Sequence[CellState]) -> tuple[str, ...]:
    counts = Counter(cell.state for cell in cells)
    spent = sum(cell.hours or 0.0 for cell in cells)
    left = sum(cell.hours_left or 0.0 for cell in cells if cell.state == RUNNING)
    running = f"; {left:.1f} hours left for what is running" if counts[RUNNING] else ""
    return (
        f"{', '.join(f'{count} {state}' for state, count in counts.items())} of {len(cells)} runs; "
        f"{spent:.1f} hours spent{running}.",
        "Validation: the last score on validation tasks, and its step. Hours: processor time; left: by the clock, "
        "at the run's own rate.",
    )


def _score(metric: str, value: float | None, ci95: float | None = None) -> str:
    if value is None:
        return "-"
    unit, digits = (100, 1) if metric == "accuracy" else (1, 4)
    shown = f"{unit * value:.{digits}f}"
    if ci95 is not None and math.isfinite(ci95):
        shown += f" ± {unit * ci95:.{digits}f}"
    return f"{shown} %" if metric == "accuracy" else shown


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
