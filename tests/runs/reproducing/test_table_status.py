"""How far a table is, from files alone: each state of a run, what is read from it, and that nothing is touched."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from metasym.cli import main
from metasym.cli.status_table import states
from metasym.paper import find
from metasym.runs.reproducing import experiment_run
from metasym.runs.reproducing.table_status import cell_state, table_status
from metasym.runs.reproducing.whole_tables import reproduce, run_folder
from metasym.storage.json_files import write_json
from metasym.storage.locks import FolderLock
from metasym.types import Record
from tests.refusals import refused_command

PROBLEM = "aug-omniglot/5way-1shot"
ONLY = "translation/rank1/small/maml-conv"


def begun(
    base: Path,
    name: str,
    steps: int,
    *,
    every: int = 2,
    recipe: str = "paper-day",
    stage: str = ".",
    validation_seconds: float | None = None,
    **changes,
):
    """The folder of a run as training leaves it after ``steps`` steps, half a line behind the last record."""
    experiment = find(name, recipe, **changes)
    folder = run_folder(base, experiment)
    write_json(folder / "config.json", experiment.as_dict())
    records = [
        Record(
            step=step,
            outer_loss=1.0,
            inner_loss_before=1.0,
            inner_loss_after=1.0,
            gradient_norm=1.0,
            steps_per_second=0.5,
            validation=0.5 + step / 1000 if step % every == 0 else None,
            validation_seconds=validation_seconds if step % every == 0 else None,
        ).as_dict()
        for step in range(1, steps + 1)
    ]
    (folder / stage).mkdir(exist_ok=True)
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / stage / "metrics.jsonl").write_text(lines + '{"step": ')
    return experiment, folder


def snapshot(base: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in [base, *base.rglob("*")]
    }


def test_a_run_is_waiting_running_stopped_and_trained(tmp_path):
    experiment = find(f"{PROBLEM}/msr", "paper-day")
    folder = run_folder(tmp_path, experiment)
    waiting = cell_state(experiment, folder, None)
    assert (waiting.state, waiting.step, waiting.steps, waiting.hours_left) == ("waiting", 0, 4000, None)
    assert not folder.exists()

    begun(tmp_path, f"{PROBLEM}/msr", 5)
    lock = FolderLock(folder)
    before = snapshot(tmp_path)
    running = cell_state(experiment, folder, None)
    assert (running.state, running.step) == ("running", 5)
    assert (running.validation, running.validated_at) == (0.504, 4)
    assert (running.test, running.hours) == (None, None)
    assert running.hours_left == pytest.approx(3995 / 0.5 / 3600)
    assert snapshot(tmp_path) == before
    lock.release()
    write_json(folder / "spent.json", {"cpu_seconds": 1800.0, "peak_memory_mb": 100.0, "starts": 2})
    stopped = cell_state(experiment, folder, None)
    assert (stopped.state, stopped.hours) == ("stopped", 0.5)

    begun(tmp_path, f"{PROBLEM}/msr", 4000, every=4000)
    trained = cell_state(experiment, folder, None)
    assert (trained.state, trained.step, trained.hours_left) == ("trained", 4000, 0.0)
    lock = FolderLock(folder)
    assert cell_state(experiment, folder, None).state == "testing"
    lock.release()


@pytest.mark.parametrize(
    ("method", "recipe", "validations"),
    [
        # By hand. Nine passes of a support image (three steps of three) and 5 queries a class in 64 tasks; the
        # test has 15 queries a class and 1,000 tasks.
        ("msr", "paper-day", (9 + 15) * 1000 / ((9 + 5) * 64)),
        ("protonet", "paper-day", (1 + 15) * 1000 / ((1 + 5) * 64)),
        # And one to five inner steps on 256 tasks each.
        ("maml", "best", ((9 + 15) * 1000 + (3 + 6 + 9 + 12 + 15 + 5 * 5) * 256) / ((9 + 5) * 64)),
    ],
)
def test_the_test_is_still_to_come(tmp_path, method, recipe, validations):
    name = f"{PROBLEM}/{method}"
    experiment, folder = begun(tmp_path, name, 4, recipe=recipe, validation_seconds=10.0)
    running = cell_state(experiment, folder, None)
    assert running.hours_left == pytest.approx((3996 / 0.5 + 10 * validations) / 3600)
    begun(tmp_path, name, 4000, every=4000, recipe=recipe, validation_seconds=10.0)
    assert cell_state(experiment, folder, None).hours_left == pytest.approx(10 * validations / 3600)
    lock, metrics = FolderLock(folder), folder / "metrics.jsonl"
    os.utime(metrics, (metrics.stat().st_atime, metrics.stat().st_mtime - 50))
    left = cell_state(experiment, folder, None).hours_left  # of a test that has been going on for 50 s
    assert 10 * validations - 60 < 3600 * left <= 10 * validations - 50
    os.utime(metrics, (0, 0))
    assert cell_state(experiment, folder, None).hours_left == 0
    lock.release()


def test_a_run_holds_its_folder_during_the_test(tmp_path, monkeypatch):
    seen = []

    def tested(*arguments):
        (state,) = table_status("table1", tmp_path, quick=True, seeds=[0], only=ONLY)
        seen.append(state.state)
        return score(*arguments)

    score = experiment_run.tested
    monkeypatch.setattr(experiment_run, "tested", tested)
    reproduce("table1", tmp_path, quick=True, seeds=[0], only=ONLY, progress="silent")
    (state,) = table_status("table1", tmp_path, quick=True, seeds=[0], only=ONLY)
    assert (seen, state.state) == (["testing"], "done")


def test_a_first_stage_counts(tmp_path):
    name = "translation/rank1/small/msr-fc"
    experiment, folder = begun(tmp_path, name, 7, recipe="best", stage="find")
    found = cell_state(experiment, folder, None)
    assert (found.step, found.steps) == (7, experiment.recipe.find_steps + experiment.recipe.outer_steps)
    lock = FolderLock(folder / "find")
    assert cell_state(experiment, folder, None).state == "running"
    lock.release()
    begun(tmp_path, name, 3, recipe="best")
    found = cell_state(experiment, folder, None)
    assert (found.state, found.step) == ("stopped", experiment.recipe.find_steps + 3)
    assert found.validated_at == experiment.recipe.find_steps + 2


def test_finished_runs_and_small_files_are_done(tmp_path):
    options = {"quick": True, "seeds": [0], "only": ONLY}
    reproduce("table1", tmp_path, **options, progress="silent")
    result = json.loads((tmp_path / "paper-quick" / ONLY / "seed0" / "result.json").read_text())
    (done,) = table_status("table1", tmp_path, **options)
    assert (done.state, done.step, done.steps) == ("done", 50, 50)
    assert (done.test, done.ci95, done.metric) == (result["mean"], result["ci95"], "mse")
    assert done.hours == pytest.approx(result["cpu_seconds"] / 3600)
    (small,) = table_status("table1", tmp_path / "elsewhere", results=tmp_path / "results", **options)
    assert (small.state, small.test, small.hours) == ("done", done.test, done.hours)
    assert not (tmp_path / "elsewhere").exists()
    shown = states("table1", [done]).rows[0]
    assert shown[2:4] == ("done", "50")
    assert shown[5] == f"{result['mean']:.4f} ± {result['ci95']:.4f}"


def test_the_table_of_states(tmp_path):
    experiment, folder = begun(tmp_path, f"{PROBLEM}/msr", 5)
    waiting = cell_state(find(f"{PROBLEM}/maml", "paper-day"), tmp_path / "none", None)
    table = states("table3", [waiting, cell_state(experiment, folder, None)])
    assert table.title == "table3, recipe paper-day"
    assert table.rows[1] == (
        PROBLEM, "msr", "stopped", "5 / 4,000", "50.4 at 4", "-", "95.3 ± 0.3", "-", "2.22",
    )  # fmt: skip
    assert table.remarks[0] == (
        "1 waiting, 1 stopped of 2 runs; 0.0 hours spent; 2.2 hours left for runs in progress."
    )
    assert "accuracy in %" in table.remarks[1]


def test_rows_of_one_heading_stand_together(tmp_path):
    cells = [
        cell_state(find(f"{PROBLEM}/{method}", "paper-day", seed=seed), tmp_path, None)
        for method in ("maml", "msr")
        for seed in (0, 1)
    ]
    found = [row[:2] for row in states("table3", cells).rows]
    first, second = f"{PROBLEM}, seed 0", f"{PROBLEM}, seed 1"
    assert found == [(first, "maml"), (first, "msr"), (second, "maml"), (second, "msr")]


def test_hours_left_of_several_runs(tmp_path):
    cells = [
        cell_state(*begun(tmp_path, f"{PROBLEM}/{method}", steps), None)
        for method, steps in (("maml", 5), ("msr", 3995))
    ]
    assert (
        states("table3", cells)
        .remarks[0]
        .endswith("2.2 hours left for runs in progress, 2.2 for the longest run.")
    )


def test_what_a_folder_has_whatever_its_recipe_and_seed(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begun(tmp_path, f"{PROBLEM}/msr", 5, seed=1)
    begun(tmp_path, f"{PROBLEM}/maml", 7, recipe="best")
    begun(tmp_path, "translation/rank1/small/msr-fc", 3, recipe="paper")  # of another table
    shutil.copytree(
        tmp_path / "best" / PROBLEM / "maml" / "seed0", tmp_path / "best" / PROBLEM / "maml" / "seed0-copy"
    )
    command = ["reproduce", "table3", "--out", str(tmp_path), "--status"]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [(cell["name"], cell["recipe"], cell["seed"], cell["step"]) for cell in found] == [
        (f"{PROBLEM}/msr", "paper-day", 1, 5),
        (f"{PROBLEM}/maml", "best", 0, 7),
    ]
    monkeypatch.setenv("COLUMNS", "80")
    assert main(command) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert f"{PROBLEM}, paper-day, seed 1\nmsr    stopped 5 / 4,000" in shown
    assert f"Runs read from {tmp_path}" in shown.replace("\n", " ").replace("  ", " ")
    assert main([*command, "--budget", "cpu", "--json"]) == 0  # asked for: every cell of it
    assert {cell["state"] for cell in json.loads(capsys.readouterr().out)} == {"waiting"}


def test_places_without_runs_are_told(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = ["reproduce", "table3", "--out", "none", "--status"]
    refused_command([*command, "--only", f"{PROBLEM}/msr", "--json"], "none", None)
    assert main([*command, "--budget", "day"]) == 0
    assert capsys.readouterr().out.endswith("There is no folder none.\n")
    Path("results").mkdir()
    assert main([*command, "--budget", "day"]) == 0
    assert capsys.readouterr().out.endswith("There is no folder none; small files read from results.\n")
    assert not Path("none").exists()
    Path("file").write_text("")
    refused_command(["reproduce", "table3", "--out", "file", "--status"], "file", "a file")


def test_one_refused_folder_does_not_hide_the_others(tmp_path, capsys):
    _, other = begun(tmp_path, f"{PROBLEM}/msr", 5, outer_lr=0.5)
    _, broken = begun(tmp_path, f"{PROBLEM}/maml", 5)
    begun(tmp_path, f"{PROBLEM}/anil", 5)
    (broken / "metrics.jsonl").write_text("[]\n")
    wanted = {"seeds": [0], "recipes": ["paper-day"], "only": f"{PROBLEM}/*"}
    cells = table_status("table3", tmp_path, results=tmp_path / "none", **wanted)
    found = {cell.name.rpartition("/")[2]: cell for cell in cells}
    assert found["anil"].state == "stopped"
    assert found["msr"].state == found["maml"].state == "refused"
    assert found["msr"].error == (
        f"{other}: expected an empty folder or a run with recipe.outer_lr 0.001, found one with 0.5"
    )
    assert found["maml"].error.startswith(f"{broken}{os.sep}metrics.jsonl, line 1: ")
    assert f"Refused: {found['msr'].error}." in states("table3", cells).remarks
    assert main(["reproduce", "table3", "--out", str(tmp_path), "--status", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert {cell["state"] for cell in shown} == {"refused", "stopped"}


def test_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, folder = begun(tmp_path, f"{PROBLEM}/msr", 6)
    lock = FolderLock(folder)
    command = ["reproduce", "table3", "--out", str(tmp_path), "--budget", "day", "--only", f"{PROBLEM}/*"]
    assert main([*command, "--status", "--json"]) == 0
    found = {cell["name"].rpartition("/")[2]: cell for cell in json.loads(capsys.readouterr().out)}
    assert {name: cell["state"] for name, cell in found.items()} == {
        "maml": "waiting", "maml-big": "waiting", "anil": "waiting", "protonet": "waiting", "maml-d8": "waiting",
        "msr": "running",
    }  # fmt: skip
    assert (found["msr"]["step"], found["msr"]["validation"]) == (6, 0.506)
    assert main([*command, "--status", "--markdown", "states.md"]) == 0
    assert "6 / 4,000" in capsys.readouterr().out
    assert "| msr | running | 6 / 4,000 | 50.6 at 6 |" in Path("states.md").read_text()
    lock.release()
    refused_command([*command, "--json"], "--json", "alone")
