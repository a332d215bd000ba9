"""The exact inner solve against the normal equations, written out from the dense U."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

import metasym as ms
from metasym.learners import MSR
from metasym.types import Batch, Episode
from tests.learners.families import mse, regression, seeded_model
from tests.refusals import refused


def layer(k: int) -> nn.Module:
    torch.manual_seed(k)
    model = nn.Linear(5, 3, bias=False).double()
    return ms.reparameterize(model, "dense", filter_size=k, std=1.0, filter_std=0.3)


def by_normal_equations(model: nn.Module, support: Batch, penalty: float) -> Tensor:
    """argmin_v mean((x W(v)^T - y)^2) + penalty |v - v0|^2, with J from the dense U entry by entry."""
    U, v0 = ms.symmetries(model)[""].matrix().detach(), next(iter(ms.split(model).v.values())).detach()
    k = v0.numel()
    J = torch.stack([(support.x @ U[:, j].reshape(3, 5).T).reshape(-1) for j in range(k)], dim=1)
    r = support.y.reshape(-1) - J @ v0
    A = J.T @ J / len(r) + penalty * torch.eye(k, dtype=torch.float64)
    return v0 + torch.linalg.solve(A, J.T @ r / len(r))


@settings(max_examples=25)
@given(k=st.integers(1, 15), examples=st.integers(1, 4), penalty=st.sampled_from([1e-4, 1e-2, 1.0]))
def test_ridge_and_cg_solve_the_normal_equations(k: int, examples: int, penalty: float) -> None:
    g = torch.Generator().manual_seed(examples)
    support = Batch(*(torch.randn(examples, n, generator=g, dtype=torch.float64) for n in (5, 3)))
    expected = by_normal_equations(layer(k), support, penalty)
    for solver in ("ridge", "cg"):
        learner = MSR(layer(k), mse_builtin(), solver=solver, inner_steps=3 * k + 5, penalty=penalty)
        (found,) = learner.adapted_parameters(support).values()
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-6)


def mse_builtin():
    return nn.MSELoss()


@pytest.mark.parametrize("mapping", ["vmap", "loop"])
@pytest.mark.parametrize(("solver", "steps"), [("ridge", 1), ("cg", 4)])
def test_the_outer_loop_differentiates_through_the_solve(solver: str, steps: int, mapping: str) -> None:
    learner = MSR(layer(8), mse_builtin(), solver=solver, inner_steps=steps, penalty=1e-2, map=mapping)
    episodes = regression("fc")
    ms.testing.assert_meta_gradient(learner, episodes)
    assert not learner.step_sizes()
    assert not [n for n in learner.outer_parameters() if n.startswith("rates.")]


def test_a_noise_free_task_is_solved_by_one_example() -> None:
    """With the right space one example determines the filter: the query error falls to rounding."""
    G = ms.groups.cyclic(6)
    U = ms.groups.symmetry_matrix(G)
    model = nn.Linear(6, 6, bias=False).double()
    ms.reparameterize(model, lambda n, m: ms.DenseSymmetry(m.weight.shape, U=U, learnable=False))
    g = torch.Generator().manual_seed(0)
    W = (U @ torch.randn(6, generator=g, dtype=torch.float64)).reshape(6, 6)
    x = torch.randn(1, 5, 6, generator=g, dtype=torch.float64)
    data = [Batch(x[:, a:b], x[:, a:b] @ W.T) for a, b in ((0, 1), (1, 5))]
    learner = MSR(model, mse_builtin(), solver="ridge", penalty=1e-12)
    assert learner.scores(Episode(*data, torch.tensor([0])), mse)[0] < 1e-12


def test_a_model_that_is_not_linear_is_refused() -> None:
    learner = MSR(seeded_model("fc", "kronecker"), mse_builtin(), solver="ridge")
    with refused("model") as caught:
        learner.outer_loss(regression("fc"))
    assert caught.value.found > 1e-3  # how much it bends
    with refused("model") as caught:
        learner.adapt(Batch(torch.ones(1, 5).double(), torch.ones(1, 3).double()))
    assert caught.value.found > 1e-3
    head = MSR(seeded_model("fc", "kronecker"), mse_builtin(), solver="ridge", adapt_only="layers.2.*")
    with refused("model") as caught:  # v and U are bilinear only if both move: v alone is linear
        MSR(seeded_model("fc", "kronecker"), mse_builtin(), solver="cg", adapt_only="layers.0.*").outer_loss(
            regression("fc")
        )
    assert caught.value.found > 1e-3
    ms.testing.assert_meta_gradient(head, regression("fc"), tolerance=1e-5)
