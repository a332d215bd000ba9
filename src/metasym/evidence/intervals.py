"""How wide a predictive interval has to be: quantiles of errors of held-out tasks, in predictive standard deviations.

The posterior says how uncertain a prediction is, from which examples it learned. Where the tasks' filters are not
Gaussian, or noise is not, its standard deviations are right in proportion only; errors on tasks held out from
learning say how many of them an interval needs.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Mapping, Sequence

import torch
from scipy.special import ndtr, ndtri
from torch import Tensor

LEVELS = (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)
_GAUSSIAN = 2.0
"""Tasks that the Gaussian law counts for beside those that were seen: few tasks have no tails."""
_HALVINGS = 60


def gaussian_width(level: float) -> float:
    """Half of an interval of a Gaussian number, in its standard deviations."""
    return float(ndtri(0.5 + level / 2))


def widths(errors: Tensor) -> list[float]:
    """For each of :data:`LEVELS` half of the interval, of ``errors [tasks, numbers]`` in standard deviations.

    Every task counts alike, and the Gaussian law as some tasks more.
    """
    sizes = errors.abs().flatten().sort().values
    share = len(errors) / (len(errors) + _GAUSSIAN)
    found = []
    for level in LEVELS:
        low, high = 0.0, max(10.0, float(sizes[-1]))
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            below = float(torch.searchsorted(sizes, middle)) / len(sizes)
            inside = share * below + (1 - share) * (2 * float(ndtr(middle)) - 1)
            low, high = (middle, high) if inside < level else (low, middle)
        found.append(high)
    return found


def width_at(by_support: Mapping[int, Sequence[float]], level: float, support: int) -> float:
    """Half of an interval in standard deviations, interpolated between numbers of support examples and levels."""
    if not by_support:
        return gaussian_width(level)
    counts = sorted(by_support)
    at = bisect.bisect_left(counts, support)
    if at == 0 or at == len(counts):
        return _at_level(by_support[counts[min(at, len(counts) - 1)]], level)
    low, high = counts[at - 1], counts[at]
    part = math.log(support / low) / math.log(high / low)
    first, second = (_at_level(by_support[count], level) for count in (low, high))
    return (1 - part) * first + part * second


def _at_level(found: Sequence[float], level: float) -> float:
    """Relative to the Gaussian width, which changes less with the level than the width itself."""
    ratios = [one / gaussian_width(known) for one, known in zip(found, LEVELS, strict=True)]
    at = bisect.bisect_left(LEVELS, level)
    if at == 0 or at == len(LEVELS):
        return ratios[min(at, len(LEVELS) - 1)] * gaussian_width(level)
    part = (level - LEVELS[at - 1]) / (LEVELS[at] - LEVELS[at - 1])
    return ((1 - part) * ratios[at - 1] + part * ratios[at]) * gaussian_width(level)
