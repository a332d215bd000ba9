"""A run folder from someone else is data, not code: no command imports what its files name."""

from __future__ import annotations

import argparse
import json
import shutil
import sys

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.cli.main import parser
from tests.refusals import refused

QUICK = ["--find-steps", "4", "--outer-steps", "4", "--tasks-per-step", "4", "--progress", "silent"]
EVIL = "evil_module_of_a_run:network"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("foreign")
    draw = np.random.default_rng(0)
    np.savez(place / "tasks.npz", x=draw.normal(size=(20, 6, 3)), y=draw.normal(size=(20, 6, 3)))
    assert main(["learn", str(place / "tasks.npz"), "--out", str(place / "run"), *QUICK]) == 0
    return place


@pytest.fixture
def foreign(folder, tmp_path, monkeypatch):
    """The run with a config and a result that name a function, which is there to be found."""
    shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "evil_module_of_a_run.py").write_text(
        "from pathlib import Path\n"
        f"Path({str(tmp_path / 'executed')!r}).touch()\n"
        "import torch\n"
        "def network():\n"
        "    return torch.nn.Linear(3, 3, bias=False)\n"
    )
    for place in (tmp_path / "copy" / "run", tmp_path / "copy" / "run" / "maml"):
        config = json.loads((place / "config.json").read_text())
        config["choices"]["model"] = EVIL
        (place / "config.json").write_text(json.dumps(config))
        result = json.loads((place / "result.json").read_text())
        result["config"] = config
        (place / "result.json").write_text(json.dumps(result))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path / "copy"
    assert not (tmp_path / "executed").exists()
    assert "evil_module_of_a_run" not in sys.modules


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "RUN"],
        ["inspect", "RUN"],
        ["inspect", "RUN/maml"],
        ["inspect", "RUN", "--project"],
        ["inspect", "RUN/symmetry.safetensors"],
        ["inspect", "RUN", "--json"],
        ["report", "RUN/maml"],
        ["angles", "RUN", "--out", "new"],
        ["export", "RUN", "--out", "new.pt2"],
        ["export", "RUN", "--structured", "--out", "new.pt2"],
        ["export", "RUN", "--support", "TASKS", "--out", "new.onnx"],
        ["discover", "TASKS", "--out", "RUN", "--resume"],
        ["discover", "TASKS", "--out", "RUN"],
        ["reproduce", "table1", "--quick", "--only", "none-*", "--out", "RUN"],
        ["learn", "TASKS", "--out", "RUN", *QUICK],
        ["learn", "TASKS", "--out", "RUN", "--resume", *QUICK],
        ["run", "translation/rank1/small/msr-fc", "--out", "RUN", "--resume"],
        ["run", "translation/rank1/small/msr-fc", "--out", "RUN"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("finished", [True, False])
def test_no_command_imports_what_a_folder_names(foreign, capsys, arguments, finished):
    if not finished:
        (foreign / "run" / "result.json").unlink()
        (foreign / "run" / "maml" / "result.json").unlink()
    names = {"RUN": str(foreign / "run"), "TASKS": str(foreign / "tasks.npz")}
    status = main([a.replace("RUN", names["RUN"]).replace("TASKS", names["TASKS"]) for a in arguments])
    assert status in (0, 2)
    if status == 2:
        assert capsys.readouterr().err.splitlines()[-1].startswith("metasym: error: ")


def test_nor_does_the_library(foreign):
    with refused("model"):
        ms.open_run(foreign / "run")
    with refused():
        ms.open_run(foreign / "run")


def test_every_command_that_opens_a_folder_is_tried():
    """A new command has to be added above, or here where it opens no folder of a run."""
    marks = test_no_command_imports_what_a_folder_names.pytestmark
    tried = {arguments[0] for mark in marks if mark.args[0] == "arguments" for arguments in mark.args[1]}
    whole = next(a for a in parser()._actions if isinstance(a, argparse._SubParsersAction))
    assert set(whole.choices) - tried == {"demo", "list", "cost", "data", "doctor", "completion", "mirror"}


@pytest.mark.parametrize("command", ["inspect", "export"])
def test_a_folder_of_ms_train_is_told_what_opens_it(tmp_path, capsys, command):
    """It holds no network that could be made from its files: only the program that trained it has the classes."""
    data = ms.tasks.planted("shifts12", tasks=8)
    tasks, place = ms.tasks.ArrayTasks(data.x, data.y, support=5), tmp_path / "run"
    learner = ms.MAML(torch.nn.Linear(12, 12))
    for _ in ms.train(learner, tasks, outer_steps=1, outer_lr=1e-2, out=place, progress="silent"):
        pass
    flags = ["--out", str(tmp_path / "m.pt2")] if command == "export" else []
    assert main([command, str(place), *flags]) == 2
    said = capsys.readouterr().err
    assert "ms.train" in said
    assert said.count("\n") == 1
    again = ms.MAML(torch.nn.Linear(12, 12))
    ms.open_run(said.split("ms.open_run('")[1].split("'")[0], model=again)  # what it says works
    assert torch.equal(again.model.weight, learner.model.weight)
