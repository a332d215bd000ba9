"""Shared coefficients of one linear model: the settings of Yeh et al., and the oracle beside them."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt
import pytest

import metasym as ms
from metasym.discovery.shared_parameters import shared_estimates
from tests.refusals import refused


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


def test_vectors_share_as_the_best_of_all_partitions_does() -> None:
    """Five functions of two features each: the likelihood of all 52 partitions, by dense covariances."""
    draw = np.random.default_rng(7)
    true = np.array([0, 1, 0, 2, 1])
    vectors = np.array([[1.0, 0.5], [1.0, -0.5], [-0.3, 0.8]])[true]
    x = draw.normal(size=(60, 5, 2))
    y = np.einsum("enp,np->e", x, vectors) + 0.05 * draw.normal(size=60)
    found = ms.shared_parameters(x, y, zeros=False, opposite=False)
    assert found.weights.shape == (5, 2)
    np.testing.assert_allclose(found.weights, vectors, atol=0.05)

    flat = x.reshape(60, 10)
    estimate = np.linalg.lstsq(flat, y, rcond=None)[0]
    noise = ((y - flat @ estimate) ** 2).sum() / 50

    def likelihood(labels: tuple[int, ...]) -> float:
        share = np.kron(np.eye(5)[list(labels)], np.eye(2))
        covariance = flat @ share @ share.T @ flat.T * (estimate**2).mean() + noise * np.eye(60)
        return float(-0.5 * y @ np.linalg.solve(covariance, y) - 0.5 * np.linalg.slogdet(covariance)[1])

    every = {
        tuple(np.unique(labels, return_inverse=True)[1].tolist())
        for labels in itertools.product(range(5), repeat=5)
    }
    best = max(every, key=likelihood)

    def parts(labels: npt.ArrayLike) -> set[frozenset[int]]:
        return {
            frozenset(np.flatnonzero(np.asarray(labels) == label).tolist()) for label in np.unique(labels)
        }

    assert {frozenset(group) for group in found.groups} == parts(best) == parts(true)


def test_vectors_of_one_number_are_numbers() -> None:
    draw = np.random.default_rng(8)
    x = draw.normal(size=(40, 6))
    y = x @ np.array([1.0, -1.0, 2.0, 0.0, 2.0, 1.0]) + 0.05 * draw.normal(size=40)
    one, other = ms.shared_parameters(x, y), ms.shared_parameters(x[:, :, None], y)
    np.testing.assert_array_equal(one.labels, other.labels)
    np.testing.assert_allclose(one.weights, other.weights[:, 0])
    assert one.evidence == pytest.approx(other.evidence)


def test_bad_input_is_one_line() -> None:
    with refused("x", (3, 3)):
        ms.shared_parameters(np.eye(3), np.ones(3))
    with refused("x", 2):
        ms.shared_parameters(np.ones((9, 2)), np.arange(9.0))
    with refused("x, y", ((9,), (9,))):
        ms.shared_parameters(np.ones(9), np.arange(9.0))
    with refused("x, y", "NaN or infinity"):
        ms.shared_parameters(np.full((9, 2), np.nan), np.arange(9.0))
