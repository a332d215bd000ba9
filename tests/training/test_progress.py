"""What a run shows, and where."""

from __future__ import annotations

import builtins
import io
import sys

import pytest

from metasym.training.loop import train
from metasym.training.settings import Files
from tests.refusals import refused
from tests.training.toy_learner import Lines, learner

OPTIONS = {"outer_steps": 5, "tasks_per_step": 2}


def test_plain_lines_go_to_standard_error_in_a_pipe(capsys):
    list(train(learner(), Lines(), validation=Lines(2), validate_every=3, **OPTIONS))
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert [line.split()[1] for line in lines] == ["1/5", "3/5", "5/5"]
    assert "validation" in lines[1]
    assert all("loss" in line and "steps/s" in line and "left" in line for line in lines)
    assert "\x1b" not in err


def test_silence(capsys):
    list(train(learner(), Lines(), progress="silent", **OPTIONS))
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    list(train(learner(), Lines(), **OPTIONS))
    shown = terminal.getvalue()
    assert "5/5" in shown
    assert "steps/s" in shown
    assert "loss" in shown
    assert "0:00:00" in shown


def test_tensorboard_holds_every_number(tmp_path):
    list(train(learner(), Lines(), progress="silent", out=Files(tmp_path, tensorboard=True), **OPTIONS))
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {"outer_loss", "gradient_norm", "step_sizes/model"} <= set(events.Tags()["scalars"])
    assert [e.step for e in events.Scalars("outer_loss")] == [1, 2, 3, 4, 5]


def test_missing_tensorboard_is_one_line(tmp_path, monkeypatch):
    original = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("torch.utils.tensorboard"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with refused("tensorboard"):
        list(train(learner(), Lines(), progress="silent", out=Files(tmp_path, tensorboard=True), **OPTIONS))
