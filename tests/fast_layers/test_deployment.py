"""``ms.structured(learner)``: compiled networks of the learner whose U obeys its symmetry exactly."""

from __future__ import annotations

import copy

import torch
from torch import nn

import metasym as ms
from metasym.verdicts.status_thresholds import NEARLY
from tests.refusals import refused


def near_learner(noise: float, n: int = 80) -> ms.MSR:
    """Exact inner solve; U nearly that of circular shifts."""
    torch.manual_seed(0)
    group = ms.groups.shifts(n)
    U = ms.groups.equivariant_basis(group, group)
    U = U + noise * torch.randn(U.shape, dtype=torch.float64) / n
    model = ms.reparameterize(nn.Linear(n, n, bias=False).double(), lambda *_: ms.DenseSymmetry((n, n), U=U))
    return ms.MSR(model, solver="ridge", penalty=1e-6)


def test_it_is_the_projected_learners_network_and_compiled() -> None:
    learner = near_learner(1e-3)
    x = torch.randn(6, 80, dtype=torch.float64)
    support = ms.Batch(x, x.roll(3, 1) - 0.5 * x)
    fast = ms.structured(learner)
    compiled = fast.adapt(support)
    projected = copy.deepcopy(learner)
    ms.project(projected.model, ms.inspect(projected.model))
    expected = projected.adapt(support)
    new = torch.randn(40, 80, dtype=torch.float64)
    assert torch.allclose(compiled(new), expected(new), rtol=1e-8, atol=1e-9)
    assert [layer.sharing.count for layer in fast.plan.layers if layer.sharing] == [80]
    assert fast.learner is not learner


def test_many_examples_at_once_are_compiled_for() -> None:
    learner = near_learner(1e-3, 128)
    x = torch.randn(6, 128, dtype=torch.float64)
    support = ms.Batch(x, x.roll(3, 1) - 0.5 * x)
    few, many = (ms.structured(learner, batch=batch).adapt(support) for batch in (1, 10**6))
    assert isinstance(few, nn.Linear)
    assert [tuple(p.shape) for p in many.parameters()] == [(128,)]
    assert torch.allclose(many(x), few(x), rtol=1e-8, atol=1e-9)


def test_a_u_far_from_its_symmetry_and_a_plain_model_are_refused() -> None:
    with refused("layer ''") as caught:
        ms.structured(near_learner(0.15))
    assert caught.value.found > NEARLY
    with refused("learner", "Linear"):
        ms.structured(ms.MAML(nn.Linear(3, 3)))
    with refused("learner", "other options"):
        ms.structured(near_learner(1e-3), project=True)  # type: ignore[call-overload]


def test_the_network_inside_what_a_learner_adapts_is_compiled() -> None:
    """Prototypes stand beside the network; a learner of a user's own may wrap it too."""
    group = ms.groups.shifts(128)
    U = ms.groups.equivariant_basis(group, group)
    layer = ms.reparameterize(
        nn.Linear(128, 128, bias=False).double(), lambda *_: ms.DenseSymmetry((128, 128), U=U)
    )
    learner = ms.ProtoNet(layer)
    x = torch.randn(10, 128, dtype=torch.float64)
    support = ms.Batch(x, torch.arange(10) % 5)
    compiled, plain = ms.structured(learner, batch=10**6).adapt(support), learner.adapt(support)
    assert [tuple(p.shape) for p in compiled.parameters()] == [(128,)]
    assert torch.allclose(compiled(x), plain(x), rtol=1e-8, atol=1e-8)


def test_nothing_to_compile_is_one_line() -> None:
    torch.manual_seed(0)
    model = ms.reparameterize(nn.Linear(6, 6, bias=False), "dense", filter_size=9, std=1.0)
    with refused("structure", [""]):
        ms.structured(ms.MSR(model))


def test_the_evidence_learner_compiles_its_posterior_mean() -> None:
    """The network is the projected learner's, whether its layer pays or not."""
    tasks = ms.tasks.planted("shifts12", tasks=60, examples=20, seed=3)
    learner = ms.EvidenceMSR(12, 12)
    learner.fit(ms.Batch(tasks.x, tasks.y))
    support = ms.Batch(tasks.x[0, :6], tasks.y[0, :6])
    fast = ms.structured(learner)
    compiled = fast.adapt(support)
    found = compiled(tasks.x[0])
    assert torch.allclose(found, tasks.y[0], atol=0.05 * float(tasks.y[0].abs().max()))
    exact, sharing = fast.learner, fast.plan.layers[0].sharing
    assert sharing is not None
    assert sharing.count == 12
    answers = compiled(torch.eye(12, dtype=support.x.dtype)) - compiled(
        torch.zeros(1, 12, dtype=support.x.dtype)
    )
    assert sharing.error(answers.detach().T) <= 1e-5
    assert torch.allclose(found, exact.adapt(support)(tasks.x[0]), atol=0.05)
