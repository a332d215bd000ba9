"""How long a training takes: chosen by sizes, told by a trial, ended by the user."""

from __future__ import annotations

import json

import numpy as np
import pytest

from metasym.cli import main
from metasym.diagnosis.checks import diagnose
from metasym.runs.files.learn_options import Choices, Options
from metasym.runs.learning import trial_steps
from metasym.runs.learning.automatic_choices import choose
from metasym.runs.learning.chosen_learners import loss_of, msr
from metasym.runs.learning.networks import plain_network, symmetric_network
from metasym.runs.learning.training_effort import step_seconds
from metasym.runs.learning.trial_steps import try_step
from metasym.tasks.reading import read_tasks
from metasym.tasks.stored import StoredTasks
from metasym.training.checkpoint import read_training
from tests.refusals import refused


def images(tmp_path, side: int) -> tuple[Choices, StoredTasks]:
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", x=draw.standard_normal((6, 20, side, side)), y=draw.integers(0, 2, (6, 20)))
    file = read_tasks(tmp_path / "t.npz")
    choices, _ = choose(file, Options(), diagnose(file))
    return choices, StoredTasks(file, range(6), support=choices.support, layout=choices.layout)


@pytest.mark.parametrize("side", [8, 16, 28, 64, 128])
def test_whatever_the_images_a_training_ends(tmp_path, side):
    """By its sizes an outer step times the number of steps stays near a quarter of an hour."""
    choices, _ = images(tmp_path, side)
    assert choices.stride == (1 if side <= 16 else 2)
    seconds = step_seconds(choices, plain_network(choices), 10)
    if choices.outer_steps > 100:
        assert seconds * choices.outer_steps <= 15 * 60
    assert choices.outer_steps % choices.validate_every == 0
    assert choices.validate_every == (5 if seconds >= 1 else 25)


def test_more_steps_than_that_are_the_users_wish(tmp_path):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", x=draw.standard_normal((6, 20, 64, 64)), y=draw.integers(0, 2, (6, 20)))
    file = read_tasks(tmp_path / "t.npz")
    assert choose(file, Options(outer_steps=1234), diagnose(file))[0].outer_steps == 1234


def test_a_trial_changes_nothing(tmp_path):
    choices, tasks = images(tmp_path, 8)
    learner = msr(choices, symmetric_network(choices), loss_of(2))
    before = {name: value.clone() for name, value in learner.state_dict().items()}
    found = try_step(choices, learner, tasks)
    assert found is not None
    assert found.seconds > 0
    assert found.megabytes > 0
    assert all(value.equal(before[name]) for name, value in learner.state_dict().items())
    assert all(p.grad is None for p in learner.parameters())


def test_tasks_that_do_not_fit_into_memory_are_refused_with_a_number_that_does(tmp_path, monkeypatch):
    choices, tasks = images(tmp_path, 8)
    learner = msr(choices, symmetric_network(choices), loss_of(2))
    peaks = iter([100.0, 1100.0])
    monkeypatch.setattr(trial_steps, "peak_memory", lambda: next(peaks))
    monkeypatch.setattr(trial_steps, "available_memory", lambda: 3 * 10**9)
    with refused("tasks_per_step", 3 * 10**9):
        try_step(choices, learner, tasks)


def test_a_training_that_has_to_end_is_told_and_ends(tmp_path, monkeypatch, capsys):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", x=draw.standard_normal((12, 6, 4)), y=draw.standard_normal((12, 6, 4)))
    monkeypatch.setattr(trial_steps, "_TOLD", 0.0)
    command = ["learn", str(tmp_path / "t.npz"), "--out", str(tmp_path / "run"), "--progress", "plain"]
    limits = ["--find-steps", "5", "--max-minutes", "0.01", "--outer-steps", "100000", "--patience", "100000"]
    assert main([*command, *limits]) == 0
    printed = capsys.readouterr()
    assert "MSR: at most" in printed.err
    assert "s a step" in printed.err
    assert "MSR stopped after --max-minutes" in printed.out
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["out_of_time"] is True
    assert result["outer_steps"] < 100000


def test_a_first_stage_without_time_counts_the_steps_that_it_took(tmp_path, capsys):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", x=draw.standard_normal((12, 6, 4)), y=draw.standard_normal((12, 6, 4)))
    out = tmp_path / "run"
    command = ["learn", str(tmp_path / "t.npz"), "--out", str(out), "--progress", "silent", "--no-baseline"]
    command += ["--find-steps", "100000", "--outer-steps", "100000", "--max-minutes", "0.01"]
    assert main(command) == 0
    found, fitted = (read_training(place / "checkpoint.safetensors")["step"] for place in (out / "find", out))
    result = json.loads((out / "result.json").read_text())
    assert result["outer_steps"] == found + fitted < 200000
    assert result["out_of_time"] is True
    # Killed before its result was written: the first stage stays as it was when the second began.
    before = (out / "find" / "checkpoint.safetensors").read_bytes()
    (out / "result.json").unlink()
    assert main([*command, "--resume"]) == 0, capsys.readouterr().err
    assert (out / "find" / "checkpoint.safetensors").read_bytes() == before
    again = json.loads((out / "result.json").read_text())
    assert again["outer_steps"] > result["outer_steps"]
    assert again["filter_sizes"] == result["filter_sizes"]
