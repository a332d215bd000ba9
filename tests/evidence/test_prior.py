"""Evidence and posteriors against the textbook's dense formulas."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal

from metasym.evidence import Prior, TaskStatistics, fit_prior
from metasym.evidence.em import one_round
from metasym.evidence.prior import _root_of_precision
from tests.evidence.families import examples, generic, shifted
from tests.refusals import refused


def random_prior(m: int, n: int, k: int, noise: float, seed: int) -> Prior:
    g = torch.Generator().manual_seed(seed)
    mean = torch.randn(m, n, generator=g, dtype=torch.float64)
    return Prior(mean, torch.randn(m * n, k, generator=g, dtype=torch.float64), noise)


@settings(deadline=None, max_examples=25)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 6), st.integers(1, 7), st.integers(0, 99))
def test_evidence_and_posterior_are_those_of_the_dense_gaussian(m, n, k, count, seed):
    prior = random_prior(m, n, k, 0.3, seed)
    g = torch.Generator().manual_seed(seed + 1)
    x = torch.randn(2, count, n, generator=g, dtype=torch.float64)
    y = torch.randn(2, count, m, generator=g, dtype=torch.float64)
    tasks = TaskStatistics.of(x, y)
    for t in range(2):
        design = np.kron(np.eye(m), x[t].numpy())  # rows: output by output
        target = y[t].numpy().T.ravel()
        U = prior.U.numpy()
        covariance = design @ U @ U.T @ design.T + prior.noise * np.eye(len(target))
        centre = design @ prior.mean.numpy().ravel()
        expected = multivariate_normal(centre, covariance).logpdf(target)
        assert float(prior.evidence(tasks)[t]) == pytest.approx(expected, rel=1e-8, abs=1e-8)
        gain = U @ U.T @ design.T @ np.linalg.solve(covariance, target - centre)
        weights = prior.mean.numpy() + gain.reshape(m, n)
        np.testing.assert_allclose(prior.weights(tasks)[t].numpy(), weights, atol=1e-8)


def test_a_round_never_lowers_the_evidence():
    tasks = TaskStatistics.of(*examples(shifted(40, 4), 3, noise=0.2))
    prior = random_prior(4, 4, 5, 1.0, 0)
    before = -np.inf
    for _ in range(12):
        found = one_round(prior, tasks, torch.ones(40, dtype=torch.float64), 1e-12)
        value = float(found.evidence.sum())
        assert value >= before - 1e-6
        before, prior = value, found.prior


def test_tasks_of_different_lengths_are_each_as_if_alone():
    x, y = examples(generic(3, 3), 6)
    ragged = TaskStatistics.of([x[0], x[1, :2], x[2, :4]], [y[0], y[1, :2], y[2, :4]])
    prior = random_prior(3, 3, 4, 0.1, 1)
    alone = [TaskStatistics.of(x[t : t + 1, :c], y[t : t + 1, :c]) for t, c in enumerate((6, 2, 4))]
    expected = torch.cat([prior.evidence(one) for one in alone])
    torch.testing.assert_close(prior.evidence(ragged), expected)


def test_an_offset_of_every_task_changes_nothing():
    x, y = examples(generic(5, 3), 6)
    shift = torch.randn(5, 1, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    prior = random_prior(3, 3, 4, 0.1, 1)
    plain = prior.evidence(TaskStatistics.of(x, y, offset=True))
    torch.testing.assert_close(prior.evidence(TaskStatistics.of(x, y + 9 * shift, offset=True)), plain)


@pytest.mark.parametrize(("count", "noise"), [(12, 0.0), (12, 0.3), (3, 0.0)])
def test_as_many_directions_as_the_family_has(count, noise):
    """Also from fewer examples than inputs, where no task's weights are known by themselves."""
    found = fit_prior(TaskStatistics.of(*examples(shifted(200, 5), count, noise))).prior
    assert found.directions == 5
    basis = shifted(5, 5, seed=9).flatten(1).T
    rest = basis - found.U @ torch.linalg.lstsq(found.U, basis).solution
    assert float(rest.norm() / basis.norm()) < (1e-4 if noise == 0 else 0.2)
    assert found.noise == pytest.approx(max(noise**2, 1e-14), rel=0.1, abs=1e-12)


def test_weak_directions_count_as_much_as_the_data_support_them():
    """Classes that vary a thousand times less than others are found where there is no noise."""
    maps = torch.stack([shifted(100, 4, seed=s) * 10.0 ** (-3 * s) for s in (0, 1)])
    fixed = torch.zeros(4, 4, dtype=torch.float64)
    fixed[0, 0] = 1.0
    maps = maps[0] + maps[1] * fixed
    assert fit_prior(TaskStatistics.of(*examples(maps, 8))).prior.directions == 5


@pytest.mark.parametrize(
    ("x", "y", "about", "found"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 3, 1), "x, y", ((2, 3), (2, 3, 1))),
        (torch.full((2, 3, 1), float("nan")), torch.zeros(2, 3, 1), "x", "NaN or infinity"),
        ([torch.zeros(3, 1)], [torch.zeros(3, 1), torch.zeros(3, 1)], "tasks", (1, 2)),
        (
            [torch.zeros(3, 1), torch.zeros(3, 2)],
            [torch.zeros(3, 1)] * 2,
            "inputs, outputs",
            [(1, 1), (2, 1)],
        ),
    ],
)
def test_bad_tasks_are_one_line(x, y, about, found):
    with refused(about, found):
        TaskStatistics.of(x, y)


def test_the_factor_of_the_precision_exists_without_noise(generator):
    """Two rows of 30 directions, at the least noise there is: products of the rows are singular to rounding."""
    seen = torch.randn(50, 2, 3, generator=generator, dtype=torch.float64) @ torch.randn(
        3, 30, generator=generator, dtype=torch.float64
    )
    seen = torch.cat([seen, 0.3 * seen], 1)
    noise = torch.full((50, 1, 1), 1e-14, dtype=torch.float64)
    assert bool(torch.linalg.cholesky_ex(seen.mT @ seen / noise + torch.eye(30)).info.any())
    root = _root_of_precision(seen, noise)
    assert float(root.diagonal(dim1=1, dim2=2).amin()) > 0.5  # 1 or more but for rounding
    torch.testing.assert_close(noise * (root @ root.mT), seen.mT @ seen, rtol=0, atol=1e-9)
