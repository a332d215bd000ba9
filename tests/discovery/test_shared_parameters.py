"""Shared coefficients of one linear model: the settings of Yeh et al., and the oracle beside them."""

from __future__ import annotations

import numpy as np
import pytest

import metasym as ms
from metasym.discovery.shared_parameters import shared_estimates
from metasym.types import MetasymError


@pytest.mark.parametrize(("count", "groups"), [(6, 1), (10, 1), (30, 1), (10, 3)])
def test_shared_means_reach_the_oracle(count: int, groups: int) -> None:
    errors, oracle = [], []
    for seed in range(20):
        draw = np.random.default_rng([seed, 1])
        labels = np.arange(count) % groups
        means = 3.0 * (labels + 1)
        estimate = (means + draw.normal(size=(100, count))).mean(0)
        found = shared_estimates(estimate, 100 * np.eye(count), opposite=False)
        errors.append(((found.weights - means) ** 2).sum())
        best = np.array([estimate[labels == g].mean() for g in range(groups)])[labels]
        oracle.append(((best - means) ** 2).sum())
    assert np.mean(errors) < 1.3 * np.mean(oracle)


def test_sums_with_signs_and_zeros_are_found() -> None:
    """Exactly in nearly all samples: a zero that noise takes for a small number is one chance in a hundred."""
    exact = 0
    for seed in range(40):
        draw = np.random.default_rng([seed, 2])
        weights = draw.choice([-2.0, -1.0, 0.0, 1.0, 2.0], size=9)
        weights[0] = 1.0
        x = draw.normal(size=(80, 9))
        found = ms.shared_parameters(x, x @ weights + 0.01 * draw.normal(size=80))
        np.testing.assert_allclose(found.weights, weights, atol=0.05)
        shared = all(len(set(found.labels[np.abs(weights) == size].tolist())) <= 1 for size in (1.0, 2.0))
        exact += shared and bool((found.labels[weights == 0] == 0).all())
    assert exact >= 32


def test_bad_input_is_one_line() -> None:
    with pytest.raises(MetasymError, match="more examples than coefficients"):
        ms.shared_parameters(np.eye(3), np.ones(3))
    with pytest.raises(MetasymError, match="depend on each other"):
        ms.shared_parameters(np.ones((9, 2)), np.arange(9.0))
    with pytest.raises(MetasymError, match=r"x \[examples, n\]"):
        ms.shared_parameters(np.ones(9), np.arange(9.0))
    with pytest.raises(MetasymError, match="finite"):
        ms.shared_parameters(np.full((9, 2), np.nan), np.arange(9.0))
