"""The states of a table's cells as a table: what is done, what is running and how far, what is left."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from metasym.paper.catalogue import printed
from metasym.report.text_table import Table
from metasym.runs.reproducing.table_status import DONE, RUNNING, STOPPED, TESTING, TRAINED, CellState

_UNFINISHED = (RUNNING, STOPPED, TESTING, TRAINED)


def states(table: str, cells: Sequence[CellState], places: str = "") -> Table:
    """One row for each cell, and remarks that sum them up; ``places`` says which folders were read."""
    recipes, seeds = ({getattr(cell, of) for cell in cells} for of in ("recipe", "seed"))
    rows = []
    for cell in cells:
        problem, _, method = cell.name.rpartition("/")
        size = "" if table != "sizes" else f" {cell.image_size} x {cell.image_size}"
        recipe = f", {cell.recipe}" if len(recipes) > 1 else ""
        seed = f", seed {cell.seed}" if len(seeds) > 1 else ""
        paper = printed(cell.name)
        rows.append(
            (
                problem + size + recipe + seed,
                method,
                cell.state,
                f"{cell.step:,}" if cell.state == DONE else f"{cell.step:,} / {cell.steps:,}",
                _score(cell.metric, cell.validation)
                + (f" at {cell.validated_at:,}" if cell.validation is not None else ""),
                _score(cell.metric, cell.test, cell.ci95),
                str(paper) if paper else "-",
                _hours(cell.hours),
                _hours(cell.hours_left if cell.state != DONE else None),
            )
        )
    header = (
        "problem", "method", "state", "steps", "validation", "test", "paper", "hours", "hours left",
    )  # fmt: skip
    title = table if len(recipes) > 1 else f"{table}, recipe {cells[0].recipe}"
    # The rows of one heading stand together, where it comes first.
    first = {row[0]: place for place, row in reversed(list(enumerate(rows)))}
    rows.sort(key=lambda row: first[row[0]])
    refused = tuple(f"Refused: {cell.error}." for cell in cells if cell.error)
    return Table(title, header, tuple(rows), (*_remarks(cells), *refused, *((places,) if places else ())))


def _remarks(cells: Sequence[CellState]) -> tuple[str, ...]:
    counts = Counter(cell.state for cell in cells)
    spent = sum(cell.hours or 0.0 for cell in cells)
    left = [cell.hours_left or 0.0 for cell in cells if cell.state in _UNFINISHED]
    begun = f"; {sum(left):.1f} hours left for runs in progress" if left else ""
    if len(left) > 1:
        begun += f", {max(left):.1f} for the longest run"
    score = "accuracy in %" if cells[0].metric == "accuracy" else "mean squared error"
    return (
        f"{', '.join(f'{count} {state}' for state, count in counts.items())} of {len(cells)} runs; "
        f"{spent:.1f} hours spent{begun}.",
        f"Validation: the last {score} on validation tasks, and its step. Hours: processor time; left: by the clock, "
        "at the run's own rate, its test included.",
    )


def _score(metric: str, value: float | None, ci95: float | None = None) -> str:
    if value is None:
        return "-"
    unit, digits = (100, 1) if metric == "accuracy" else (1, 4)
    shown = f"{unit * value:.{digits}f}"
    if ci95 is not None and math.isfinite(ci95):
        shown += f" ± {unit * ci95:.{digits}f}"
    return shown


def _hours(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
