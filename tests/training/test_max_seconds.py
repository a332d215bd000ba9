"""A training that may take only so long: it ends with a whole step, validated and in the checkpoint."""

from __future__ import annotations

import pytest

from metasym.training.checkpoint import read_training
from metasym.training.loop import train
from tests.refusals import refused
from tests.training.toy_learner import Lines, bits, learner

OPTIONS = {"outer_steps": 6, "tasks_per_step": 3, "progress": "silent", "validation": Lines(4)}


def test_the_step_that_is_late_is_the_last_and_is_validated(tmp_path):
    made = learner()
    (record,) = train(made, Lines(), **OPTIONS, validate_every=5, out=tmp_path, max_seconds=0).run()
    assert record.step == 1
    assert record.validation is not None
    stored = read_training(tmp_path / "checkpoint.safetensors")
    assert stored["step"] == stored["best"]["step"] == 1


def test_it_goes_on_to_the_same_bits(tmp_path):
    whole, parts = learner(), learner()
    train(whole, Lines(), **OPTIONS, validate_every=1).run()
    for step in range(1, 7):
        (record,) = train(
            parts, Lines(), **OPTIONS, validate_every=1, out=tmp_path, resume=True, max_seconds=0
        ).run()
        assert record.step == step
    assert bits(parts) == bits(whole)


def test_without_a_limit_nothing_is_asked(tmp_path):
    records = train(learner(), Lines(), **OPTIONS, validate_every=5, out=tmp_path, max_seconds=1e9).run()
    assert [r.validation is not None for r in records] == [False] * 4 + [True, False]


@pytest.mark.parametrize("seconds", [-1.0, float("nan")])
def test_a_limit_that_is_none_is_refused(seconds):
    with refused("max_seconds", pytest.approx(seconds, nan_ok=True)):
        train(learner(), Lines(), **OPTIONS, validate_every=5, max_seconds=seconds)
