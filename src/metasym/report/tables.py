"""Our results compared with the paper's: read from result files, rendered for a terminal or as Markdown."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from pathlib import Path

from metasym.paper.synthetic_cells import STEP_SIZES, TABLE1, TABLE2, Printed
from metasym.report.accuracies import accuracies
from metasym.report.table_cells import Cell, load_cells
from metasym.report.text_table import Table
from metasym.report.unfinished_cells import load_unfinished
from metasym.types import MetasymError


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
    recipes = {cell.recipe for cell in cells}
    several = len(recipes) > 1
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
    named = title if several else ", ".join([title, *(f"recipe {recipe}" for recipe in recipes)])
    return Table(named, header, tuple(rows), _remarks(cells), tuple(colours))


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
        beside = load_cells(folder, recipes, None, seeds)
        finished = {(cell.name, cell.recipe) for cell in load_cells(folder)}
        return accuracies(cells, beside, load_unfinished(folder, finished, recipes, only))
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


def _number(value: float) -> str:
    if not math.isfinite(value):
        return str(value)
    if 0 < abs(value) < 1e-4:
        return f"{value:.1e}"
    return f"{value:.4f}" if abs(value) < 1 else f"{value:.2f}" if abs(value) < 1000 else f"{value:.1e}"
