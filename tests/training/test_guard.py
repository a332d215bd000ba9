"""NaN and infinity: stopped or skipped, never stepped on."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from metasym.tasks.sampling import sample
from metasym.training.guard import NonFiniteError
from metasym.training.loop import train
from metasym.training.randomness import step_seed
from metasym.training.settings import Files
from tests.refusals import refused
from tests.training.toy_learner import Lines, bits, flat, learner

OPTIONS = {"outer_steps": 6, "tasks_per_step": 10, "progress": "silent"}


class BadGradient(torch.autograd.Function):
    """The identity, with an infinite gradient for large values."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.where(x > 1000, torch.full_like(g, math.inf), g)


def loss_with_bad_gradient(prediction, target):
    return BadGradient.apply(F.mse_loss(prediction, target))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_bad_loss_stops_the_run_and_is_named(tmp_path, bad):
    made = learner()
    seen = {}

    def run():
        for record in train(
            made, Lines(poison=(7, 31), bad_query=bad), out=Files(tmp_path, checkpoint_every=1), **OPTIONS
        ):
            seen[record.step] = bits(made)

    with refused("loss", kind=NonFiniteError) as caught:
        run()
    error = caught.value
    assert error.step == len(seen) + 1
    assert set(error.task_ids) <= {7, 31}
    assert error.task_ids
    message = str(error)
    assert all(str(i) in message for i in error.task_ids)
    assert f"checkpoint.safetensors (step {error.step - 1})" in message
    if seen:
        assert bits(made) == seen[error.step - 1]


def test_a_bad_gradient_alone_is_traced_to_its_task():
    made = learner(loss=loss_with_bad_gradient)
    start = bits(made)
    tasks = Lines(10, poison=(4,), bad_query=1e3)
    with refused("gradient", kind=NonFiniteError) as caught:
        list(train(made, tasks, **OPTIONS))
    assert caught.value.task_ids == (4,)
    assert bits(made) == start


@pytest.mark.parametrize(
    ("loss", "bad"), [(F.mse_loss, math.nan), (F.mse_loss, math.inf), (loss_with_bad_gradient, 1e3)]
)
def test_skipping_equals_training_without_the_bad_tasks(loss, bad):
    tasks = Lines(10, poison=(3, 9), bad_query=bad)
    made, oracle = learner(loss=loss), learner(loss=loss)
    records = list(train(made, tasks, on_nonfinite="skip", **OPTIONS))
    optimizer = torch.optim.Adam(oracle.parameters(), lr=1e-3)
    for record in records:
        good = torch.tensor([0, 1, 2, 4, 5, 6, 7, 8])
        losses = oracle.outer_loss(sample(tasks, good, step_seed(0, record.step)))
        optimizer.zero_grad()
        losses.query.mean().backward()
        optimizer.step()
        assert record.skipped_tasks == 2
        assert record.outer_loss == pytest.approx(losses.query.mean().item(), rel=1e-6)
        assert record.inner_loss_before == pytest.approx(losses.before.mean().item(), rel=1e-6)
    torch.testing.assert_close(flat(made), flat(oracle), rtol=0, atol=1e-6)


def test_where_all_tasks_are_bad_skipping_stops_too():
    with refused("loss", kind=NonFiniteError) as caught:
        list(train(learner(), Lines(4, poison=range(4)), on_nonfinite="skip", **OPTIONS))
    assert sorted(caught.value.task_ids) == [0, 1, 2, 3]


def test_many_bad_tasks_stay_one_readable_line():
    for tasks in (Lines(10, poison=range(10)), Lines(poison=range(40))):
        with refused("loss", kind=NonFiniteError) as caught:
            list(train(learner(), tasks, **OPTIONS))
        assert len(caught.value.task_ids) == 10


def test_a_norm_too_large_for_float32_is_not_called_infinite():
    def huge(prediction, target):
        return F.mse_loss(prediction, target) * 1e25

    made = learner(loss=huge, inner_lr=0.0)
    with torch.no_grad():
        made.inner_lr.requires_grad_(False)
    made.outer_parameters = lambda: dict(made.model.named_parameters(prefix="model"))
    (record,) = train(made, Lines(), outer_steps=1, clip_norm=1.0, progress="silent")
    assert 1e20 < record.gradient_norm < math.inf
    assert torch.isfinite(flat(made)).all()


def test_parameters_that_a_step_made_infinite_are_not_checkpointed(tmp_path):
    def steep(prediction, target):
        return 1000 * F.mse_loss(prediction, target)

    options = {**OPTIONS, "out": Files(tmp_path, checkpoint_every=1)}
    with refused("inner_lr", "NaN or infinity", NonFiniteError) as caught:
        list(train(learner(loss=steep), Lines(), optimizer=lambda p: torch.optim.SGD(p, lr=1e38), **options))
    assert "(step 0)" in str(caught.value)  # the last good checkpoint
