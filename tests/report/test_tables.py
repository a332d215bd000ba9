from __future__ import annotations

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from metasym.paper.synthetic_cells import Printed
from metasym.report.figures import sizes_figure
from metasym.report.table_cells import load_cells
from metasym.report.tables import Compared, compared, comparison, render
from metasym.storage.json_files import write_json
from tests.refusals import refused, within


def result(
    name: str,
    per_task: list[float],
    *,
    seed: int = 0,
    recipe: str = "paper",
    lrs=None,
    diverged: int = 0,
    image_size: int = 32,
):
    return {
        "config": {"recipe": {"image_size": image_size}},
        "experiment": name,
        "recipe": recipe,
        "method": "msr",
        "metric": "mse",
        "mean": float(np.mean(per_task)),
        "ci95": 0.1,
        "median": float(np.median(per_task)),
        "per_task": per_task,
        "outer_steps": 1000,
        "inner_lrs": lrs or {"v": 0.25},
        "seed": seed,
        "diverged": diverged,
    }


def store(folder, *results):
    for number, value in enumerate(results):
        write_json(folder / f"{number}.json", value)


MSR = "translation/rank1/small/msr-fc"


def test_seeds_are_pooled(tmp_path):
    store(tmp_path, result(MSR, [0.05, 0.07]), result(MSR, [0.09, 0.11], seed=1, diverged=1))
    (cell,) = load_cells(tmp_path)
    assert cell.seeds == (0, 1)
    assert cell.mean == pytest.approx(0.08)
    assert (cell.lowest, cell.highest) == pytest.approx((0.06, 0.10))
    assert cell.median == pytest.approx(0.08)
    # Student's t with 3 degrees of freedom: 3.1824 times the standard error.
    assert cell.ci95 == pytest.approx(3.18245 * np.std([0.05, 0.07, 0.09, 0.11], ddof=1) / 2, rel=1e-4)
    assert cell.diverged == 1
    assert cell.tasks == 4


@pytest.mark.parametrize(
    ("mean", "ci95", "printed", "wanted"),
    [
        (0.075, 0.01, Printed(".07", ".02"), "inside"),
        (0.0004, 0.0001, Printed(".00", ".00"), "inside"),
        (0.02, 0.001, Printed(".00", ".00"), "worse"),
        (0.02, 0.012, Printed(".00", ".00"), "overlaps"),
        (0.03, 0.01, Printed(".07", ".02"), "better"),
        (0.13, 0.01, Printed(".07", ".02"), "worse"),
        (math.nan, math.nan, Printed(".07", ".02"), "worse"),
        (0.0059, 0.001, Printed(".004"), "worse"),
        (0.0042, 0.001, Printed(".004"), "equal"),
        (0.25, 0.1, Printed(".504"), "better"),
    ],
)
def test_comparisons(mean, ci95, printed, wanted):
    assert compared(mean, ci95, printed) is Compared(wanted)


def test_table1_as_markdown_and_for_the_terminal(tmp_path):
    store(
        tmp_path,
        result("translation/rank2/large/maml-fc", [2.0, 2.2]),
        result(MSR, [0.07, 0.08]),
        result("translation/rank1/small/oracle-fc", [0.001, float("nan")], diverged=1),
        result(MSR, [0.001, 0.002], recipe="best"),
    )
    table = render("table1", tmp_path)
    text = table.markdown()
    assert [row[1] for row in table.rows] == [
        "msr-fc (paper)",
        "oracle-fc (paper)",
        "maml-fc (paper)",
        "msr-fc (best)",
    ]
    assert "| translation/rank1/small | msr-fc (paper) | 0.0750 ± 0.0635 |" in text
    assert "| .07 ± .02 | inside |" in text
    assert "nan ± nan" in text
    assert "| 1 / 2 (rest 0.0010) | - | - |" in text
    shown = io.StringIO()
    Console(width=160, file=shown).print(table)
    assert "2.10 ± 1.27" in shown.getvalue()


def test_diverged_tasks_do_not_hide_the_rest(tmp_path):
    """A mean that one task rules is worse, however wide its interval; the others are judged beside it."""
    first = {**result(MSR, [0.06, 0.08, 1e18], diverged=1), "target_mean_square": 2.0}
    second = {**result(MSR, [0.07, float("nan"), 19.0], seed=1, diverged=1), "target_mean_square": 2.0}
    store(tmp_path, first)
    (cell,) = load_cells(tmp_path)
    assert cell.rest == pytest.approx(0.07)
    assert comparison("table1", [cell]).rows[0][-3:] == (
        "1 / 3 (rest 0.0700)",
        ".07 ± .02",
        "worse; rest inside",
    )
    store(tmp_path, first, second)
    (cell,) = load_cells(tmp_path)
    assert cell.rest == pytest.approx((0.06 + 0.08 + 0.07 + 19.0) / 4)
    assert math.isnan(cell.mean)
    assert math.isnan(cell.highest)
    assert cell.lowest == pytest.approx(1e18 / 3)


def test_table2_gives_ratios(tmp_path):
    store(
        tmp_path,
        result("rotation/rot45/msr-conv", [0.006, 0.006]),
        result("rotation/rot90/msr-conv", [0.1, 0.2]),
    )
    rows = {row[0]: row for row in render("table2", tmp_path).rows}
    assert rows["rotation/rot45"][-2:] == (".004", "worse, 1.50 x")
    assert rows["rotation/rot90"][-2:] == ("-", "-")


def test_the_table_of_step_sizes(tmp_path):
    name = "translation/rank1/small/msr-joint-fc"
    store(
        tmp_path,
        result(name, [0.2, 0.2], lrs={"U": -0.02, "v": 0.2}),
        result(name, [0.2, 0.2], lrs={"U": -0.04, "v": 0.282}, seed=1),
        result(MSR, [0.1, 0.1]),
    )
    (row,) = render("lrs", tmp_path).rows
    assert row == ("translation/rank1/small", "-0.030", "-0.017", "+0.241", "+0.241", "1.00 x", "8 x")


def test_bad_results(tmp_path):
    with refused(str(tmp_path), 0):
        render("table1", tmp_path)
    (tmp_path / "x.json").write_text(json.dumps({"experiment": MSR}))
    with refused(within(tmp_path / "x.json", "recipe"), None):
        render("table1", tmp_path)
    store(tmp_path / "lrs", result(MSR, [0.1, 0.1]))
    with refused("msr-joint-fc", 0):
        render("lrs", tmp_path / "lrs")


def test_image_sizes_side_by_side(tmp_path):
    for size, (maml, msr, oracle) in {8: (0.12, 0.05, 0.04), 32: (0.02, 0.01, 0.01)}.items():
        for method, value in (("maml-conv", maml), ("msr-conv", msr), ("oracle-conv", oracle)):
            name = f"rotation/rot45/{method}"
            write_json(tmp_path / f"{method}-{size}.json", result(name, [value, value], image_size=size))
    table = render("sizes", tmp_path)
    assert [row[:2] for row in table.rows] == [("rotation/rot45", "8"), ("rotation/rot45", "32")]
    assert [row[-2:] for row in table.rows] == [("2.40 x", "1.25 x"), ("2.00 x", "1.00 x")]
    files = sizes_figure(load_cells(tmp_path), tmp_path / "sizes")
    assert [f.suffix for f in files] == [".png", ".svg"]
    again = files[1].read_bytes()
    assert sizes_figure(load_cells(tmp_path), tmp_path / "sizes")[1].read_bytes() == again
