"""Table 3: accuracies next to the paper's, with what each took, and the cells that have not been trained."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasym.paper.catalogue import names
from metasym.paper.image_cells import TABLE3
from metasym.report.table_cells import Cell
from metasym.report.text_table import Table
from metasym.report.unfinished_cells import UnfinishedCell
from metasym.training.task_scores import summarise


def accuracies(
    cells: Sequence[Cell], beside: Sequence[Cell] = (), unfinished: Sequence[UnfinishedCell] = ()
) -> Table:
    """Table 3: ours and the paper's, with the number of steps that each has been trained for.

    ``beside`` has cells without a row of their own: MSR's may be among them, which the others are compared with.
    A cell without a result has a row too: it says how many steps an hour were measured.
    """
    order = {name: number for number, name in enumerate(names())}
    known = {(cell.name, cell.recipe): cell for cell in (*beside, *cells)}
    every: list[Cell | UnfinishedCell] = [*cells, *unfinished]
    several = len({cell.recipe for cell in every}) > 1
    rows: list[tuple[str, ...]] = []
    # A cell's recipes stand next to each other, which shows what more steps bring.
    for cell in sorted(every, key=lambda cell: order.get(cell.name, len(order))):
        if isinstance(cell, UnfinishedCell):
            rows.append(_unfinished_row(cell, several))
            continue
        problem, _, method = cell.name.rpartition("/")
        printed = TABLE3.get(cell.name)
        by_seed = ", ".join(f"{100 * np.mean(cell.per_task[seed]):.1f}" for seed in cell.seeds)
        rows.append(
            (
                problem,
                f"{method} ({cell.recipe})" if several else method,
                f"{100 * cell.mean:.1f} ± {100 * cell.ci95:.1f}"
                + (f" ({by_seed})" if len(cell.seeds) > 1 else ""),
                str(printed) if printed else "-",
                f"{100 * cell.mean - printed.mean:+.1f}" if printed else "-",
                _lead(known.get((f"{problem}/msr", cell.recipe)), cell),
                f"{cell.outer_steps:,} x {cell.tasks_per_step}",
                f"{cell.hours:.2f}",
                ", ".join(map(str, cell.inner_steps)) or "-",
                f"{cell.tasks:,}",
            )
        )
    header = (
        "problem", "method", "ours, %", "paper", "ours - paper", "msr - it", "steps x tasks", "hours", "inner steps",
        "test tasks",
    )  # fmt: skip
    seeds = sorted({cell.seeds for cell in cells}, key=len)
    remarks: tuple[str, ...] = (
        f"Ours: accuracy on the query sets of the test tasks (seed {', '.join(map(str, seeds[0]))}"
        + (
            f"; where brackets have their means, seeds {', '.join(map(str, seeds[-1]))}"
            if len(seeds) > 1
            else ""
        )
        + "), with the 95 % interval over tasks.",
        "Steps x tasks: outer steps and tasks in each; the paper has 60,000 x 32 (Omniglot), x 10 (MiniImagenet).",
        "Msr - it: the accuracy of MSR with the same recipe minus that of the method, task by task on the same test "
        "tasks, with its 95 % interval.",
        "Hours: processor time of the longest seed on one thread of the machine that ran it, and at most "
        f"{max(cell.memory for cell in cells):,.0f} MiB. Inner steps: at test.",
    )
    if unfinished:
        remarks += (
            "Not trained: the steps an hour measured on one core; in brackets the hours of all steps at that rate. "
            "Validations and the test come on top.",
        )
    which = "" if several else f", recipe {cells[0].recipe}"
    return Table(f"Table 3: accuracy on augmented query images{which}", header, tuple(rows), remarks)


def _unfinished_row(cell: UnfinishedCell, several: bool) -> tuple[str, ...]:
    problem, _, method = cell.name.rpartition("/")
    printed = TABLE3.get(cell.name)
    return (
        problem,
        f"{method} ({cell.recipe})" if several else method,
        f"not trained: {cell.steps_an_hour:,.0f} steps an hour",
        str(printed) if printed else "-",
        "-",
        "-",
        f"{cell.outer_steps:,} x {cell.tasks_per_step}",
        f"({cell.hours:.1f})",
        "-",
        "-",
    )


def _lead(msr: Cell | None, other: Cell) -> str:
    """The mean of MSR's accuracy minus the other's over the test tasks of the seeds that both have."""
    if msr is None or msr is other:
        return "-"
    pairs = [(msr.per_task[seed], other.per_task[seed]) for seed in other.seeds if seed in msr.per_task]
    if not pairs or any(len(mine) != len(others) for mine, others in pairs):
        return "-"
    return ahead(*(np.concatenate(side) for side in zip(*pairs, strict=True)))


def ahead(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The mean difference of accuracies on the same tasks, in points, with its 95 % interval."""
    score = summarise(np.subtract(ours, theirs), "accuracy")
    return f"{100 * score.mean:+.1f} ± {100 * score.ci95:.1f}"
