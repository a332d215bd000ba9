"""Accuracy over the angle of query images: against the run's own test, and against images turned by hand."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from metasym.cli import main
from metasym.learners.base import accuracy
from metasym.paper import find
from metasym.report.angle_figure import angles_figures, angles_table
from metasym.report.table_cells import load_cells
from metasym.runs.reproducing.angle_study import angles_file, measure_angles, read_angles
from metasym.runs.reproducing.experiment_run import load_run, run
from metasym.runs.reproducing.scoring import test_seed as episodes_seed
from metasym.tasks.sampling import sample
from metasym.types import Batch
from tests.refusals import refused, refused_command, within
from tests.runs.reproducing.tiny_images import FEW, tiny

__all__ = ["tiny"]

PROBLEM = "aug-omniglot/5way-1shot"


@pytest.fixture
def runs(tiny, tmp_path):
    folders = [tmp_path / method for method in ("msr", "maml")]
    changes = {**FEW, "test_tasks": 4, "test_queries": 3}
    for folder in folders:
        run(find(f"{PROBLEM}/{folder.name}", "paper-cpu", **changes), folder, progress="silent")
    return folders


def test_augmented_is_the_runs_own_test_and_turning_is_turning(runs):
    found = measure_angles(runs[0], tasks=4, degrees=[0, 90, 180])
    scores = {way: score["per_task"] for way, score in found["scores"].items()}
    assert set(scores) == {
        "plain", "augmented", "turned 0", "flipped 0", "turned 90", "flipped 90", "turned 180", "flipped 180",
    }  # fmt: skip
    own = json.loads((runs[0] / "result.json").read_text())["per_task"]
    assert scores["augmented"] == pytest.approx(own, abs=1e-4)
    assert scores["turned 0"] == scores["plain"]
    # By hand: the same tasks, query images turned by rot90, support images untouched.
    experiment, problem, learner = load_run(runs[0])
    by_hand = []
    for index in range(4):
        episode = sample(problem.plain_test, torch.tensor([index]), episodes_seed(experiment))
        adapted = learner.adapt(Batch(episode.support.x[0], episode.support.y[0]))
        images = torch.rot90(episode.query.x[0], 1, (-2, -1))
        by_hand.append(float(accuracy(adapted(images), episode.query.y[0])))
    assert scores["turned 90"] == pytest.approx(by_hand, abs=1e-4)
    assert measure_angles(runs[0], tasks=4, degrees=[0, 90, 180]) == found
    assert measure_angles(runs[1], tasks=4, degrees=[0])["episodes"] == found["episodes"]
    assert measure_angles(runs[1], tasks=3, degrees=[0])["episodes"] != found["episodes"]


def test_what_is_turned_is_what_was_tested_not_what_was_best_in_validation(tiny, tmp_path):
    changes = {**FEW, "outer_steps": 4, "outer_lr": 0.5, "test_tasks": 6, "test_queries": 3}
    run(find(f"{PROBLEM}/maml", "paper-cpu", **changes), tmp_path, progress="silent")
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    validations = [json.loads(line)["validation"] for line in lines]
    assert max(validations) > validations[-1], "a run has to get worse again for this test"
    own = json.loads((tmp_path / "result.json").read_text())["per_task"]
    found = measure_angles(tmp_path, tasks=6, degrees=[0])["scores"]["augmented"]["per_task"]
    assert found == pytest.approx(own, abs=1e-4)


def test_the_command_line(runs, tmp_path, capsys):
    out, page = tmp_path / "out", tmp_path / "angles.md"
    command = ["angles", *map(str, runs), "--tasks", "3", "--out", str(out), "--markdown", str(page)]
    assert main(command) == 0
    files = sorted((out / "angles").iterdir())
    assert [f.name for f in files] == [
        f"paper-cpu-aug-omniglot-5way-1shot-{m}-seed0.json" for m in ("maml", "msr")
    ]
    measured = [read_angles(f) for f in files]
    assert measured[0]["degrees"] == list(range(0, 181, 15))
    assert len(measured[0]["scores"]["flipped 45"]["per_task"]) == 3
    assert {p.name for p in out.iterdir()} >= {f"angles-aug-omniglot-5way-1shot.{k}" for k in ("png", "svg")}
    rows = [line for line in page.read_text().splitlines() if line.startswith("| m")][1:]
    assert [row.split(" | ")[0][2:] for row in rows] == [
        "msr",
        "msr",
        "maml",
        "maml",
        "msr - maml",
        "msr - maml",
    ]
    assert "Accuracy on turned query images" in capsys.readouterr().out
    again = tmp_path / "again.md"  # from the files, one of them in place of its run
    mixed = ["angles", str(files[1]), str(runs[1]), "--tasks", "3", "--out", str(out)]
    assert main([*mixed, "--markdown", str(again)]) == 0
    assert again.read_text() == page.read_text()
    shutil.copytree(runs[0], tmp_path / "copy")
    refused_command(["angles", str(runs[0])])  # no folder of its own choice is written to
    both = (str(runs[0]), str(tmp_path / "copy"))
    refused_command(["angles", *both, "--out", out / "both"], found=both)
    assert not (out / "both").exists()
    refused_command(["angles", tmp_path / "nothing", "--out", out / "both"], str(tmp_path / "nothing"), None)
    (tmp_path / "other.json").write_text("{}")
    assert main(["angles", str(tmp_path / "other.json"), "--out", str(out / "both")]) == 2
    assert not (out / "both").exists()


def test_differences_are_paired_and_figures_the_same_every_time(tmp_path):
    def measured(method: str, shift: float) -> dict:
        values = [0.2 + shift, 0.6 + shift, 0.7 + shift]
        score = {"mean": sum(values) / 3, "ci95": 0.1, "per_task": values}
        ways = ["plain", "augmented", *(f"{kind} {d}" for kind in ("turned", "flipped") for d in (0, 90))]
        return {
            "experiment": f"{PROBLEM}/{method}", "recipe": "paper", "seed": 0, "tasks": 3, "queries": 15,
            "outer_steps": 10, "degrees": [0, 90], "scores": dict.fromkeys(ways, score),
        }  # fmt: skip

    both = [measured("msr", 0.1), measured("maml", 0.0)]
    table = angles_table(both)
    assert table.header[-2:] == ("0°", "90°")
    # The tasks differ by much, the methods by the same 10 points on each of them.
    assert table.rows[4] == ("msr - maml", "+10.0 ± 0.0", "+10.0 ± 0.0", "no", "+10.0 ± 0.0", "+10.0 ± 0.0")
    assert table.title.endswith(f"{PROBLEM}, recipe paper, 10 steps")
    assert "task by task" in table.remarks[1]
    others = angles_table([both[0], {**both[1], "episodes": "of other classes"}])
    assert len(others.rows) == 4
    assert "task by task" not in others.remarks[1]
    other = {**both[1], "experiment": "aug-omniglot/20way-1shot/maml"}
    assert [row[0] for row in angles_table([*both, other]).rows][::2] == [
        PROBLEM,
        PROBLEM,
        other["experiment"][:-5],
        PROBLEM,
    ]
    longer = [{**run, "recipe": "best"} for run in both]
    recipes = angles_table([*both, *longer])  # each recipe is compared with itself
    assert [row[0] for row in recipes.rows][::2] == [
        "msr (paper)", "maml (paper)", "msr (best)", "maml (best)", "msr - maml (paper)", "msr - maml (best)",
    ]  # fmt: skip
    first = [f.read_bytes() for f in angles_figures(both, tmp_path)]
    assert [f.read_bytes() for f in angles_figures(both, tmp_path)] == first
    angles_file(both[0], tmp_path)
    with refused(str(tmp_path), 0):  # they are no cells of a table
        load_cells(tmp_path)
    with refused("measured", 0):
        angles_table([])
    (tmp_path / "x.json").write_text("{}")
    with refused(within(tmp_path / "x.json", "experiment"), None):
        read_angles(tmp_path / "x.json")


def test_a_folder_for_what_is_measured_is_asked_for(tmp_path, monkeypatch):
    """It was ./results where none was given."""
    monkeypatch.chdir(tmp_path)
    assert "--out" in str(refused_command(["angles", "run"], "arguments"))  # the sentence is argparse's
    assert list(tmp_path.iterdir()) == []


def test_synthetic_runs_are_refused(tmp_path):
    experiment = find("translation/rank1/small/maml-conv", outer_steps=1, train_tasks=4, test_tasks=2)
    run(experiment, tmp_path, progress="silent")
    with refused(str(tmp_path), "translation/rank1/small/maml-conv"):
        measure_angles(tmp_path)
