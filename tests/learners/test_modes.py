"""Evaluation mode while adapting, full precision in exact solves, and where MTSR starts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from metasym.learners import ANIL, MAML, MSR, MTSR, Learner, MSRJoint, ProtoNet
from metasym.types import Batch, Episode
from tests.refusals import refused

from .families import classification, regression, seeded_model


def dropping(reparameterized: bool) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(25, 8), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    model[2].train()
    model[0].eval()  # a mode of its own, to be put back
    return ms.reparameterize(model) if reparameterized else model


LEARNERS: dict[str, Callable[[], Learner]] = {
    "MAML": lambda: MAML(dropping(False), F.cross_entropy),
    "ANIL": lambda: ANIL(dropping(False), F.cross_entropy),
    "MSR": lambda: MSR(dropping(True), F.cross_entropy),
    "MSRJoint": lambda: MSRJoint(dropping(True), F.cross_entropy),
    "MTSR": lambda: MTSR(dropping(True), F.cross_entropy, train_tasks=3, test_steps=3),
    "ProtoNet": lambda: ProtoNet(dropping(False)),
}


@pytest.mark.parametrize("method", LEARNERS)
def test_no_dropout_at_test(method: str) -> None:
    learner, episodes = LEARNERS[method](), classification()
    learner.model[0].eval()
    modes = [m.training for m in learner.modules()]
    support, x = Batch(episodes.support.x[0], episodes.support.y[0]), episodes.query.x[0]
    for outcome in (
        lambda: learner.predict(support, x),
        lambda: learner.adapt(support)(x).detach(),
        lambda: learner.scores(episodes, F.cross_entropy),
    ):
        torch.testing.assert_close(outcome(), outcome(), atol=0, rtol=0)
        assert [m.training for m in learner.modules()] == modes
    torch.testing.assert_close(learner.adapt(support)(x).detach(), learner.predict(support, x))
    assert not any(m.training for m in learner.adapt(support).modules())
    learner.train()
    losses = [learner.outer_loss(episodes).query.detach() for _ in range(2)]
    assert not torch.equal(*losses)  # training still drops


@pytest.mark.parametrize("solver", ["ridge", "cg"])
@pytest.mark.parametrize("kind", ["linear", "convolution"])
def test_exact_solves_know_no_autocast(kind: str, solver: str) -> None:
    """In bfloat16 the linear model would not even pass for linear."""
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(6, 4) if kind == "linear" else nn.Conv2d(1, 2, 3)
    ms.reparameterize(model, "dense", filter_size=3, std=0.5, filter_std=0.5)
    x = torch.randn(3, 5, *((6,) if kind == "linear" else (1, 6, 6)))
    with torch.no_grad():
        batch = Batch(x, torch.stack([2 * model(t) for t in x]))
    episodes = Episode(batch, batch, torch.arange(3))
    one = Batch(*(t[0] for t in batch))

    def adapted() -> torch.Tensor:
        learner = MSR(model, solver=solver, inner_steps=6, adapt_only="*.original")
        return learner.adapted_parameters(one)["parametrizations.weight.original"]

    expected = adapted()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(adapted(), expected)
        before = MSR(model, solver=solver, inner_steps=6, adapt_only="*.original").outer_loss(episodes).before
    direct = torch.stack([F.mse_loss(model(a), b) for a, b in zip(*batch, strict=True)])
    torch.testing.assert_close(before, direct.detach(), rtol=1e-4, atol=0)


@pytest.mark.parametrize("solver", ["ridge", "cg"])
def test_the_penalty_counts_with_whole_number_targets(solver: str) -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(5, 3).double(), torch.randn(4, 5).double()
    y = torch.randint(-3, 4, (4, 3))
    options = {"solver": solver, "penalty": 0.7, "inner_steps": 30}
    found = MAML(model, **options).adapted_parameters(Batch(x, y))["weight"]
    torch.testing.assert_close(
        found, MAML(model, **options).adapted_parameters(Batch(x, y.double()))["weight"]
    )


def test_msr_joint_checks_linearity_when_adapting() -> None:
    joint = MSRJoint(seeded_model("fc", "dense"), F.mse_loss, solver="ridge")
    with refused("model") as caught:
        joint.adapt(Batch(torch.ones(1, 5).double(), torch.ones(1, 3).double()))
    assert caught.value.found > 1e-3  # how much it bends


def test_mtsr_draws_filters_only() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 4), nn.GroupNorm(1, 4), nn.Linear(4, 3)).double()
    ms.reparameterize(model)
    learner = MTSR(model, F.mse_loss, train_tasks=6, filter_std=0.01)
    parts, params = ms.split(model), dict(model.named_parameters())
    fitted = learner.fit(regression("fc").support, inner_steps=0)
    assert set(fitted) == set(parts.v) | set(parts.other)
    for name, value in fitted.items():
        for rows in (value, learner.filters[name.replace(".", "/")].detach()):
            if name in parts.v:
                assert 0 < rows.abs().max() < 0.06
            else:
                torch.testing.assert_close(rows, params[name].detach().expand_as(rows), atol=0, rtol=0)
    assert len(learner.filters["0/parametrizations/weight/original"].flatten(1).unique(dim=0)) == 6
