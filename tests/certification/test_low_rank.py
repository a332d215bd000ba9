"""Tasks whose inputs do not span: what least squares puts at zero there is no broken symmetry."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from metasym.certification import SignedPermutation, certify
from metasym.evidence import TaskStatistics
from tests.certification.test_ladder import N, T, even, ladder
from tests.evidence.families import generic, shifted

COUNT = 14
KINDS = ("rank 2", "rank 4", "one input off in a tenth", "one-hot", "three one-hot")
TURN = SignedPermutation(tuple((i + 1) % N for i in range(N)), tuple((i + 1) % N for i in range(N)))


def inputs(kind: str, g: torch.Generator) -> Tensor:
    """``[T, COUNT, N]``: every task in a subspace of its own, with an input that is 0, or of unit vectors."""
    x = torch.randn(T, COUNT, N, generator=g, dtype=torch.float64)
    if kind.startswith("rank"):
        basis = torch.linalg.qr(torch.randn(T, N, int(kind[-1]), generator=g, dtype=torch.float64)).Q
        return x @ basis @ basis.mT
    if kind == "one input off in a tenth":
        x[torch.rand(T, generator=g) < 0.1, :, 2] = 0
        return x
    most = N if kind == "one-hot" else 3
    order = torch.rand(T, N, generator=g).argsort(1)
    which = order.gather(1, torch.randint(most, (T, COUNT), generator=g))
    return torch.eye(N, dtype=torch.float64)[which]


def tasks(maps: Tensor, kind: str, noise: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    g = torch.Generator().manual_seed(500 + seed)
    x = inputs(kind, g)
    y = x @ maps.mT
    return x, y + noise * y.std() * torch.randn(y.shape, generator=g, dtype=torch.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_the_group_is_named(kind: str, noise: float) -> None:
    found, _ = ladder(*tasks(even(shifted(T, N)), kind, noise))
    assert found.certified is not None
    assert found.certified.group.name == "D_5"
    assert found.certified.certificate.bound < (1e-3 if noise == 0 else 0.1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("broken", [0.1, 1.0])
def test_a_planted_violation_is_not_certified(kind: str, broken: float) -> None:
    found, _ = ladder(*tasks(even(shifted(T, N)) + broken * generic(T, N), kind, 0.0))
    assert found.certified is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_quick_look_refutes_what_is_broken_and_nothing_else(kind: str) -> None:
    maps = shifted(T, N)
    x, y = tasks(maps, kind, 0.0)
    assert not certify(TaskStatistics.of(x, y), [TURN], quick=True).refuted
    assert certify(TaskStatistics.of(x, x @ (maps + generic(T, N)).mT), [TURN], quick=True).refuted


def test_which_tasks_span(generator: torch.Generator) -> None:
    """In units far apart; float32 leaves rounding where there is nothing; one that no task has does not count."""
    x = torch.randn(4, 9, 4, generator=generator) * torch.tensor([1.0, 1e-5, 1e3, 1.0])
    x[1, :, 1] = 0
    x[2, :, 3] = 0.3 * x[2, :, 0]
    x = torch.cat([x, torch.zeros(4, 9, 1)], 2)
    found = TaskStatistics.of(x, x)
    assert found.spanned.shape == (5, 4)
    assert found.spanning.tolist() == [True, False, False, True]


def test_what_is_told_keeps_all_equations(generator: torch.Generator) -> None:
    maps = generic(3, N)
    basis = torch.randn(3, 2, N, generator=generator, dtype=torch.float64)
    x = torch.randn(3, COUNT, 2, generator=generator, dtype=torch.float64) @ basis
    x[2] = torch.randn(COUNT, N, generator=generator, dtype=torch.float64)
    y = x @ maps.mT + torch.randn(3, COUNT, N, generator=generator, dtype=torch.float64)
    told = TaskStatistics.of(x, y).told()
    assert told.counts.tolist() == [2, 2, N]
    torch.testing.assert_close(told.grams, x.mT @ x)
    torch.testing.assert_close(told.factors.mT @ told.targets, x.mT @ y)
