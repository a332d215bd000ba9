"""What ``train`` returns: a generator that says so where nobody asks it for anything."""

from __future__ import annotations

import gc
import warnings

import pytest

from metasym import MetasymWarning
from metasym.training.loop import train
from tests.training.toy_learner import Lines, bits, learner

OPTIONS = {"outer_steps": 3, "tasks_per_step": 3, "progress": "silent"}


def test_a_training_that_is_dropped_says_that_nothing_was_trained():
    made = learner()
    before = bits(made)
    with pytest.warns(MetasymWarning, match=r"nothing was trained: loop over it, or call its run\(\)"):
        train(made, Lines(), **OPTIONS)  # dropped at once: nobody holds it
    assert bits(made) == before


def test_run_takes_every_step():
    one, other = learner(), learner()
    records = train(one, Lines(), **OPTIONS).run()
    assert [r.outer_loss for r in records] == [r.outer_loss for r in train(other, Lines(), **OPTIONS)]
    assert bits(one) == bits(other)


def test_a_training_that_has_begun_or_was_closed_is_silent():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        begun = train(learner(), Lines(), **OPTIONS)
        next(begun)
        del begun
        train(learner(), Lines(), **OPTIONS).close()
        gc.collect()
