"""The proximal step against a singular value decomposition, and what compressing keeps."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import metasym as ms
from metasym.symmetry.pruning import NuclearAdam, complete, compress, shrink_singular_values
from tests.refusals import refused


@given(rows=st.integers(1, 12), k=st.integers(1, 8), by=st.floats(0, 4), seed=st.integers(0, 1000))
def test_shrinking_is_soft_thresholding_of_singular_values(rows: int, k: int, by: float, seed: int) -> None:
    U = torch.randn(rows, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    L, s, R = torch.linalg.svd(U, full_matrices=False)
    expected = (L * (s - by).clamp_min(0)) @ R
    shrink_singular_values(U, by)
    torch.testing.assert_close(U, expected, atol=1e-6, rtol=1e-6)


def test_without_strength_it_is_adam() -> None:
    starts = [torch.ones(4, 3, requires_grad=True) for _ in range(2)]
    optimizers = [torch.optim.Adam([starts[0]], lr=0.1), NuclearAdam([starts[1]], lr=0.1)]
    for parameter, optimizer in zip(starts, optimizers, strict=True):
        for i in range(5):
            parameter.grad = torch.full((4, 3), float(i))
            optimizer.step()
    assert torch.equal(*starts)
    with refused("nuclear", -1):
        NuclearAdam([starts[0]], nuclear=-1)


def test_it_finds_the_rank() -> None:
    """A matrix of rank 2 seen through half of its entries: the pruned fit has rank 2, plain Adam's does not."""
    g = torch.Generator().manual_seed(0)
    target = torch.randn(30, 2, generator=g) @ torch.randn(2, 20, generator=g)
    seen = torch.rand(30, 20, generator=g) < 0.5
    ranks = []
    for nuclear in (0.0, 1.0):
        U = (0.01 * torch.randn(30, 20, generator=torch.Generator().manual_seed(1))).requires_grad_()
        optimizer = NuclearAdam([U], lr=0.02, nuclear=nuclear)
        for _ in range(400):
            optimizer.zero_grad()
            ((U - target)[seen] ** 2).sum().backward()
            optimizer.step()
        values = torch.linalg.svdvals(U.detach())
        ranks.append(int((values > 1e-2 * values[0]).sum()))
    assert ranks[0] > 10
    assert ranks[1] == 2


def test_compress_keeps_the_function_and_the_inner_steps() -> None:
    """A rotation of the filter changes neither W nor where an inner step moves W (U U^T stays)."""
    g = torch.Generator().manual_seed(0)
    U = torch.randn(12, 2, generator=g, dtype=torch.float64) @ torch.randn(
        2, 7, generator=g, dtype=torch.float64
    )
    layer = nn.Linear(4, 3, bias=False).double()
    ms.reparameterize(layer, lambda n, m: ms.DenseSymmetry((3, 4), U=U), filter_std=1.0, generator=g)
    W = layer.weight.detach().clone()
    assert compress(layer) == {"": 2}
    torch.testing.assert_close(layer.weight.detach(), W)
    found = ms.symmetries(layer)[""].matrix()
    torch.testing.assert_close(found @ found.T, U @ U.T)
    assert ms.split(layer).v["parametrizations.weight.original"].shape == (2,)
    assert torch.allclose(found.T @ found, torch.diag((found**2).sum(0)))


def test_compress_can_make_all_directions_equally_strong() -> None:
    """The span and the weight stay; U U^T becomes the number of outputs times the projection on the span."""
    g = torch.Generator().manual_seed(0)
    U = torch.randn(12, 2, generator=g, dtype=torch.float64) @ torch.randn(
        2, 7, generator=g, dtype=torch.float64
    )
    layer = nn.Linear(4, 3, bias=False).double()
    ms.reparameterize(layer, lambda n, m: ms.DenseSymmetry((3, 4), U=U), filter_std=1.0, generator=g)
    W = layer.weight.detach().clone()
    assert compress(layer, equal=True) == {"": 2}
    torch.testing.assert_close(layer.weight.detach(), W)
    found = ms.symmetries(layer)[""].matrix()
    torch.testing.assert_close(found @ found.T, 3 * U @ torch.linalg.pinv(U))


def test_bad_input_is_one_line() -> None:
    with refused("model", "Linear"):
        compress(nn.Linear(2, 2))
    layer = ms.reparameterize(nn.Linear(2, 2), "dense", filter_size=2)
    with refused("tolerance", -1.0):
        compress(layer, tolerance=-1.0)
    with torch.no_grad():
        ms.symmetries(layer)[""].U.zero_()
    with refused("layer ''", 0):
        compress(layer)


def test_completing_adds_what_is_missing_and_changes_no_weight() -> None:
    g = torch.Generator().manual_seed(0)
    U = torch.randn(12, 2, generator=g, dtype=torch.float64) @ torch.randn(
        2, 5, generator=g, dtype=torch.float64
    )
    layer = nn.Linear(4, 3, bias=False, dtype=torch.float64)
    ms.reparameterize(layer, lambda *_: ms.DenseSymmetry((3, 4), U=U))
    weight = layer.weight.detach().clone()
    assert complete(layer, 0.1) == {"": 12}
    torch.testing.assert_close(layer.weight.detach(), weight)
    values, before = (torch.linalg.svdvals(M) for M in (layer.parametrizations.weight[0].U.detach(), U))
    torch.testing.assert_close(values[:2], before[:2])
    torch.testing.assert_close(values[2:], 0.1 * before[0].expand(10))
    complete(layer, 1.0)
    whole = layer.parametrizations.weight[0].U.detach()
    torch.testing.assert_close(whole @ whole.T, before[0] ** 2 * torch.eye(12, dtype=torch.float64))
    torch.testing.assert_close(layer.weight.detach(), weight)


def test_completing_refuses_what_it_cannot_do() -> None:
    with refused("strength", 0):
        complete(nn.Linear(2, 2), 0)
    with refused("model", "Linear"):
        complete(nn.Linear(2, 2), 0.5)
