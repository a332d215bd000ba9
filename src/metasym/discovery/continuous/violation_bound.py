"""How much of the data's variance a broken symmetry could still hide in: a bound that knows its own power.

A Gaussian process with a part of variance delta that no symmetry binds, beside the symmetric part and noise, has a
likelihood for every delta. Where the data could not distinguish a violation from noise the likelihood is flat and
the bound is large; it is small only where a violation of that size would have been seen.
"""

from __future__ import annotations

import numpy as np
from sklearn.gaussian_process.kernels import RBF, DotProduct

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.models.invariant_features import SymmetricFit
from metasym.discovery.models.noise_likelihood import best_noise, largest_likely, profile

MOST = 300
"""Examples that a bound is computed of: the cost grows with their cube."""


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
    def likely(delta: float) -> float:
        return best_noise(symmetric + delta * other, y)[0]

    return largest_likely(profile(likely, likely(0.0)), likely)
