"""The average of the outer parameters, against a plain loop over the parameters of a run without it."""

from __future__ import annotations

import pytest
import torch

from metasym.storage.file_names import CURRENT
from metasym.storage.serialization import CheckpointError
from metasym.training.checkpoint import load
from metasym.training.evaluation import evaluate
from metasym.training.loop import train
from metasym.training.randomness import validation_seed
from metasym.training.settings import Validation
from tests.refusals import refused
from tests.training.test_resume import compare
from tests.training.toy_learner import Lines, learner

STEPS, DECAY = 30, 0.6
OPTIONS = {"outer_steps": STEPS, "tasks_per_step": 3, "progress": "silent", "outer_lr": 0.05}


def values(made):
    return {name: p.detach().clone() for name, p in made.outer_parameters().items()}


def by_hand() -> list[dict[str, torch.Tensor]]:
    """The average after each step, from the parameters that a run without one goes through."""
    made, found = learner(), []
    for record in train(made, Lines(), **OPTIONS):
        now = values(made)
        d = min(DECAY, (1 + record.step) / (10 + record.step))
        found.append({k: d * found[-1][k] + (1 - d) * now[k] for k in now} if found else now)
    return found


def test_the_learner_ends_with_the_average():
    expected = by_hand()
    made = learner()
    plain = learner()
    for record in train(made, Lines(), average=DECAY, **OPTIONS):
        if record.step == STEPS - 1:
            before = values(made)
    for record in train(plain, Lines(), **OPTIONS):
        if record.step == STEPS - 1:  # until the end the parameters are those of a run without an average
            assert all(torch.equal(before[k], v) for k, v in values(plain).items())
    torch.testing.assert_close(values(made), expected[-1])
    assert any(not torch.allclose(v, values(plain)[k], atol=1e-4) for k, v in expected[-1].items())


@pytest.mark.parametrize("keep_best", [False, True])
def test_validation_scores_the_average(keep_best):
    expected = by_hand()
    held_out = Lines(12)
    made, scores = learner(), {}
    settings = Validation(held_out, 5, keep_best=keep_best)
    for record in train(made, Lines(), average=DECAY, validation=settings, **OPTIONS):
        if record.validation is not None:
            scores[record.step] = record.validation
    assert list(scores) == list(range(5, STEPS + 1, 5))
    other = learner()
    for step, score in scores.items():
        with torch.no_grad():
            for name, parameter in other.outer_parameters().items():
                parameter.copy_(expected[step - 1][name])
        assert evaluate(other, held_out, seed=validation_seed(0)).mean == pytest.approx(score, rel=1e-4)
    best = min(scores, key=lambda step: scores[step]) if keep_best else STEPS
    torch.testing.assert_close(values(made), expected[best - 1])


@pytest.mark.parametrize("stop", [2, 7])
def test_a_resumed_average_is_the_same_to_the_last_bit(tmp_path, stop):
    compare(tmp_path, stop=stop, average=0.9)


def test_a_checkpoint_gives_the_average(tmp_path):
    made = learner()
    train(made, Lines(), average=DECAY, out=tmp_path, **OPTIONS).run()
    loaded = load(tmp_path / CURRENT, learner(seed=4), best=False)
    assert all(torch.equal(v, values(loaded)[k]) for k, v in values(made).items())


def test_what_is_refused(tmp_path):
    for wrong in (0.0, 1.0, -1.0, float("nan")):
        with refused("average", pytest.approx(wrong, nan_ok=True)):
            train(learner(), Lines(), average=wrong, **OPTIONS)
    train(learner(), Lines(), out=tmp_path, **OPTIONS).run()
    more = {**OPTIONS, "outer_steps": STEPS + 1, "out": tmp_path, "resume": True}
    with refused(f"{tmp_path / CURRENT}: average", None, CheckpointError):
        train(learner(), Lines(), average=0.9, **more).run()
