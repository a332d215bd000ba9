"""Strengths of directions that few tasks make too unequal."""

from __future__ import annotations

import pytest
import torch

from metasym.evidence import Prior, TaskStatistics, fit_prior
from metasym.evidence.shrinkage import PARTS, Shrinkage, best_shrinkage
from tests.evidence.families import examples, generic

N = 4


def error(prior: Prior, maps: torch.Tensor) -> float:
    """Of the posterior mean from three examples of new tasks."""
    found = prior.weights(TaskStatistics.of(*examples(maps, 3, 0.3, seed=1)))
    return float((found - maps).square().sum((1, 2)).mean())


def test_many_directions_from_few_tasks_come_near_the_true_prior():
    """Directions that are all alike: what maximum likelihood makes of 60 tasks is 1.2 times as bad as the truth."""
    maps = generic(1060, N)
    tasks = TaskStatistics.of(*examples(maps[:60], 12, 0.3))
    U = torch.eye(N * N, dtype=torch.float64) / N**0.5
    oracle = error(Prior(torch.zeros(N, N, dtype=torch.float64), U, 0.09), maps[60:])
    unshrunk = fit_prior(tasks, directions=N * N).prior
    assert error(unshrunk, maps[60:]) > 1.15 * oracle
    assert error(fit_prior(tasks).prior, maps[60:]) < 1.07 * oracle


@pytest.mark.parametrize("logarithms", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_the_span_stays_and_variances_come_together(part, logarithms, generator):
    U = torch.linalg.qr(torch.randn(9, 4, generator=generator, dtype=torch.float64)).Q
    prior = Prior(
        torch.zeros(3, 3, dtype=torch.float64), U * torch.tensor([4.0, 2.0, 1.0, 0.5]).double(), 1.0
    )
    found = Shrinkage(part, logarithms).of(prior)
    assert torch.allclose(U @ (U.T @ found.U), found.U, atol=1e-12)
    before, after = (torch.linalg.svdvals(p.U) for p in (prior, found))
    assert float(after[0] / after[-1]) < float(before[0] / before[-1])
    kept = (
        after.log().mean() - before.log().mean() if logarithms else (after.square() - before.square()).sum()
    )
    assert abs(float(kept)) < 1e-9


def test_directions_that_differ_in_truth_are_left_as_they_are(generator):
    scales = torch.logspace(0, -3, N * N, dtype=torch.float64)
    maps = (torch.randn(2000, N * N, generator=generator, dtype=torch.float64) * scales).reshape(-1, N, N)
    prior = Prior(torch.zeros(N, N, dtype=torch.float64), scales.diag(), 1e-8)
    assert best_shrinkage(prior, TaskStatistics.of(*examples(maps, 12, 1e-4))).part <= 0.02
