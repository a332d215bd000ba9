"""``metasym inspect --function``, one run and runs beside each other."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

import metasym as ms
from metasym.cli import main
from metasym.cli.adapted_table import show_functions
from metasym.verdicts.function_reports import AdaptedFunctions, ElementOfFunctions, Held
from tests.refusals import refused_command


def asked(violation: float, labels: bool = True) -> AdaptedFunctions:
    same = (1.0, 0.9) if labels else (None, None)
    elements = (
        ElementOfFunctions("rotation by 0 degrees", 0.0, 0.0, same[0], 0.95),
        ElementOfFunctions("left-right flip", violation, 2 * violation, same[1], 0.85),
    )
    return AdaptedFunctions("rotations-flips:1", 10, 0.95, labels, elements, "")


def test_one_run_is_told_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show_functions([("msr", asked(0.01))])
    said = capsys.readouterr().out
    assert "left-right flip" in said
    assert asked(0.01).elements[1].held is Held.NEARLY
    assert str(Held.NEARLY) in said
    assert "same class for 90.0%" in said


@pytest.mark.parametrize("labels", [True, False])
def test_runs_beside_each_other_share_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, labels: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_functions([("msr", asked(0.01, labels)), ("maml", asked(0.7, labels))])
    said = capsys.readouterr().out
    [row] = [line for line in said.splitlines() if "left-right flip" in line and "0.01, 0.02" in line]
    assert "0.7, 1.4" in row
    assert f"msr, 10 tasks: {Held.NEARLY}: left-right flip" in said
    assert f"maml, 10 tasks: {Held.NOT}: left-right flip" in said


@pytest.mark.parametrize(
    "flag", [["--beside", "other"], ["--tasks", "5"], ["--model", "a:b"], ["--test-tasks", "a:b"]]
)
def test_flags_of_function_alone_are_one_line(tmp_path: Path, flag: list[str]) -> None:
    refused_command(["inspect", tmp_path, *flag], flag[0], "alone")


PROGRAM = """
import torch, metasym as ms

class Maps:
    def __init__(self, first):
        self.first = first

    def __len__(self):
        return 20

    def episode(self, index, generator):
        drawn = torch.Generator().manual_seed(self.first + int(index))
        x, w = torch.randn(20, 6, generator=drawn), torch.randn(6, generator=drawn)
        y = sum(w[k] * x.roll(k, 1) for k in range(6))
        return ms.Episode(ms.Batch(x[:12], y[:12]), ms.Batch(x[12:], y[12:]), torch.tensor(index))

def tasks():
    return Maps(1000)

def learner():
    torch.manual_seed(0)
    return ms.MAML(torch.nn.Linear(6, 6), inner_steps=1, inner_lr=0.2)
"""


def test_a_folder_of_train_is_asked_with_the_program_that_made_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trained_here.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    made = importlib.import_module("trained_here")
    folder = tmp_path / "run"
    ms.train(
        made.learner(),
        made.Maps(0),
        outer_steps=2,
        tasks_per_step=4,
        seed=0,
        out=folder,
        progress="silent",
    ).run()
    asked = ["inspect", str(folder), "--function", "--group", "shifts", "--json"]
    names = ["--model", "trained_here:learner", "--test-tasks", "trained_here:tasks"]
    assert main([*asked, *names]) == 0
    found = json.loads(capsys.readouterr().out)["function"]
    run = ms.open_run(folder, made.learner())
    again = ms.check_equivariance(run, made.tasks(), "shifts")
    assert [one["violation"] for one in found["elements"]] == [one.violation for one in again.elements]
    refused_command(asked, "--model, --test-tasks", "neither")
