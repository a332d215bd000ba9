"""``metasym learn`` under ``torchrun``: rank 0 alone writes and speaks, the result is that of one process."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from metasym.cli import main
from tests import forked

DRIVER = Path(__file__).parents[1] / "reproducing" / "only_rank_0_writes.py"
STEPS = ["--find-steps", "6", "--outer-steps", "6", "--tasks-per-step", "4"]


@pytest.mark.slow
@pytest.mark.parametrize("how", [STEPS, []], ids=["outer steps", "evidence"])
def test_two_ranks_learn_what_one_does_and_say_it_once(tmp_path, how):
    draw = np.random.default_rng(0)
    np.savez(tmp_path / "t.npz", x=draw.standard_normal((24, 8, 3)), y=draw.standard_normal((24, 8, 3)))
    command = ["learn", str(tmp_path / "t.npz"), "--progress", "silent", *how]
    if not how:
        command.append("--no-baseline")
    assert main([*command, "--out", str(tmp_path / "one")]) == 0
    for _ in range(2):  # the second time the finished result is shown
        done = forked.run([str(DRIVER), *command, "--out", str(tmp_path / "two")], ranks=2)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("Use it from Python:") == 1
        assert done.stdout.count("24 tasks of 8 examples") == 1
    one, two = (json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two"))
    assert two["per_task"] == pytest.approx(one["per_task"], rel=1e-3)


@pytest.mark.slow
def test_what_is_wrong_with_the_data_is_the_last_line(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.full((20, 5, 3), np.nan), y=np.zeros((20, 5, 3)))
    typed = [str(DRIVER), "learn", str(tmp_path / "t.npz"), "--out", str(tmp_path / "two")]
    done = forked.run(typed, ranks=2)
    assert done.returncode != 0
    last = [line for line in done.stderr.splitlines() if line.strip("= ")][-1]
    assert "metasym: error: " in last
    assert "t.npz: expected" in last
