"""A certificate that needs no good model: what breaks a symmetry must not predict what the symmetric model leaves.

With ``f_bar`` a symmetric model and ``a`` the part of a flexible one that no symmetric function has, both fitted to
other data, ``beta = E<y - f_bar, a> / E|a|^2`` is 0 for a true symmetry, however poor the models are, and positive
where a is real. "Averaging does not hurt" is no certificate: it passes near symmetries and false ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from metasym.certification.certificate_thresholds import BETA, NEGLIGIBLE_VIOLATION
from metasym.verdicts.status_thresholds import WIDE_BETA

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Beta:
    """beta with its interval, and what it bounds."""

    value: float
    low: float
    high: float
    moved: float
    """``E|a|^2 / var y``: the part of the flexible model that breaks the symmetry."""
    violation_upper: float
    """The largest ``E|violation|^2 / var y`` along a that the data still allow: ``high * moved``, or 0."""
    examples: int
    contradicts: bool
    """Whether the part that breaks the symmetry is real beyond chance, and not by a few examples alone."""

    @property
    def refutes(self) -> bool:
        """Whether it does, and beta is determined: where a model breaks almost nothing, chance makes beta large."""
        return self.contradicts and self.high - self.low <= WIDE_BETA


def beta(
    left: Array, breaking: Array, variance: float, *, level: float = BETA.level, widened: float = 1.0
) -> Beta:
    """From held-out examples: ``left = y - f_bar`` and ``breaking = a``, both ``[examples, outputs]``.

    ``variance`` is ``E|y - mean|^2`` over all outputs. The interval is that of a ratio of means over examples;
    ``widened`` times as wide where these are not independent.
    """
    products, sizes = (left * breaking).sum(1), (breaking**2).sum(1)
    count, size = len(products), float(sizes.mean())
    moved = size / variance
    if count < 3 or moved < 1e-14:
        return Beta(0.0, 0.0, 0.0, moved, moved, count, False)
    value, reach = _ratio(products, sizes, level)
    low, high = value - widened * reach, value + widened * reach
    contradicts = False
    if low > 0 and high * moved > NEGLIGIBLE_VIOLATION:
        # Models err most far from their data; what is real shows without those examples too.
        usual = sizes <= np.quantile(sizes, 1 - BETA.far)
        others, reach = _ratio(products[usual], sizes[usual], level)
        contradicts = others - widened * reach > 0
    return Beta(value, low, high, moved, max(0.0, high) * moved, count, contradicts)


def _ratio(products: Array, sizes: Array, level: float) -> tuple[float, float]:
    """A ratio of means, and half of its interval."""
    count, size = len(products), float(sizes.mean())
    value = float(products.mean()) / size
    deviation = float(np.std(products - value * sizes, ddof=1)) / size / count**0.5
    return value, float(stdtrit(count - 1, 0.5 + level / 2)) * deviation
