"""Whether the noise of an example continues in the next one, and the examples without that.

Examples of a recording come one after the other. If noise of the one continues in the next, and inputs do, then least
squares weights err by more than any formula for independent examples says. With ``noise_i = r noise_(i-1) + new_i``
the examples ``(x_i - r x_(i-1), y_i - r y_(i-1))`` have the same map, and their noise is new.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metasym.diagnosis.findings import CAUTION, Finding
from metasym.diagnosis.samples import Floats, Samples

_SURE = 6.0
"""Standard errors beyond which a correlation of successive examples is no chance."""
_ALLOWED = 3.0
"""Standard errors up to which a correlation may be the one that there is."""
_LEAST = 0.05
"""Correlations below this change no weight's error by more than a tenth of itself."""
_ROUNDING = 1e-10
"""A part of the outputs' squares that is left by a fit whatever the noise."""
_HALVINGS = 12
_MOST = 0.98


@dataclass(frozen=True)
class Dependence:
    """How the noise of successive examples goes together."""

    correlation: float
    """r, of noise with that of the example before."""
    largest: float
    """The largest r that the data do not contradict: of few examples slow noise hardly shows how slow it is."""
    explained: bool
    """Whether nothing is left of it in examples that are less r times the one before."""


def dependence(samples: Samples, scales: Floats, precision: float = 1e-16) -> Dependence | None:
    """The correlation of successive examples' noise, where it is there beyond doubt.

    ``precision`` is that of the numbers as they are stored: what it leaves is no noise.
    """
    if samples.x.shape[1] - 2 <= samples.x.shape[2] + 2 or len(samples.ids) < 8:
        return None
    here = _lagged(samples, scales, 0.0, 1)
    if here is None or abs(here[0]) < _LEAST or abs(here[1]) < _SURE:
        return None
    rounding = (_ROUNDING + (100 * precision) ** 2) * float(((samples.y / scales) ** 2).sum())
    if here[2] <= rounding:
        return None
    low, high = (-_MOST, 0.0) if here[0] < 0 else (0.0, _MOST)
    found = _subtracted(samples, scales, low, high, 0.0)
    largest = _subtracted(samples, scales, found, _MOST, -_ALLOWED)
    after = [_lagged(samples, scales, found, lag) for lag in (1, 2)]
    explained = all(one is not None and abs(one[1]) < _SURE for one in after)
    return Dependence(found, largest, explained)


def _subtracted(samples: Samples, scales: Floats, low: float, high: float, errors: float) -> float:
    """The correlation to subtract so that what is left is so many standard errors from none.

    What is left falls with the correlation that is subtracted.
    """
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        left = _lagged(samples, scales, middle, 1)
        if left is not None and left[1] > errors:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def said(found: Dependence) -> Finding:
    """It in words."""
    done = (
        f"certificates use each example minus {found.correlation:.2g} times the one before, whose noise is "
        "independent"
        if found.explained
        else "It is correlated over more than one step, so nothing can be certified"
    )
    return Finding(
        "dependent_examples",
        CAUTION,
        f"The noise of successive examples is correlated ({found.correlation:.2g}). {done}",
        {"correlation": found.correlation, "explained": found.explained},
    )


def less_the_one_before(samples: Samples, correlation: float) -> Samples:
    """Every example less so many times the one before; the first of each task is gone."""
    there = samples.there[:, 1:]
    x, y = ((v[:, 1:] - correlation * v[:, :-1]) * there[..., None] for v in (samples.x, samples.y))
    return Samples(x, y, there, samples.ids)


def _lagged(
    samples: Samples, scales: Floats, correlation: float, lag: int
) -> tuple[float, float, float] | None:
    """The correlation of what a linear map leaves with that ``lag`` examples later, its standard errors, the squares.

    What independent noise would show is subtracted: residuals of a fit go together a little.
    """
    if correlation:
        samples = less_the_one_before(samples, correlation)
    x, counts = samples.within("x"), samples.counts
    y = samples.y / scales
    y = (y - y.sum(1, keepdims=True) / counts[:, None, None]) * samples.there[..., None]
    left, values, _ = np.linalg.svd(x, full_matrices=False)
    kept = values > 1e-9 * values[:, :1]
    basis = left * kept[:, None, :]
    free = counts - 1 - kept.sum(1)
    if not (free > 2).all():
        return None
    rest = y - basis @ (basis.transpose(0, 2, 1) @ y)
    squares = (rest**2).sum((1, 2))
    if not squares.sum() > 0:
        return None
    products = (rest[:, lag:] * rest[:, :-lag]).sum((1, 2))
    pairs = counts - lag
    expected = -((basis[:, lag:] * basis[:, :-lag]).sum((1, 2)) + pairs / counts) / free * squares
    apart = products - expected
    error = apart.std(ddof=1) * np.sqrt(len(apart))
    found = float(apart.sum())
    return found / float(squares.sum()), found / max(error, 1e-300), float(squares.sum())
