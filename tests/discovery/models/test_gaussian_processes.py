"""Posterior means, their Jacobians and their modules."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import WhiteKernel

from metasym.discovery.models.gaussian_processes import (
    Hyper,
    choose_kernel,
    on_features,
    out_of_fold,
    posterior,
    random_folds,
    squares,
)
from metasym.discovery.models.marginal_likelihood import JITTER, negative_likelihood


def test_jacobians_are_differences() -> None:
    draw = np.random.default_rng(0)
    inputs, y = draw.normal(size=(30, 5)), draw.normal(size=(30, 2))
    kernel = squares(3, 1.0, 1.5, 0.1) + on_features(3, np.array([1.0, 2.0]), 1.0)
    fit = posterior(Hyper(kernel, 0.1, 0.0), inputs, y)
    raw = posterior(Hyper(squares(3, 1.0, 1.5, 0.1), 0.1, 0.0), inputs, y)
    x = draw.normal(size=(4, 5))
    slopes = fit.jacobian(x, 3)
    assert slopes.shape == (4, 2, 3)
    for i in range(3):
        step = np.zeros(5)
        step[i] = 1e-5
        np.testing.assert_allclose((fit(x + step) - fit(x - step)) / 2e-5, slopes[:, :, i], atol=1e-6)
    assert not np.allclose(raw.jacobian(x, 3), slopes)  # the features explain a part


def test_hyperparameters_find_smooth_functions_and_noise() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(150, 2))
    y = (np.sin(x[:, :1]) + x[:, 1:] ** 2 + 0.1 * draw.normal(size=(150, 1))) / 1.5
    hyper = choose_kernel(x, y, [squares(2, 0.1, 1.4, 0.1)], 1e-2, draw)
    assert 0.3 * 0.01 / 1.5**2 < hyper.noise < 3 * 0.01 / 1.5**2
    left = y - out_of_fold(hyper, x, y, random_folds(150, 5, draw))
    assert float((left**2).mean()) < 4 * 0.01 / 1.5**2


def test_equal_seeds_choose_equal_parts() -> None:
    one, two = (random_folds(20, 3, np.random.default_rng(4)) for _ in range(2))
    assert all((a == b).all() for a, b in zip(one, two, strict=True))
    assert torch.tensor(np.concatenate(one)).sort().values.tolist() == list(range(20))


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_fast_likelihood_is_scikit_learns(outputs: int) -> None:
    draw = np.random.default_rng(5)
    inputs, y = draw.normal(size=(40, 5)), draw.normal(size=(40, outputs))
    kernel = squares(3, 0.7, 1.5, 0.1) + on_features(3, np.array([1.0, 2.0]), 1.3) + WhiteKernel(0.02)
    model = GaussianProcessRegressor(kernel, alpha=JITTER, optimizer=None).fit(inputs, y)
    theta = kernel.theta + 0.3 * draw.normal(size=len(kernel.theta))
    value, slopes = negative_likelihood(kernel, inputs, y, theta)
    expected, wanted = model.log_marginal_likelihood(theta, eval_gradient=True)
    assert value == pytest.approx(-expected)
    np.testing.assert_allclose(slopes, -wanted, rtol=1e-6, atol=1e-8)
