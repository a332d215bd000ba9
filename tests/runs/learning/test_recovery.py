"""A training whose inner steps are too large goes back by itself, and ends with finite numbers."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from metasym.runs.files.learn_options import Options
from metasym.runs.learning import learn as module
from metasym.runs.learning.learn import learn_tasks as learn
from metasym.types import MetasymError

OPTIONS = Options(model="mlp", hidden=8, support=6, outer_steps=8, baseline=False)


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Tasks on a ring of six points: convolution, tanh, convolution, with filters of each task's own."""
    draw = np.random.default_rng(0)
    x, filters = draw.standard_normal((40, 12, 6)), draw.standard_normal((2, 2, 40, 1, 1))

    def convolve(x, centre, side):
        return centre * x + side * (np.roll(x, 1, -1) + np.roll(x, -1, -1))

    y = convolve(np.tanh(convolve(x, *filters[0])), *filters[1])
    path = tmp_path_factory.mktemp("ring") / "ring.npz"
    np.savez(path, x=x.astype(np.float32), y=y.astype(np.float32))
    return path


@pytest.fixture
def choosing_badly(monkeypatch):
    """The automatic choice of the inner steps' size is far too large."""
    choose = module.choose

    def badly(file, options, diagnosis):
        choices, reasons = choose(file, options, diagnosis)
        return dataclasses.replace(choices, inner_lr=1e4), reasons

    monkeypatch.setattr(module, "choose", badly)


@pytest.mark.usefixtures("choosing_badly")
def test_training_recovers_says_so_and_a_resumed_one_gives_the_same_numbers(ring, tmp_path):
    said: list[str] = []
    found = learn(ring, tmp_path / "whole", OPTIONS, progress="silent", note=said.append).msr
    times = len(found["recovered_at"])
    assert 1 <= times <= 6
    assert sum("diverged" in line for line in said) == times
    assert all(math.isfinite(value) for value in found["per_task"])
    assert max(found["inner_lrs"].values()) == pytest.approx(1e4 * 0.2**times, rel=0.1)

    class Killed(BaseException):
        pass

    def kill(line: str) -> None:
        if "diverged" in line:
            raise Killed

    with pytest.raises(Killed):
        learn(ring, tmp_path / "killed", OPTIONS, progress="silent", note=kill)
    again = learn(ring, tmp_path / "killed", OPTIONS, progress="silent", resume=True).msr
    assert again["per_task"] == found["per_task"]
    assert again["recovered_at"] == found["recovered_at"]


def test_a_size_that_the_user_set_is_kept_and_the_error_names_its_flag(ring, tmp_path):
    with pytest.raises(MetasymError) as caught:
        learn(ring, tmp_path / "a", dataclasses.replace(OPTIONS, inner_lr=1e4), progress="silent")
    assert "inner_lr" in str(caught.value)
