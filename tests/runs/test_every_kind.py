"""Save, open, predict: equal bits for all four kinds of run, and one line for what a kind does not have."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch import nn

import metasym as ms
from metasym.cli import main
from metasym.runs.run import MissingPartError
from metasym.tasks.sampling import sample, seeded
from metasym.tasks.synthetic import translation
from tests.refusals import refused

NAME = "translation/rank1/small/msr-fc"
QUICK = ["--outer-steps", "4", "--train-tasks", "8", "--test-tasks", "4", "--progress", "silent"]


def circular(tasks: int = 40, n: int = 4) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(0)
    x, filters = draw.normal(size=(tasks, 10, n)), draw.normal(size=(tasks, n))
    maps = np.stack([np.stack([np.roll(f, i) for i in range(n)]) for f in filters])
    return x, np.einsum("tij,tej->tei", maps, x) + 0.01 * draw.normal(size=x.shape)


LEARNERS = {
    "evidence": {},
    "ridge": {"solver": "ridge", "find_steps": 20, "outer_steps": 20},
    "sgd": {"solver": "sgd", "outer_steps": 10},
    "kronecker": {"solver": "ridge", "symmetry": "kronecker", "outer_steps": 10},
}


@pytest.mark.parametrize("options", LEARNERS.values(), ids=LEARNERS)
def test_learn(options, tmp_path):
    x, y = circular()
    run = ms.learn(x, y, baseline=False, **options)
    again = ms.open_run(run.save(tmp_path / "run"))
    assert type(again) is type(run)
    assert again.scores == run.scores
    np.testing.assert_array_equal(
        again.predict(x[0, :3], y[0, :3], x[0]), run.predict(x[0, :3], y[0, :3], x[0])
    )
    scored = ms.learn(x, y, baseline=False, out=tmp_path / "run", **options)  # finished: nothing is trained
    assert scored.score().per_task == run.scores.per_task
    assert again.verdict == run.verdict
    assert str(run) == str(again) == str(run.symmetry)


@pytest.mark.parametrize(
    "flags", [[], ["--recipe", "best", "--find-steps", "4"]], ids=["paper", "two stages"]
)
def test_run(flags, tmp_path):
    assert main(["run", NAME, "--out", str(tmp_path / "run"), *QUICK, *flags]) == 0
    run = ms.open_run(tmp_path / "run")
    assert run.score().per_task == run.scores.per_task
    again = ms.open_run(run.save(tmp_path / "copy"))
    support = sample(again.test_tasks(), torch.tensor([0]), 0).support
    found = [one.predict(support.x[0], support.y[0], support.x[0]) for one in (run, again)]
    assert torch.equal(*found)
    assert len(run.curves["outer_loss"]) == 4
    with refused("a verdict", "run", MissingPartError):
        run.verdict  # noqa: B018
    assert not hasattr(run, "verdict")


@pytest.mark.parametrize("family", [False, True])
def test_discover(family, tmp_path):
    draw = np.random.default_rng(2)
    if family:
        x = draw.normal(size=(14, 16, 3))
        y = x * draw.normal(size=(14, 1, 1))
    else:
        x = draw.normal(size=(60, 3))
        y = x[:, 0] + x[:, 1] ** 2
    run = ms.discover(x, y, continuous=False)
    again = ms.open_run(run.save(tmp_path / "run"))
    assert str(run) == str(again) == str(run.verdict)
    new = (x[0], y[0], x[1]) if family else (x[:5],)
    np.testing.assert_array_equal(again.predict(*new), run.predict(*new))
    assert (again.symmetries, again.refused, again.notes) == (run.symmetries, run.refused, run.notes)
    for name in ("plain", "symmetric", "scores"):
        found, expected = getattr(again, name), getattr(run, name)
        assert (found is None) == (expected is None)
        assert found is None or found.as_dict("mse") == expected.as_dict("mse")
    assert again.report(tmp_path / "opened.html").read_text().startswith("<!doctype html>")
    assert run.report(tmp_path / "page.html").exists()
    with refused("learning curves", "discover", MissingPartError):
        run.curves  # noqa: B018


def test_train(tmp_path):
    problem = translation(1, "small", 0, train_tasks=8, test_tasks=4)
    layer = nn.Linear(70, 68, bias=False)
    nn.init.normal_(layer.weight, generator=seeded(0))
    learner = ms.MSR(ms.reparameterize(layer, "dense", filter_size=4, generator=seeded(1)))
    blank = copy.deepcopy(learner)
    for _ in ms.train(
        learner, problem.train, outer_steps=3, tasks_per_step=4, out=tmp_path / "run", progress="silent"
    ):
        pass
    with refused("model", None):
        ms.open_run(tmp_path / "run")
    run = ms.open_run(tmp_path / "run", model=blank)
    support = sample(problem.test, torch.tensor([0]), 0).support
    expected = learner.adapt(ms.Batch(support.x[0], support.y[0]))(support.x[0])
    assert torch.equal(run.predict(support.x[0], support.y[0], support.x[0]), expected.detach())
    again = ms.open_run(run.save(tmp_path / "copy"), model=copy.deepcopy(blank))
    assert torch.equal(again.predict(support.x[0], support.y[0], support.x[0]), expected.detach())
    assert run.curves["step"] == [1, 2, 3]
    with refused("scores", "train", MissingPartError):
        run.scores  # noqa: B018
