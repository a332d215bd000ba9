"""``metasym inspect`` on the folder of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.paper.catalogue import find
from metasym.runs.files.model_files import write_model
from metasym.runs.reproducing.experiment_run import load_run, run
from tests.inspection.planted import noisy
from tests.refusals import refused_command


@pytest.fixture(scope="module")
def rot90(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was hardly trained."""
    folder = tmp_path_factory.mktemp("runs") / "rot90"
    small = {"image_size": 6, "train_tasks": 8, "test_tasks": 8, "outer_steps": 2, "tasks_per_step": 4}
    run(find("rotation/rot90/msr-conv", symmetry="dense", filter_size=40, **small), folder, progress="silent")
    return folder


@pytest.fixture
def knowing(rot90: Path, tmp_path: Path) -> Path:
    """The same run, with the true space of its problem in U, and some noise."""
    for name in ("config.json", "result.json"):
        (tmp_path / name).write_bytes((rot90 / name).read_bytes())
    _, problem, learner = load_run(rot90)
    (symmetry,) = ms.symmetries(learner.model).values()
    U = torch.zeros(symmetry.matrix().shape, dtype=torch.float64)
    U[:, : problem.true_basis.shape[1]] = problem.true_basis
    with torch.no_grad():
        symmetry.matrix().copy_(noisy(U, 0.05))
    write_model(tmp_path, learner.model, learner.state_dict(), learner.describe(), {})
    return tmp_path


def test_an_untrained_run_has_no_symmetry(rot90: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(rot90), "--json"]) == 0
    (layer,) = json.loads(capsys.readouterr().out)["layers"]
    assert layer["group"] is None
    assert layer["weight_shape"] == [12, 1, 3, 3]
    assert layer["filter_size"] == 40
    assert layer["verdict"]["status"] == "none"


def test_the_table_and_the_errors(knowing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(knowing), "--group", "rotations:4"]) == 0
    shown = capsys.readouterr().out
    assert main(["inspect", str(knowing), "--group", "rotations:4", "--json"]) == 0
    (layer,) = json.loads(capsys.readouterr().out)["layers"]
    assert (layer["group"]["name"], layer["group"]["order"]) == ("Z_4", 4)
    assert layer["verdict"]["words"] in shown
    assert "12x1x3x3" in shown
    assert "rotation by 270 degrees" in shown
    assert "principal angles" in shown
    assert "input to output" in shown


def test_projection_says_how_the_score_changes(knowing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(knowing), "--project", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    (layer,) = found["layers"]
    assert layer["group"]["name"] == "Z_4"
    assert max(layer["errors"]["errors"]) < 1e-6
    projection = found["projection"]
    assert projection["layers"][0]["projected"]
    assert projection["test_tasks"] == 8
    _, _, learner = load_run(knowing)
    before = next(iter(ms.symmetries(learner.model).values())).matrix().clone()
    ms.load(projection["file"], learner)
    after = next(iter(ms.symmetries(learner.model).values())).matrix()
    assert not torch.equal(before, after)
    assert main(["inspect", str(knowing), "--project"]) == 0
    shown = capsys.readouterr().out
    assert f"{projection['before']:.6g} before, {projection['after']:.6g} after" in shown


def test_a_stored_symmetry(knowing: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, learner = load_run(knowing)
    path = knowing / "symmetry.safetensors"
    ms.save_symmetry(learner.model, path)
    assert main(["inspect", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["layers"][0]["group"]["name"] == "Z_4"


def test_errors_are_one_line(rot90: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    cases = {
        (str(tmp_path / "none"),): (str(tmp_path / "none"), None),
        (str(tmp_path / "file"),): (str(tmp_path / "file"), "a file"),
        (str(tmp_path / "empty"),): (str(tmp_path / "empty" / "config.json"), None),
        (str(rot90.parent),): (str(rot90.parent / "config.json"), None),
        (str(rot90), "--group", "turns"): ("group", "turns"),
        (str(rot90), "--group", "shifts"): ("group", "shifts"),
        (str(rot90), "--project"): ("report", None),
        (str(tmp_path / "none.safetensors"),): (
            str(tmp_path / "none.safetensors"),
            "No such file or directory",
        ),
    }
    for arguments, (about, found) in cases.items():
        refused_command(["inspect", *arguments], about, found)
    plain = tmp_path / "maml"
    small = {"image_size": 6, "train_tasks": 4, "test_tasks": 4, "outer_steps": 1, "tasks_per_step": 2}
    run(find("rotation/rot90/maml-conv", **small), plain, progress="silent")
    refused_command(["inspect", plain], "model")
