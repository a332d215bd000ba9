"""The likelihood of Gaussian data for many noises and amplitudes of one kernel matrix.

The matrix is made tridiagonal once; then every noise costs as much as there are rows. That is four times
faster than its eigenvectors, and the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from scipy.linalg.lapack import dormqr, dpttrf, dpttrs, dsytrd, dsytrd_lwork

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import LIKELIHOOD

NOISES = np.logspace(-8, 0, 17)
DELTAS = np.concatenate([[0.0], np.logspace(-7, 0, 15)])
"""Variances of a part that is searched for next to another, as parts of that of y."""
_FALLEN = 50.0
"""Logarithms of likelihood below the largest behind which none comes near it again."""
_STRIDE = 3
"""Of the variances that are examined first."""
_HALVINGS = 3
"""Of the interval in which a bound lies."""


def profile(likely: Callable[[float], float], without: float) -> Array:
    """The logarithm of the likelihood at ``DELTAS``, the first of which is known; -inf where it is not computed.

    It has one maximum. That, its neighbours, and where it falls below what still counts are computed, others not.
    """
    found = np.full(len(DELTAS), -np.inf)
    found[0] = without

    def look(i: int) -> None:
        if 0 < i < len(DELTAS) and found[i] == -np.inf:
            found[i] = likely(float(DELTAS[i]))

    for i in range(_STRIDE, len(DELTAS), _STRIDE):
        look(i)
        if found[i] < found.max() - _FALLEN:
            break
    top = int(np.argmax(found))
    for i in range(top - _STRIDE + 1, top + _STRIDE):
        look(i)
    last = _last_likely(found)
    while last + 1 < len(DELTAS) and found[last + 1] == -np.inf:
        look(last + 1)
        last = _last_likely(found)
    return found


def largest_likely(found: Array, likely: Callable[[float], float], worth: float = 0.0) -> float:
    """The variance from which on the likelihood, whose profile is ``found``, is too low to count.

    Between two of ``DELTAS`` it is searched for only where it may be above ``worth``.
    """
    last = _last_likely(found)
    low, high = float(DELTAS[last]), float(DELTAS[min(last + 1, len(DELTAS) - 1)])
    least = float(found.max()) - LIKELIHOOD.level
    for _ in range(_HALVINGS if 0 < low < high and high > worth else 0):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if likely(middle) > least else (low, middle)
    return high


def _last_likely(found: Array) -> int:
    return int(np.flatnonzero(found > found.max() - LIKELIHOOD.level)[-1])


def best_noise(matrix: Array, y: Array, amplitudes: Sequence[float] = (1.0,)) -> tuple[float, float, float]:
    """The largest logarithm of the likelihood of ``y [rows, columns]`` up to a constant, its noise and amplitude.

    The covariance is ``amplitude * matrix + noise``, with ``noise`` one of ``NOISES``.
    """
    diagonal, beside, turned = _tridiagonal(matrix, y)
    found = [(-np.inf, float(NOISES[-1]), float(amplitudes[0]))]
    for amplitude in amplitudes:
        for noise in NOISES:
            solved = _solved(amplitude * diagonal + noise, amplitude * beside, turned)
            if solved is None:  # not positive, to rounding
                continue
            fit = float((turned * solved[0]).sum()) + y.shape[1] * solved[1]
            found.append((-0.5 * fit, float(noise), float(amplitude)))
    return max(found)


def _solved(diagonal: Array, beside: Array, y: Array) -> tuple[Array, float] | None:
    """The solution of a tridiagonal system, and the logarithm of its determinant."""
    if len(diagonal) == 1:
        return y / diagonal[0], float(np.log(diagonal[0]))
    pivots, factors, failed = dpttrf(diagonal, beside)
    return None if failed else (dpttrs(pivots, factors, y)[0], float(np.log(pivots).sum()))


def _tridiagonal(matrix: Array, y: Array) -> tuple[Array, Array, Array]:
    """``Q^T matrix Q`` as its diagonal and the one beside it, and ``Q^T y``."""
    n = len(matrix)
    if n == 1:
        return np.array(matrix[0]), np.zeros(0), np.array(y, order="F")
    work = int(dsytrd_lwork(n, lower=1)[0])
    reflections, diagonal, beside, scales, _ = dsytrd(np.asfortranarray(matrix), lower=1, lwork=work)
    turned = np.array(y, order="F")
    below = np.asfortranarray(reflections[1:, : n - 1])
    turned[1:] = dormqr("L", "T", below, scales, turned[1:], max(1, 64 * y.shape[1]))[0]
    return diagonal, beside, turned
