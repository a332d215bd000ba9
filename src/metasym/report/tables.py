"""Our results compared with the paper's: read from result files, rendered for a terminal or as Markdown."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metasym.paper.catalogue import names
from metasym.paper.image_cells import TABLE3
from metasym.paper.synthetic_cells import RECIPES, STEP_SIZES, TABLE1, TABLE2, Printed
from metasym.report.text_table import Table
from metasym.runs.files.result_files import DIVERGED, read_result, result_files
from metasym.training.task_scores import summarise
from metasym.types import MetasymError


@dataclass(frozen=True)
class Cell:
    """All seeds of one experiment with one recipe."""

    name: str
    recipe: str
    seeds: tuple[int, ...]
    mean: float
    """The mean over all test tasks of all seeds."""
    ci95: float
    """The 95 % interval of that mean, over the tasks of all seeds."""
    lowest: float
    """The lowest of the seeds' means."""
    highest: float
    """The highest of the seeds' means."""
    median: float
    diverged: int
    rest: float
    """The mean over the tasks that did not diverge: one task alone cannot dominate it."""
    rest_ci95: float
    tasks: int
    outer_steps: int
    image_size: int
    inner_lrs: dict[str, float]
    """The mean over the seeds."""
    tasks_per_step: int = 0
    hours: float = math.nan
    """Processor time of the longest run, over all its starts."""
    inner_steps: tuple[int, ...] = ()
    """The numbers of inner steps at test, over all seeds; empty where nothing adapts."""
    memory: float = math.nan
    """The memory of the largest run, in MiB."""
    per_task: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """The scores of the test tasks, by seed: runs of the same seed have the same tasks."""


def load_cells(
    folder: Path,
    recipes: Sequence[str] | None = None,
    only: str | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Cell]:
    """The cells in a folder of small result files (and below it), in the order of the catalogue.

    ``recipes``, ``only``, a pattern of experiments' names, and ``seeds`` choose among them.
    """
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    wanted = None if only is None else set(names(only))
    for path in result_files(folder):
        found = read_result(path)
        if (
            (recipes and found["recipe"] not in recipes)
            or (wanted is not None and found["experiment"] not in wanted)
            or (seeds is not None and found["seed"] not in seeds)
        ):
            continue
        groups.setdefault((found["recipe"], found["experiment"], _image_size(found)), []).append(found)
    if not groups:
        which = "".join(
            [
                f" of {' and '.join(recipes)}" if recipes else "",
                f" for {only}" if only else "",
                f" with seed {' or '.join(map(str, seeds))}" if seeds else "",
            ]
        )
        raise MetasymError(f"{folder}: expected result files{which}, found none", about=str(folder), found=0)
    order = {name: i for i, name in enumerate(names())}
    keys = sorted(groups, key=lambda key: (_place(key[0]), order.get(key[1], len(order)), key[2]))
    return [pool(groups[key]) for key in keys]


def pool(results: Sequence[dict[str, Any]]) -> Cell:
    """One cell from the results of its seeds."""
    first = results[0]
    tasks = np.concatenate([np.asarray(r["per_task"], dtype=np.float64) for r in results])
    means = [float(np.mean(r["per_task"])) for r in results]
    score = summarise(tasks)
    bounds = [DIVERGED * r.get("target_mean_square", math.inf) for r in results]
    limit = np.repeat(bounds, [len(r["per_task"]) for r in results])
    rest = tasks[np.isfinite(tasks) & (tasks <= limit)]
    others = summarise(rest) if len(rest) else score
    rates = {
        key: float(np.mean([r["inner_lrs"][key] for r in results if r["inner_lrs"].get(key) is not None]))
        for key in first["inner_lrs"]
    }
    return Cell(
        name=first["experiment"],
        recipe=first["recipe"],
        seeds=tuple(sorted(r["seed"] for r in results)),
        mean=score.mean,
        ci95=score.ci95,
        lowest=float(np.nanmin([*means, math.inf])),
        highest=float(np.max(means)),  # NaN where one of them is
        median=score.median,
        diverged=sum(r["diverged"] for r in results),
        rest=others.mean,
        rest_ci95=others.ci95,
        tasks=len(tasks),
        outer_steps=first["outer_steps"],
        image_size=_image_size(first),
        inner_lrs=rates,
        tasks_per_step=first["config"]["recipe"].get("tasks_per_step", 0),
        hours=max(float(r.get("cpu_seconds", r.get("seconds", math.nan))) for r in results) / 3600,
        inner_steps=tuple(sorted({steps for r in results if (steps := _test_steps(r)) is not None})),
        memory=max(float(r.get("peak_memory_mb", math.nan)) for r in results),
        per_task={r["seed"]: tuple(r["per_task"]) for r in results},
    )


class Compared(enum.StrEnum):
    """How a mean with its interval compares with the paper's number."""

    INSIDE = "inside"
    """The paper's interval."""
    OVERLAPS = "overlaps"
    """The two intervals."""
    BETTER = "better"
    WORSE = "worse"
    EQUAL = "equal"
    """To a number that the paper prints without an interval, as far as it is printed."""


_COLOURS = {Compared.WORSE: "red", Compared.BETTER: "green", Compared.INSIDE: "green"}


def compared(mean: float, ci95: float, printed: Printed) -> Compared:
    """``mean`` with the paper's number, whose rounding is allowed for: .00 is < .005."""
    if printed.interval is None:
        if not mean <= printed.mean + printed.rounding:
            return Compared.WORSE
        return Compared.BETTER if mean < printed.mean - printed.rounding else Compared.EQUAL
    reach = printed.interval + 2 * printed.rounding
    if abs(mean - printed.mean) <= reach:
        return Compared.INSIDE
    if mean < printed.mean:
        return Compared.BETTER
    return Compared.OVERLAPS if mean - ci95 <= printed.mean + reach else Compared.WORSE


def _judged(cell: Cell, printed: Printed | None) -> tuple[str, str]:
    """The comparison in words, with the ratio where the paper has no interval, and the row's colour.

    A mean dominated by diverged tasks is worse, whatever its interval; the rest is judged too.
    """
    if printed is None:
        return "-", ""

    def words(mean: float, found: Compared) -> str:
        return found if printed.interval is not None else f"{found}, {mean / printed.mean:.2f} x"

    whole = compared(cell.mean, 0.0 if cell.diverged else cell.ci95, printed)
    said = words(cell.mean, whole)
    if cell.diverged:
        rest = words(cell.rest, compared(cell.rest, cell.rest_ci95, printed))
        said = said if said == rest else f"{said}; rest {rest}"
    return said, _COLOURS.get(whole, "")


def comparison(table: str, cells: Sequence[Cell]) -> Table:
    """Table 1 or Table 2: ours and the paper's."""
    paper, title = {
        "table1": (TABLE1, "Table 1: (partial) translation symmetry, MSE on test tasks"),
        "table2": (TABLE2, "Table 2: rotations and flips, MSE on test tasks"),
    }[table]
    several = len({cell.recipe for cell in cells}) > 1
    rows, colours = [], []
    for cell in cells:
        problem, _, method = cell.name.rpartition("/")
        printed = paper.get(cell.name)
        said, colour = _judged(cell, printed)
        colours.append(colour)
        rows.append(
            (
                problem,
                f"{method} ({cell.recipe})" if several else method,
                f"{_number(cell.mean)} ± {_number(cell.ci95)}",
                f"{_number(cell.lowest)} .. {_number(cell.highest)}",
                _number(cell.median),
                f"{cell.diverged} / {cell.tasks}"
                + (f" (rest {_number(cell.rest)})" if cell.diverged else ""),
                str(printed) if printed else "-",
                said,
            )
        )
    header = ("problem", "method", "ours", "over seeds", "median", "diverged", "paper", "verdict")
    return Table(title, header, tuple(rows), _remarks(cells), tuple(colours))


def accuracies(cells: Sequence[Cell], beside: Sequence[Cell] = ()) -> Table:
    """Table 3: ours and the paper's, with the number of steps that each has been trained for.

    ``beside`` has cells without a row of their own: MSR's may be among them, which the others are compared with.
    """
    order = {name: number for number, name in enumerate(names())}
    known = {(cell.name, cell.recipe): cell for cell in (*beside, *cells)}
    several = len({cell.recipe for cell in cells}) > 1
    rows = []
    # A cell's recipes stand next to each other, which shows what more steps bring.
    for cell in sorted(cells, key=lambda cell: order.get(cell.name, len(order))):
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
    remarks = (
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
    which = "" if several else f", recipe {cells[0].recipe}"
    return Table(f"Table 3: accuracy on augmented query images{which}", header, tuple(rows), remarks)


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


def step_sizes(cells: Sequence[Cell]) -> Table:
    """The step sizes that MSR-Joint learned for U and v, beside the paper's."""
    rows = []
    for cell in cells:
        printed = STEP_SIZES.get(cell.name)
        if printed is None:
            continue
        u, v = cell.inner_lrs.get("U", math.nan), cell.inner_lrs.get("v", math.nan)
        rows.append(
            (
                cell.name.rpartition("/")[0],
                f"{u:+.3f}",
                f"{printed['U'].mean:+.3f}",
                f"{v:+.3f}",
                f"{printed['v'].mean:+.3f}",
                f"{v / printed['v'].mean:.2f} x",
                f"{abs(v / u):.0f} x" if u else "-",
            )
        )
    if not rows:
        raise MetasymError("expected results of msr-joint-fc, found none", about="msr-joint-fc", found=0)
    header = ("problem", "U", "U, paper", "v", "v, paper", "v / paper's", "v / |U|")
    seeds = ", ".join(map(str, sorted({seed for cell in cells for seed in cell.seeds})))
    remark = f"Ours: the mean of the step sizes at the end of training, seeds {seeds}."
    return Table("Step sizes that MSR-Joint-FC learns", header, tuple(rows), (remark,))


def image_sizes(cells: Sequence[Cell]) -> Table:
    """MAML-Conv, MSR-Conv and the oracle over the size of the images: where the learned symmetry pays."""
    methods = ("maml-conv", "msr-conv", "oracle-conv")
    found = {(*c.name.rpartition("/")[::2], c.image_size): c for c in cells}
    rows = []
    for problem, size in dict.fromkeys((c.name.rpartition("/")[0], c.image_size) for c in cells):
        three = [found.get((problem, method, size)) for method in methods]
        maml, msr, oracle = three
        shown = [f"{_number(c.mean)} ± {_number(c.ci95)}" if c else "-" for c in three]
        gain = f"{maml.mean / msr.mean:.2f} x" if maml and msr else "-"
        rest = f"{msr.mean / oracle.mean:.2f} x" if msr and oracle else "-"
        rows.append((problem, str(size), *shown, gain, rest))
    header = ("problem", "image size", *methods, "maml / msr", "msr / oracle")
    return Table(
        "Rotation problems over the size of the images, MSE", header, tuple(rows), _remarks(cells)[:1]
    )


def render(
    table: str,
    folder: Path,
    recipes: Sequence[str] | None = None,
    only: str | None = None,
    seeds: Sequence[int] | None = None,
) -> Table:
    """The table of a folder of small result files, or of those that ``recipes``, ``only`` and ``seeds`` choose."""
    cells = load_cells(folder, recipes, only, seeds)
    if table == "sizes":
        return image_sizes(cells)
    if table == "table3":
        return accuracies(cells, load_cells(folder, recipes, None, seeds))
    return step_sizes(cells) if table == "lrs" else comparison(table, cells)


def _remarks(cells: Sequence[Cell]) -> tuple[str, ...]:
    seeds = sorted({seed for cell in cells for seed in cell.seeds})
    plural = "seeds" if len(seeds) > 1 else "seed"
    return (
        f"Ours: mean over the test tasks of {plural} {', '.join(map(str, seeds))}, with the 95 % interval.",
        "Over seeds: the lowest and the highest of the seeds' means; each seed draws its own data and start.",
        "Diverged: tasks with an error of NaN, infinity, or more than 10 times that of predicting 0; in brackets the "
        "mean of the others.",
        "Verdict: inside the paper's interval; else overlaps with it, better or worse. The paper's .00 is < .005.",
    )


def _test_steps(found: dict[str, Any]) -> int | None:
    """The inner steps of a run's test: those that its validation chose, or its recipe's."""
    if found["method"] == "protonet":
        return None
    chosen = found.get("inner_steps_chosen", found["config"]["recipe"].get("test_inner_steps"))
    return None if chosen is None else int(chosen)


def _place(recipe: str) -> tuple[int, str]:
    """The order of recipes: as the catalogue has them, others behind."""
    return (RECIPES.index(recipe) if recipe in RECIPES else len(RECIPES), recipe)


def _image_size(found: dict[str, Any]) -> int:
    return int(found["config"]["recipe"]["image_size"])


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if 0 < abs(value) < 1e-4:
        return f"{value:.1e}"
    return f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 1000 else f"{value:.1e}"
