"""A violation in few places: which rows differ from what a symmetric model predicts, and how much they hold.

Bounds by likelihoods and averages know violations that are spread over all rows. One that touches few rows looks like
noise to them. Each row is predicted from all others, by the leave-one-out formula of Gaussian processes, and compared
with the spread that the model expects there, on the robust scale of all rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import betaincinv, gammaincinv

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import LOCAL, TOLERANCE

_TINY = 1e-300
"""Against division by 0."""


@dataclass(frozen=True)
class LocalResiduals:
    """Rows that differ from what the others predict."""

    rows: tuple[int, ...]
    """The largest first."""
    share: float
    """What they hold, as a part of the variance of y."""
    upper: float
    """The largest part that such rows hold of the variance of further ones, at 99 %: how many of these rows there are
    is chance, and few of them carry all of it."""
    of: int = 0
    """How many rows were looked at."""
    far: int = 0
    """How many differ by more than is tolerated, on the scale of y: where there is no noise, rounding differs too."""

    @property
    def share_upper(self) -> float:
        """The largest share of further rows that may differ so: the exact binomial limit at 95 %."""
        if self.of <= self.far:
            return 1.0
        return float(betaincinv(self.far + 1, self.of - self.far, LOCAL.level))


NO_RESIDUALS = LocalResiduals((), 0.0, 0.0)


def local_residuals(matrix: Array, noise: float, y: Array, columns: int) -> LocalResiduals:
    """Of the kernel matrix of symmetric functions, and ``y [rows, k]`` centred; ``columns`` rows make one example."""
    size = len(matrix)
    for _ in range(8):
        try:
            factor = cho_factor(matrix + noise * np.eye(size), lower=True)
            break
        except LinAlgError:
            noise *= 10
    else:
        return NO_RESIDUALS
    inverse = cho_solve(factor, np.eye(size))
    spread = 1 / np.maximum(np.diag(inverse), _TINY)
    left = cho_solve(factor, y) * spread[:, None]
    return largest_residuals(
        left.reshape(size // columns, -1),
        np.repeat(spread[:, None], y.shape[1], 1).reshape(size // columns, -1),
        y,
    )


def largest_residuals(left: Array, spread: Array, y: Array) -> LocalResiduals:
    """``left [examples, m]`` with its expected squares ``spread``; ``y`` gives the variance."""
    sizes = np.sqrt((left**2 / np.maximum(spread, _TINY)).mean(1))
    usual = max(float(np.median(sizes)) / LOCAL.median, _TINY)
    rows = np.flatnonzero(sizes > LOCAL.far * usual)
    squares = (left**2).sum(1)
    total = float(((y - y.mean(0)) ** 2).sum())
    ordered = rows[np.argsort(-squares[rows])]
    shares = squares[ordered] / max(total, _TINY)
    far = int((squares[rows] > TOLERANCE * total / len(left)).sum())
    return LocalResiduals(
        tuple(int(i) for i in ordered), float(shares.sum()), sum_upper(shares), len(left), far
    )


def sum_upper(parts: Array) -> float:
    """The limit of the expected sum of ``parts`` at 99 %, where how many of them there are is a Poisson number.

    By Fay and Feuer (1997): a gamma law with the mean and the variance of the parts and of one more of the largest
    size. Of equal parts it is the exact limit of a Poisson number; a t interval over all rows, of which almost all
    hold nothing, is far too short.
    """
    if not len(parts) or not parts.max() > _TINY:
        return 0.0
    largest = float(parts.max())
    mean, variance = float(parts.sum()) + largest, float((parts**2).sum()) + largest**2
    return float(gammaincinv(mean**2 / variance, LOCAL.held_level)) * variance / mean
