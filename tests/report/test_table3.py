"""Table 3 and its learning curves from small result files."""

from __future__ import annotations

from pathlib import Path

from metasym.cli import main
from metasym.report.curves import curves_figures
from metasym.report.tables import render
from metasym.storage.json_files import write_json
from tests.refusals import refused, refused_command

NAME = "aug-omniglot/5way-1shot"


def result(method: str, per_task: list[float], **changes):
    found = {
        "config": {"recipe": {"image_size": 32, "tasks_per_step": 16, "test_inner_steps": 3}},
        "experiment": f"{NAME}/{method}",
        "recipe": "paper-cpu",
        "method": "msr",
        "metric": "accuracy",
        "mean": sum(per_task) / len(per_task),
        "ci95": 0.01,
        "median": 0.8,
        "per_task": per_task,
        "outer_steps": 1000,
        "inner_lrs": {"v": 0.4},
        "seed": 0,
        "diverged": 0,
        "seconds": 100.0,
        "cpu_seconds": 1800.0,
        "peak_memory_mb": 1500.4,
        "curve": {"step": [50, 100], "validation": [0.5, 0.6], "outer_loss": [1.0, 0.9]},
    }
    return {**found, **changes}


def test_ours_beside_the_papers_with_steps_and_cost(tmp_path):
    write_json(tmp_path / "a.json", result("msr", [0.8, 0.82, 0.84]))
    write_json(tmp_path / "b.json", result("maml", [0.7, 0.72, 0.74]))
    table = render("table3", tmp_path)
    rows = {row[1]: row for row in table.rows}
    # Student's t with 2 degrees of freedom: 4.303 x 0.02 / sqrt(3) = 0.0497
    assert rows["msr"] == (
        NAME, "msr", "82.0 ± 5.0", "95.3 ± 0.3", "-13.3", "-", "1,000 x 16", "0.50", "3", "3",
    )  # fmt: skip
    assert rows["maml"][3:5] == ("87.3 ± 0.5", "-15.3")
    text = table.markdown()
    assert table.title.endswith("recipe paper-cpu")
    assert f"| {NAME} | msr | 82.0 ± 5.0 | 95.3 ± 0.3 | -13.3 | - | 1,000 x 16 | 0.50 |" in text
    assert "60,000" in text
    assert "at most 1,500 MiB" in text


def test_msrs_lead_is_told_task_by_task(tmp_path):
    """Tasks differ by far more than the methods do on each: only their difference tells the methods apart."""
    msr, maml = [0.5, 0.7, 0.9], [0.47, 0.65, 0.86]
    write_json(tmp_path / "a.json", result("msr", msr))
    write_json(tmp_path / "b.json", result("maml", maml))
    write_json(tmp_path / "c.json", result("anil", maml[:2]))  # other tasks: nothing to compare
    write_json(tmp_path / "d.json", result("protonet", maml, recipe="paper"))  # another recipe
    write_json(
        tmp_path / "e.json", result("maml-big", [0.1, 0.1, 0.1], seed=1)
    )  # other tasks of another seed
    rows = {row[1].partition(" ")[0]: row for row in render("table3", tmp_path).rows}
    # differences 3, 5 and 4: 4.303 x 1 / sqrt(3) = 2.5
    assert {method: row[5] for method, row in rows.items()} == {
        "msr": "-", "maml": "+4.0 ± 2.5", "anil": "-", "protonet": "-", "maml-big": "-",
    }  # fmt: skip


def test_msrs_lead_takes_the_seeds_that_both_have(tmp_path):
    for seed in (1, 0):
        write_json(tmp_path / f"m{seed}.json", result("msr", [0.9, 0.8 + 0.1 * seed], seed=seed))
    write_json(tmp_path / "a.json", result("anil", [0.8, 0.82], seed=1))
    rows = {row[1]: row for row in render("table3", tmp_path).rows}
    assert rows["msr"][2].endswith("(85.0, 90.0)")  # each seed's mean
    assert rows["anil"][5] == "+9.0 ± 12.7"  # of 10 and 8 points, not of 10 and -2: 12.706 x 1.414 / sqrt(2)


def test_the_recipes_of_a_cell_stand_beside_each_other(tmp_path):
    write_json(tmp_path / "a.json", result("msr", [0.8, 0.82]))
    write_json(tmp_path / "b.json", result("msr", [0.9, 0.92], recipe="paper-day", outer_steps=4000))
    write_json(tmp_path / "c.json", result("maml", [0.9, 0.92], recipe="paper-day", outer_steps=4000))
    assert [row[1] for row in render("table3", tmp_path).rows] == [
        "maml (paper-day)", "msr (paper-cpu)", "msr (paper-day)",
    ]  # fmt: skip
    assert [row[1] for row in render("table3", tmp_path, ["paper-day"]).rows] == ["maml", "msr"]
    assert [row[1] for row in render("table3", tmp_path, ["paper-day"], "*/msr").rows] == ["msr"]
    with refused(str(tmp_path), 0):
        render("table3", tmp_path, ["best"], "*/msr")


def test_a_chosen_row_still_has_msrs_lead(tmp_path):
    write_json(tmp_path / "a.json", result("msr", [0.8, 0.82]))
    write_json(tmp_path / "b.json", result("maml", [0.7, 0.72]))
    (row,) = render("table3", tmp_path, None, "*/maml").rows
    assert row[5] == "+10.0 ± 0.0"


def test_show_takes_the_seeds_that_are_asked_for(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in (0, 1):
        path = tmp_path / "results" / "table3" / f"{seed}.json"
        write_json(path, result("msr", [0.8 + seed / 10, 0.82 + seed / 10], seed=seed))
    assert main(["reproduce", "table3", "--show", "--seeds", "1"]) == 0
    shown = capsys.readouterr().out
    assert "91.0 ± 12.7" in shown
    assert "(seed 1)" in shown
    refused_command(["reproduce", "table3", "--show", "--seeds", "2", "3"], found=0)
    refused_command(["reproduce", "table3", "--show", "--quick"], "--out", None)  # results/ has the full runs


def test_show_runs_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "results" / "table3" / "a.json", result("msr", [0.8, 0.82], recipe="paper-day"))
    before = sorted(tmp_path.rglob("*"))
    assert main(["reproduce", "table3", "--show", "--budget", "day"]) == 0
    assert "81.0 ± 12.7" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before
    assert main(["reproduce", "table3", "--show", "--markdown", "t.md"]) == 0
    assert "81.0 ± 12.7" in Path("t.md").read_text()


def test_the_documents_tables_are_those_of_the_result_files():
    """To write them anew: metasym reproduce table3 --show --recipe ... --markdown FILE."""
    root = Path(__file__).parents[2]
    page = (root / "docs" / "reproduction.md").read_text(encoding="utf-8")
    for recipes in (["paper-day", "best"], ["paper-cpu"]):
        assert render("table3", root / "results" / "table3", recipes).markdown() in page, recipes


def test_inner_steps_are_those_of_the_test(tmp_path):
    write_json(tmp_path / "a.json", result("msr", [0.8, 0.82], recipe="best", inner_steps_chosen=2))
    write_json(tmp_path / "b.json", result("msr", [0.8, 0.82], recipe="best", inner_steps_chosen=5, seed=1))
    write_json(tmp_path / "c.json", {**result("protonet", [0.9, 0.92]), "method": "protonet"})
    assert {row[1]: row[8] for row in render("table3", tmp_path).rows} == {
        "msr (best)": "2, 5", "protonet (paper-cpu)": "-",
    }  # fmt: skip


def test_curves_are_drawn_for_each_recipe_the_same_every_time(tmp_path):
    for number, method in enumerate(("msr", "maml")):
        write_json(tmp_path / f"{number}.json", result(method, [0.8, 0.82]))
    other = "aug-miniimagenet/5way-1shot/anil"
    write_json(tmp_path / "2.json", result("anil", [0.3, 0.32], experiment=other, seed=1))
    write_json(tmp_path / "3.json", result("anil", [0.3, 0.32], recipe="paper"))
    files = curves_figures(tmp_path, tmp_path / "figures")
    assert [f.name for f in files] == [
        f"curves-{recipe}.{kind}" for recipe in ("paper-cpu", "paper") for kind in ("png", "svg")
    ]
    before = [f.read_bytes() for f in files]
    assert [f.read_bytes() for f in curves_figures(tmp_path, tmp_path / "figures")] == before


def test_results_without_curves_draw_nothing(tmp_path):
    write_json(tmp_path / "a.json", {k: v for k, v in result("msr", [0.8, 0.9]).items() if k != "curve"})
    assert curves_figures(tmp_path, tmp_path / "figures") == []


def rates(recipe: str, **cells: tuple[float, int]):
    """A file of measured rates: steps an hour and all steps, by method."""
    found = {
        f"{NAME}/{method.replace('_', '-')}": {
            "steps_an_hour": rate,
            "measured_steps": 9,
            "outer_steps": steps,
            "tasks_per_step": 16,
            "peak_memory_mb": 900,
            "commit": "abc",
        }
        for method, (rate, steps) in cells.items()
    }
    return {"command": "python -m studies.step_rates", "recipe": recipe, "cells": found}


def test_cells_that_were_not_trained_show_their_measured_steps_an_hour(tmp_path):
    write_json(tmp_path / "a.json", result("msr", [0.8, 0.82, 0.84]))
    write_json(
        tmp_path / "rates" / "paper-cpu.json", rates("paper-cpu", msr=(5.0, 10), maml_big=(1250.4, 5000))
    )
    write_json(tmp_path / "rates" / "paper-day.json", rates("paper-day", maml_d8=(800.0, 4000)))
    table = render("table3", tmp_path, ["paper-cpu"])
    rows = {row[1]: row for row in table.rows}
    assert list(rows) == [
        "maml-big",
        "msr",
    ]  # in the catalogue's order; msr has a result, and no rate beside it
    assert rows["maml-big"][2:] == (
        "not trained: 1,250 steps an hour", "89.3 ± 0.4", "-", "-", "5,000 x 16", "(4.0)", "-", "-",
    )  # fmt: skip
    every = [row[1] for row in render("table3", tmp_path).rows]
    assert every == ["maml-big (paper-cpu)", "maml-d8 (paper-day)", "msr (paper-cpu)"]
    assert [row[1] for row in render("table3", tmp_path, only="*/msr").rows] == ["msr"]


def test_a_file_of_rates_that_does_not_fit_is_refused(tmp_path):
    write_json(tmp_path / "a.json", result("msr", [0.8, 0.82, 0.84]))
    broken = rates("paper-cpu", maml=(5.0, 10))
    broken["cells"][f"{NAME}/maml"]["steps_an_hour"] = "fast"
    path = tmp_path / "rates" / "paper-cpu.json"
    write_json(path, broken)
    with refused(about=f"{path}: cells[...].steps_an_hour"):
        render("table3", tmp_path)
