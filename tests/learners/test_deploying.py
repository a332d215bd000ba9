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


def test_a_u_far_from_its_symmetry_and_a_plain_model_are_refused() -> None:
    x = torch.randn(6, 80, dtype=torch.float64)
    with pytest.raises(ms.MetasymError, match="only nearly, error 0"):
        near_learner(0.15).adapt(ms.Batch(x, x), structured=True)
    plain = ms.MAML(nn.Linear(3, 3))
    with pytest.raises(ms.MetasymError, match="expected a reparameterized model with structured=True"):
        plain.adapt(ms.Batch(torch.randn(2, 3), torch.randn(2, 3)), structured=True)
