"""How much of the data's variance a broken symmetry could still hide in: a bound that knows its own power.

A Gaussian process with a part of variance delta that no symmetry binds, beside the symmetric part and noise, has a
likelihood for every delta. Where the data could not tell a violation from noise the likelihood is flat and the bound
is large; it is small only where a violation of that size would have been seen.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from sklearn.gaussian_process.kernels import RBF, DotProduct

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import LIKELIHOOD
from metasym.discovery.models.invariant_features import SymmetricFit

MOST = 300
_DELTAS = np.concatenate([[0.0], np.logspace(-7, 0, 29)])
_NOISES = np.logspace(-8, 0, 17)


def largest_hidden_violation(fit: SymmetricFit, x: Array, y: Array) -> float:
    """The largest variance, as a part of that of ``y``, that functions without the symmetry may have."""
    return hidden_beside_kernel(fit.hyper.kernel(fit.inputs(x[:MOST])), x, y)


def hidden_beside_kernel(symmetric: Array, x: Array, y: Array) -> float:
    """The same for any kernel matrix of symmetric functions, of the first ``MOST`` examples."""
    x, y = x[:MOST], y[:MOST] - y[:MOST].mean(0)
    n = x.shape[1]
    others = [RBF(n**0.5)(x), RBF(2 * n**0.5)(x), DotProduct(1.0)(x) ** 2]
    variance = float(np.mean(y**2))
    worst = 0.0
    for other in others:
        scaled = other / float(np.mean(np.diag(other))) * variance
        worst = max(worst, _largest(symmetric, scaled, y))
    return worst


def _largest(symmetric: Array, other: Array, y: Array) -> float:
    best = []
    for delta in _DELTAS:
        base = symmetric + delta * other
        best.append(max(_likelihood(base, noise, y) for noise in _NOISES))
    profile = np.array(best)
    allowed = np.flatnonzero(profile > profile.max() - LIKELIHOOD.level)
    last = int(allowed[-1])
    return float(_DELTAS[min(last + 1, len(_DELTAS) - 1)])


def _likelihood(matrix: Array, noise: float, y: Array) -> float:
    try:
        factor = cholesky(matrix + noise * np.eye(len(y)), lower=True)
    except LinAlgError:
        return -np.inf
    solved = solve_triangular(factor, y, lower=True)
    return float(-0.5 * (solved**2).sum() - y.shape[1] * np.log(np.diag(factor)).sum())
