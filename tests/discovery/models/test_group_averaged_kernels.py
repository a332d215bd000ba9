"""Fast ways to kernels and likelihoods, beside scikit-learn's and scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process.kernels import RBF, DotProduct, Matern

from metasym.discovery.continuous.invariance_search import plain_fit
from metasym.discovery.models.column_kernels import OnColumns
from metasym.discovery.models.gaussian_processes import squares
from metasym.discovery.models.group_averaged_kernels import averaged_matrix, equivariant
from metasym.discovery.models.kernel_evaluation import kernel_values
from metasym.discovery.models.noise_likelihood import NOISES, best_noise
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation


def test_kernels_from_inner_products_are_those_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    x, other = draw.normal(size=(9, 4)), draw.normal(size=(7, 4))
    kernel = squares(4, 0.7, 2.0, 0.1) + OnColumns(RBF(0.5), 0, 4) + DotProduct(0.3) ** 3
    np.testing.assert_allclose(kernel_values(kernel, x, other), kernel(x, other), rtol=1e-12)


def test_kernels_that_are_no_functions_of_inner_products_are_not_guessed() -> None:
    x = np.ones((3, 4))
    with pytest.raises(TypeError, match="Matern"):
        kernel_values(Matern(), x, x)
    with pytest.raises(TypeError, match="columns 1 to 4"):
        kernel_values(OnColumns(RBF(), 1, 4), x, x)


@pytest.mark.parametrize("columns", [1, 3])
def test_the_best_noise_is_that_of_the_normal_law(columns: int) -> None:
    draw = np.random.default_rng(columns)
    x = draw.normal(size=(12, 2))
    matrix = RBF(1.0)(x)
    y = np.linalg.cholesky(2 * matrix + 0.01 * np.eye(12)) @ draw.normal(size=(12, columns))
    constant = 0.5 * y.size * np.log(2 * np.pi)
    wanted = max(
        (
            sum(multivariate_normal(None, a * matrix + noise * np.eye(12)).logpdf(one) for one in y.T)
            + constant,
            noise,
            a,
        )
        for a in (1.0, 4.0)
        for noise in NOISES
    )
    np.testing.assert_allclose(best_noise(matrix, y, (1.0, 4.0)), wanted, rtol=1e-7)


def test_one_row_has_a_likelihood() -> None:
    value, noise, _ = best_noise(np.array([[1.0]]), np.array([[0.0]]))
    assert noise == NOISES[0]
    np.testing.assert_allclose(value, -0.5 * np.log(1 + NOISES[0]))


def test_averaged_kernels_are_kept_by_every_move() -> None:
    x = np.random.default_rng(3).normal(size=(5, 3))
    group = SignedGroup((SignedPermutation((1, 0), (1, 0, 2), (1, -1), (1, 1, -1)),), (2, 3))
    assert group is not None
    kernel = squares(3, 0.7, 2.0, 0.1)
    g = group.generators[0]
    moved = averaged_matrix(group, kernel, np.concatenate([x, g.on_inputs(x)])).reshape(10, 2, 10, 2)
    # K(g x, g x') = g' K(x, x') g'^T
    inner, outer = moved[:5, :, :5], moved[5:, :, 5:]
    turn = g.on_outputs(np.eye(2)).T
    np.testing.assert_allclose(outer, np.einsum("ij,ajbk,lk->aibl", turn, inner, turn), atol=1e-12)


@pytest.mark.parametrize(("size", "refuted"), [(1e-4, False), (1e-2, True)])
def test_a_negligible_part_refutes_nothing(size: float, refuted: bool) -> None:
    """Its size is 2e-8 of the variance, or 2e-4; there is no noise, so that the likelihood asks for both."""
    x = np.random.default_rng(32).normal(size=(200, 2))
    y = np.cos(x[:, :1]) * np.sin(x[:, 1:]) + size * np.sin(x[:, :1])
    y = (y - y.mean()) / y.std()
    flip = SignedGroup((SignedPermutation((0,), (0, 1), (), (-1, 1)),), (1, 2))
    found = equivariant(flip, plain_fit(x, y, np.random.default_rng(0)), x, y).hidden_part(x, y)
    assert found.refutes == refuted
    assert found.upper > 1e-8


def test_what_is_rough_along_one_input_is_no_noise() -> None:
    # 0.02 sin(8 x0) beside noise, 8e-4 of the variance, was once claimed to be less than that
    draw = np.random.default_rng(31)
    x = draw.normal(size=(300, 2))
    y = np.cos(x[:, :1]) * np.sin(x[:, 1:]) + 0.015 * draw.normal(size=(300, 1))
    flip = SignedGroup((SignedPermutation((0,), (0, 1), (), (-1, 1)),), (1, 2))
    assert flip is not None
    for outputs, refuted in ((y, False), (y + 0.02 * np.sin(8 * x[:, :1]), True)):
        outputs = outputs / outputs.std()
        plain = plain_fit(x, outputs, np.random.default_rng(0))
        assert equivariant(flip, plain, x, outputs).hidden_part(x, outputs).refutes == refuted
