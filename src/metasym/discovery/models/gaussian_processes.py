"""Gaussian processes on small data: hyperparameters by scikit-learn, posterior means with their Jacobians.

An input is ``[x, features]``: the raw coordinates first, then features that a symmetry keeps. A kernel is a sum of
parts that look at one or the other. Derivatives by x, at fixed features, are those of the raw part alone: a symmetry
that keeps the features moves nothing else.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.exceptions import ConvergenceWarning
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    Exponentiation,
    Product,
    Sum,
    WhiteKernel,
)

from metasym.discovery.models.column_kernels import OnColumns
from metasym.discovery.models.marginal_likelihood import JITTER, climb

Array = npt.NDArray[np.float64]
MOST = 400
"""Examples that hyperparameters are chosen on: the cost of the likelihood grows with their cube."""
LEAST_NOISE = 1e-7
"""Of the variance: with less, kernel matrices cannot be factored."""


@dataclass(frozen=True)
class Hyper:
    """A kernel with its hyperparameters, the noise, and the logarithm of the marginal likelihood."""

    kernel: Any
    noise: float
    evidence: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior mean of a Gaussian process: ``f(z) = k(z, inputs) weights + mean``."""

    kernel: Any
    inputs: Array
    """``[examples, columns]``"""
    weights: Array
    """``[examples, outputs]``"""
    mean: Array
    """``[outputs]``"""

    def __call__(self, inputs: Array) -> Array:
        """``[points, outputs]`` at ``inputs [points, columns]``."""
        return np.asarray(self.kernel(inputs, self.inputs) @ self.weights + self.mean)

    def jacobian(self, inputs: Array, n: int | None = None) -> Array:
        """``[points, outputs, n]``: derivatives by the first n columns (or all), of what looks at them alone."""
        n = inputs.shape[1] if n is None else n
        return _jacobian(self.kernel, inputs[:, :n], self.inputs[:, :n], self.weights)


def squares(n: int, amplitude: float, scale: float, squared: float) -> Any:
    """A kernel on the n raw coordinates: smooth functions, and quadratic polynomials beside them."""
    smooth = ConstantKernel(amplitude, (1e-9, 1e5)) * RBF(scale, (scale / 20, scale * 200))
    quadratic = ConstantKernel(squared, (1e-9, 1e3)) * DotProduct(1.0, (1e-3, 1e2)) ** 2
    return OnColumns(smooth, 0, n) + OnColumns(quadratic, 0, n)


def on_features(n: int, scales: Array, amplitude: float) -> Any:
    """A kernel on the features that follow n raw coordinates, each with its own length scale."""
    kernel = ConstantKernel(amplitude, (1e-3, 1e6)) * RBF(scales, (0.05, 1e3))
    return OnColumns(kernel, n, n + len(scales))


def choose_kernel(
    inputs: Array, y: Array, kernels: Sequence[Any], noise: float, generator: np.random.Generator
) -> Hyper:
    """The kernel, and its hyperparameters, with the largest marginal likelihood; ``y [examples, outputs]`` is scaled.

    Each of ``kernels`` holds where the search for its hyperparameters starts. Of more than ``MOST`` examples some
    are drawn; ``evidence`` is that of those.
    """
    if len(inputs) > MOST:
        chosen = generator.permutation(len(inputs))[:MOST]
        inputs, y = inputs[chosen], y[chosen]
    best: Hyper | None = None
    for kernel in kernels:
        whole = kernel + WhiteKernel(max(noise, 10 * LEAST_NOISE), (LEAST_NOISE, 10.0))
        model = GaussianProcessRegressor(whole, alpha=JITTER, optimizer=climb(whole, inputs, y - y.mean(0)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(inputs, y - y.mean(0))
        found = Hyper(
            model.kernel_.k1,
            float(model.kernel_.k2.noise_level),
            float(model.log_marginal_likelihood_value_),
        )
        if best is None or found.evidence > best.evidence:
            best = found
    assert best is not None
    return best


def posterior(hyper: Hyper, inputs: Array, y: Array) -> Posterior:
    """The posterior mean given ``inputs [examples, columns]`` and ``y [examples, outputs]``."""
    mean = y.mean(0)
    matrix = hyper.kernel(inputs)
    noise = max(hyper.noise, LEAST_NOISE)
    for _ in range(8):
        try:
            factor = cho_factor(matrix + noise * np.eye(len(inputs)), lower=True)
            break
        except LinAlgError:  # a smooth kernel in few dimensions is singular to rounding
            noise *= 10
    return Posterior(hyper.kernel, inputs, np.asarray(cho_solve(factor, y - mean)), mean)


def random_folds(count: int, groups: int, generator: np.random.Generator) -> list[npt.NDArray[np.int64]]:
    """``0 .. count-1`` in random order, in ``groups`` parts."""
    return [np.asarray(part) for part in np.array_split(generator.permutation(count), groups)]


def jackknife(
    hyper: Hyper, inputs: Array, y: Array, groups: Sequence[npt.NDArray[np.int64]]
) -> list[Posterior]:
    """The posterior means that leave out one group of examples each, with the same hyperparameters."""
    found = []
    for left_out in groups:
        kept = np.ones(len(inputs), dtype=bool)
        kept[left_out] = False
        found.append(posterior(hyper, inputs[kept], y[kept]))
    return found


def out_of_fold(hyper: Hyper, inputs: Array, y: Array, groups: Sequence[npt.NDArray[np.int64]]) -> Array:
    """Each example's prediction ``[examples, outputs]`` by the fit that left out its group."""
    found = np.empty_like(y)
    for left_out, fit in zip(groups, jackknife(hyper, inputs, y, groups), strict=True):
        found[left_out] = fit(inputs[left_out])
    return found


def _jacobian(kernel: Any, x: Array, inputs: Array, weights: Array) -> Array:
    """``[points, outputs, n]``, by the kernel's own rule."""
    if isinstance(kernel, Sum):
        return _jacobian(kernel.k1, x, inputs, weights) + _jacobian(kernel.k2, x, inputs, weights)
    if isinstance(kernel, OnColumns):
        if kernel.start > 0:
            return np.zeros((len(x), weights.shape[1], x.shape[1]))
        return _jacobian(kernel.kernel, x, inputs, weights)
    if isinstance(kernel, Product) and isinstance(kernel.k1, ConstantKernel):
        return np.asarray(kernel.k1.constant_value * _jacobian(kernel.k2, x, inputs, weights))
    if isinstance(kernel, RBF):
        near = kernel(x, inputs)
        squared = np.broadcast_to(kernel.length_scale, x.shape[1]) ** 2
        found = np.stack([(near * w) @ inputs - (near @ w)[:, None] * x for w in weights.T], axis=1)
        return np.asarray(found / squared)
    if isinstance(kernel, Exponentiation) and isinstance(kernel.kernel, DotProduct):
        power, offset = kernel.exponent, kernel.kernel.sigma_0**2
        slope = power * (x @ inputs.T + offset) ** (power - 1)
        return np.stack([(slope * w) @ inputs for w in weights.T], axis=1)
    raise TypeError(f"no derivative of {type(kernel).__name__}")
