"""Priors of few tasks, and of tasks among which some are of another kind."""

from __future__ import annotations

import torch

from metasym.evidence import TaskStatistics, fit_prior
from metasym.evidence.fitting import robust_prior

N = 6


def tasks_of(maps: torch.Tensor, generator: torch.Generator, noise: float = 0.0) -> TaskStatistics:
    x = torch.randn(len(maps), 15, N, generator=generator, dtype=torch.float64)
    y = x @ maps.mT
    return TaskStatistics.of(x, y + noise * torch.randn(y.shape, generator=generator, dtype=torch.float64))


def mirrored(generator: torch.Generator, count: int) -> torch.Tensor:
    """Maps that reversing inputs and outputs keeps: 18 directions."""
    maps = torch.randn(count, N, N, generator=generator, dtype=torch.float64)
    return maps + maps.flip(1, 2)


def test_fewer_tasks_than_directions_do_not_become_noise(generator: torch.Generator) -> None:
    fitted = fit_prior(tasks_of(mirrored(generator, 12), generator, noise=0.1))
    assert 0.005 < fitted.prior.noise < 0.02
    U = fitted.prior.U.reshape(N, N, -1)
    assert fitted.prior.directions == 11
    error = (U - U.flip(0, 1)).norm() / U.norm()
    assert float(error) < 0.1


def test_tasks_of_another_kind_are_left_out(generator: torch.Generator) -> None:
    rows = torch.randn(200, N, generator=generator, dtype=torch.float64)
    maps = rows[:, (torch.arange(N)[:, None] - torch.arange(N)) % N]
    others = [5, 50, 111, 163, 181, 190]
    maps[others] = 3 * torch.randn(len(others), N, N, generator=generator, dtype=torch.float64)
    tasks = tasks_of(maps, generator, noise=0.01)
    found = robust_prior(tasks[slice(0, 170)], tasks[slice(170, 200)])
    assert (found.weights == 0).nonzero().flatten().tolist() == others[:4]
    assert found.prior.directions == N
