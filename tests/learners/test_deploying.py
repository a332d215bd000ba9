"""``adapt(support, structured=True)``: the compiled network of the learner whose U obeys its symmetry exactly."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import metasym as ms


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
    compiled = learner.adapt(support, structured=True)
    projected = copy.deepcopy(learner)
    ms.project(projected.model, ms.inspect(projected.model))
    expected = projected.adapt(support)
    new = torch.randn(40, 80, dtype=torch.float64)
    assert torch.allclose(compiled(new), expected(new), rtol=1e-8, atol=1e-9)
    plan = learner.compiler.of(learner)[1]
    assert "80 points" in str(plan)
    assert learner.compiler.of(learner)[1] is plan  # worked out once
    with torch.no_grad():
        ms.symmetries(learner.model)[""].U.mul_(2)
    assert learner.compiler.of(learner)[1] is not plan  # U was changed


def test_many_examples_at_once_are_compiled_for() -> None:
    learner = near_learner(1e-3, 128)
    x = torch.randn(6, 128, dtype=torch.float64)
    support = ms.Batch(x, x.roll(3, 1) - 0.5 * x)
    few, many = (learner.adapt(support, structured=True, batch=batch) for batch in (1, 10**6))
    assert isinstance(few, nn.Linear)
    assert [tuple(p.shape) for p in many.parameters()] == [(128,)]
    assert torch.allclose(many(x), few(x), rtol=1e-8, atol=1e-9)


def test_a_u_far_from_its_symmetry_and_a_plain_model_are_refused() -> None:
    x = torch.randn(6, 80, dtype=torch.float64)
    with pytest.raises(ms.MetasymError, match="only nearly, error 0"):
        near_learner(0.15).adapt(ms.Batch(x, x), structured=True)
    plain = ms.MAML(nn.Linear(3, 3))
    with pytest.raises(ms.MetasymError, match="expected a reparameterized model with structured=True"):
        plain.adapt(ms.Batch(torch.randn(2, 3), torch.randn(2, 3)), structured=True)


def test_nothing_to_compile_is_one_line() -> None:
    torch.manual_seed(0)
    model = ms.reparameterize(nn.Linear(6, 6, bias=False), "dense", filter_size=9, std=1.0)
    with pytest.raises(ms.MetasymError, match="expected a layer with a structure to compile") as error:
        ms.MSR(model).adapt(ms.Batch(torch.randn(2, 6), torch.randn(2, 6)), structured=True)
    assert "\n" not in str(error.value)


def test_the_evidence_learner_compiles_its_posterior_mean() -> None:
    """The network is the projected learner's, whether its layer pays or not."""
    tasks = ms.tasks.planted("shifts12", tasks=60, examples=20, seed=3)
    learner = ms.EvidenceMSR(12, 12)
    learner.fit(ms.Batch(tasks.x, tasks.y))
    support = ms.Batch(tasks.x[0, :6], tasks.y[0, :6])
    compiled = learner.adapt(support, structured=True)
    found = compiled(tasks.x[0])
    assert torch.allclose(found, tasks.y[0], atol=0.05 * float(tasks.y[0].abs().max()))
    exact, plan = learner.compiler.of(learner)
    assert "circular convolution of 12 points" in str(plan)
    sharing = plan.layers[0].sharing
    assert sharing is not None
    assert sharing.count == 12
    answers = compiled(torch.eye(12, dtype=support.x.dtype)) - compiled(
        torch.zeros(1, 12, dtype=support.x.dtype)
    )
    assert sharing.error(answers.detach().T) <= 1e-5
    assert torch.allclose(found, exact.adapt(support)(tasks.x[0]), atol=0.05)
