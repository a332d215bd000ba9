"""The closed form of the meta-gradient equals the plain path, which differentiates through every inner step."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.engines.description import Setting
from metasym.engines.plan import Sizes
from metasym.learners import MSR, GradientLearner, MSRJoint
from metasym.types import Batch, Episode
from tests.engines.engine_models import dense_layer, rows
from tests.refusals import refused


@pytest.mark.parametrize("method", [MSR, MSRJoint])
def test_closed_form_against_finite_differences(method: type[GradientLearner]) -> None:
    learner = method(dense_layer(), F.mse_loss, inner_steps=3, inner_lr=0.3, paths="engine=closed")
    ms.testing.assert_meta_gradient(learner, rows(5, 2, 3), directions=2)


@pytest.mark.parametrize("method", [MSR, MSRJoint])
def test_chunks_and_weights_of_tasks_add_up(method: type[GradientLearner]) -> None:
    data = rows(5, 1, 3)
    whole = method(dense_layer(), F.mse_loss, inner_steps=2, paths="engine=closed").outer_gradient(
        data, total_tasks=7
    )
    parts = method(dense_layer(), F.mse_loss, inner_steps=2, paths="engine=closed", chunk_size=2)
    for name, found in parts.outer_gradient(data, total_tasks=7)[1].items():
        torch.testing.assert_close(found, whole[1][name])


def test_a_gradient_is_not_changed_by_the_next() -> None:
    learner = MSR(dense_layer(), F.mse_loss, inner_steps=2, paths="engine=closed")
    first = learner.outer_gradient(rows(5, 1, 1))[1]
    kept = {name: g.clone() for name, g in first.items()}
    learner.outer_gradient(rows(5, 2, 3))
    for name, g in first.items():
        torch.testing.assert_close(g, kept[name], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"loss": F.l1_loss}, "not the squared loss"),
        ({"solver": "ridge"}, "solver ridge"),
        ({"map": "loop"}, "map loop was asked for"),
        ({"paths": "map=vmap"}, "map vmap was asked for"),
    ],
)
def test_what_has_no_closed_form_is_mapped_and_says_why(changes: dict[str, object], why: str) -> None:
    sizes = Sizes.of(rows(5, 1, 1))
    learner = MSR(dense_layer(), **changes)  # type: ignore[arg-type]
    engine = learner.plan(sizes)[0]
    assert (engine.way, engine.why) == ("mapped", why)
    if "paths" not in changes:
        with refused("engine", ("closed", why)):
            MSR(dense_layer(), paths="engine=closed", **changes).plan(sizes)  # type: ignore[arg-type]


def test_other_models_are_mapped() -> None:
    sizes = Sizes.of(rows(5, 1, 1))
    both_adapt = MSR(dense_layer(bias=True))
    hooked = dense_layer()
    hooked.register_forward_hook(lambda m, i, o: 2 * o)
    for learner in (
        both_adapt,
        MSR(hooked),
        ms.MAML(nn.Linear(5, 4)),
        MSRJoint(dense_layer(), step_sizes="parameter"),
    ):
        assert learner.plan(sizes)[0].way == "mapped"


def test_mixed_precision_and_learned_inputs_are_mapped_and_an_error_where_that_is_forbidden() -> None:
    data = rows(5, 1, 1)
    data = Episode(*(Batch(b.x.float(), b.y.float()) for b in data[:2]), data.ids)
    learner, insisting = (
        MSR(dense_layer(dtype=torch.float32), inner_steps=2, **more)
        for more in ({}, {"paths": "engine=closed"})
    )
    assert learner.outer_loss(data).query.grad_fn.name() == "_UnrolledBackward"  # type: ignore[union-attr]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert learner.outer_loss(data).query.grad_fn.name() != "_UnrolledBackward"  # type: ignore[union-attr]
        with refused("engine", ("closed", "mixed precision")):
            insisting.outer_gradient(data)
    x = data.query.x.clone().requires_grad_()
    learned = Episode(data.support, Batch(x, data.query.y), data.ids)
    assert torch.autograd.grad(learner.outer_loss(learned).query.sum(), x)[0].abs().sum() > 0
    double = Episode(data.support, data.query, data.ids)._replace(
        support=Batch(data.support.x.double(), data.support.y.double())
    )
    with refused("engine", ("closed", "data of another type than the layer's")):
        insisting.plan(Setting.of(double))


def test_targets_that_would_be_broadcast_are_still_refused() -> None:
    learner = MSR(dense_layer(), F.mse_loss, paths="engine=closed")
    data = rows(5, 1, 1)
    wrong = Episode(data.support, Batch(data.query.x, data.query.y[..., 0]), data.ids)
    with refused("targets", (1,)):
        learner.outer_loss(wrong)


def test_the_sizes_decide() -> None:
    def ways(tasks: int, support: int, query: int) -> list[str]:
        found = MSR(dense_layer(), inner_steps=3).plan(Sizes(tasks, support, query, (5,), (4,)))
        return [choice.way for choice in found]

    assert ways(32, 1, 1) == ["closed", "input"]
    assert ways(32, 1, 19) == ["closed", "filter"]
    wide = ms.reparameterize(nn.Linear(70, 68, bias=False), "dense", filter_size=70)
    assert MSR(wide, inner_steps=1).plan(Sizes(32, 1000, 1, (70,), (68,)))[0].way == "mapped"
