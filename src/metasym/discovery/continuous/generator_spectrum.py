"""Directions along which a fitted function does not change by more than its own noise.

``phi(x)`` is linear in the unknown generator. With G the mean of ``phi phi^T`` over the data, less its noise N (from
the jackknife), the generalized eigenvalue in ``G v = lambda N v`` is the signal in units of noise: directions that
the function keeps have about 0 or less, whatever their scale, and a gap separates them from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from metasym.discovery.algebra.vector_fields import Array, sides, values
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.models.function_models import DifferentiableFunction


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Signals in units of noise, ascending, and the combinations of unknowns that they belong to."""

    signals: Array
    """``[D]``"""
    vectors: Array
    """``[D, D]``: column i belongs to signal i."""

    def quiet(self) -> int:
        """How many directions lie below the largest gap among small signals."""
        if not len(self.signals) or self.signals[0] >= CONTINUOUS.quiet:
            return 0
        if self.signals[-1] < CONTINUOUS.quiet:
            return len(self.signals)
        last = int((self.signals < CONTINUOUS.quiet).sum())
        ratios = self._ratios()[:last]
        return int(np.argmax(ratios)) + 1

    def gap(self, count: int) -> float:
        """How clearly ``count`` directions are apart from the others; infinite where there are no others."""
        if count in (0, len(self.signals)):
            return float("inf")
        return float(self._ratios()[count - 1])

    def _ratios(self) -> Array:
        low, high = self.signals[:-1], self.signals[1:]
        return np.asarray((high + 2) / (np.maximum(low, -1) + 2))


def spectrum(replicates: Sequence[Array]) -> Spectrum:
    """From ``phi [points, D]`` of each jackknife replicate."""
    stacked = np.stack(replicates)
    groups, points, unknowns = stacked.shape
    middle = stacked.mean(0)
    off = (stacked - middle).reshape(-1, unknowns)
    noise = (groups - 1) / groups * off.T @ off / points
    signal = middle.T @ middle / points - noise
    floor = 1e-6 * np.trace(noise) / unknowns + 1e-12 * np.trace(signal + noise) / unknowns + 1e-300
    signals, vectors = eigh(signal, noise + floor * np.eye(unknowns))
    return Spectrum(signals, vectors)


def pair_spectrum(ambient: Array, fits: Sequence[DifferentiableFunction], x: Array) -> Spectrum:
    """Of the pairs ``ambient [D, n+m, n+m+1]``: how far ``J_f(x) (A x + a)`` is from ``B f(x) + b``.

    ``fits`` are replicates of one function, each fitted without a part of the examples.
    """
    inner, outer = sides(ambient, x.shape[1])
    moves = values(inner, x)
    replicates = []
    for fit in fits:
        changes = np.einsum("pmi,pdi->pmd", fit.jacobian(x), moves)
        turned = values(outer, fit(x)).transpose(0, 2, 1)
        replicates.append((changes - turned).reshape(-1, len(ambient)))
    return spectrum(replicates)
