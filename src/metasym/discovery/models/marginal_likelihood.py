"""The marginal likelihood of Gaussian processes and its slopes, several times faster than scikit-learn's general way.

Scikit-learn keeps one matrix ``[examples, examples]`` for each hyperparameter. The kernels here are sums of three
kinds, whose slopes are inner products of a few such matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
from scipy.linalg import LinAlgError, cho_solve, cholesky
from scipy.linalg.lapack import dpotri
from sklearn.gaussian_process.kernels import RBF, Product, Sum, WhiteKernel

from metasym.discovery.models.column_kernels import Array, OnColumns

JITTER = 1e-9
"""What is added to the diagonal of kernel matrices, beside the noise."""
_FAILED = 1e25
"""What the optimizer sees where a kernel matrix cannot be factored: worse than any value."""

Slopes = Callable[[Array], Array]
"""From weights ``[examples, examples]`` (symmetric) to their inner products with the slopes of a kernel matrix."""


def negative_likelihood(kernel: Any, inputs: Array, y: Array, theta: Array) -> tuple[float, Array]:
    """Minus the logarithm of the likelihood of ``y [examples, outputs]``, and its slopes by ``theta``.

    ``theta`` holds the logarithms of all hyperparameters of ``kernel``, as scikit-learn orders them.
    """
    matrix, slopes = _matrix(kernel.clone_with_theta(theta), inputs)
    try:
        value, weights = likelihood_of(matrix, y)
    except LinAlgError:
        return _FAILED, np.zeros_like(theta)
    return value, -slopes(weights)


def likelihood_of(matrix: Array, y: Array) -> tuple[float, Array]:
    """Minus the logarithm of the likelihood of ``y [examples, outputs]`` under ``matrix``, which is overwritten.

    Then ``weights [examples, examples]``: minus the slopes by the entries of the matrix.
    """
    matrix.flat[:: len(matrix) + 1] += JITTER
    factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    solved = cho_solve((factor, True), y, check_finite=False)
    count, outputs = y.shape
    logarithms = float(np.log(np.diag(factor)).sum())
    value = 0.5 * float((y * solved).sum()) + outputs * (logarithms + 0.5 * count * np.log(2 * np.pi))
    inverse = dpotri(factor, lower=1, overwrite_c=1)[0]  # its lower half
    inverse += np.tril(inverse, -1).T
    return value, 0.5 * (solved @ solved.T - outputs * inverse)


def climb(kernel: Any, inputs: Array, y: Array) -> Callable[[Any, Array, Array], tuple[Array, float]]:
    """An ``optimizer`` for scikit-learn's ``GaussianProcessRegressor`` of the same kernel and data."""

    def optimizer(_: Any, start: Array, bounds: Array) -> tuple[Array, float]:
        found = scipy.optimize.minimize(
            lambda theta: negative_likelihood(kernel, inputs, y, theta),
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
        )
        return found.x, float(found.fun)

    return optimizer


def _matrix(kernel: Any, inputs: Array) -> tuple[Array, Slopes]:
    """The kernel matrix, and its slopes."""
    if isinstance(kernel, Sum):
        (one, first), (two, second) = _matrix(kernel.k1, inputs), _matrix(kernel.k2, inputs)
        return one + two, lambda weights: np.concatenate([first(weights), second(weights)])
    if isinstance(kernel, WhiteKernel):
        noise = float(kernel.noise_level)
        return noise * np.eye(len(inputs)), lambda weights: np.array([noise * np.trace(weights)])
    if isinstance(kernel, OnColumns):
        return _matrix(kernel.kernel, inputs[:, kernel.start : kernel.stop])
    assert isinstance(kernel, Product)
    amplitude = float(kernel.k1.constant_value)
    if isinstance(kernel.k2, RBF):
        return _smooth(amplitude, np.asarray(kernel.k2.length_scale), inputs)
    return _square(amplitude, float(kernel.k2.kernel.sigma_0), inputs)


def _smooth(amplitude: float, scales: Array, x: Array) -> tuple[Array, Slopes]:
    scaled = x / scales
    sizes = (scaled**2).sum(1)
    matrix = scaled @ scaled.T
    matrix *= 2
    matrix -= sizes[:, None]
    matrix -= sizes
    np.minimum(matrix, 0.0, out=matrix)
    matrix *= 0.5
    np.exp(matrix, out=matrix)
    matrix *= amplitude

    def slopes(weights: Array) -> Array:
        near = weights * matrix
        rows = near.sum(1)
        # Sums over pairs of near * (difference of a column)^2, one for each column.
        each = 2 * ((rows[:, None] * scaled**2).sum(0) - (scaled * (near @ scaled)).sum(0))
        return np.concatenate([[rows.sum()], each if scales.ndim else [each.sum()]])

    return matrix, slopes


def _square(amplitude: float, offset: float, x: Array) -> tuple[Array, Slopes]:
    inner = x @ x.T + offset**2

    def slopes(weights: Array) -> Array:
        near = weights * inner
        return amplitude * np.array([(near * inner).sum(), 4 * offset**2 * near.sum()])

    return amplitude * inner**2, slopes
