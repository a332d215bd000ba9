"""Tasks that do not belong to the family: so few that they spoil the prior of all others, and so unlike them.

A task of another kind takes directions of its own and looks well explained by the prior that it has spoiled.
It is badly explained by a prior from the other tasks.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from metasym.evidence.prior import Prior
from metasym.evidence.statistics import TaskStatistics

MOST = 0.1
"""If more than this part of the tasks is unlike the others, there is no family to be unlike."""
LEAST = 30
"""Tasks below which nothing can be called an outlier."""
_FAR, _TIMES = 15.0, 3.0
"""An outlier's squared residuals are above the median by so many typical deviations of their logarithm, and so many
times as large ..."""
_SHARE = 1e-8
"""... and more of its outputs' squares than rounding explains."""
_OWNED = 0.2
"""A task whose filter is this long, relative to a task with a private direction, is suspicious."""


_END = 20
"""Where tasks are averaged one in so many is left out at each end ..."""
_ALL = 10
"""... but none of fewer tasks than this."""


def middle_of(values: Tensor) -> Tensor:
    """The ``values [T]`` without those at either end: a few tasks of another kind would drown what all others say."""
    cut = math.ceil(len(values) / _END) if len(values) >= _ALL else 0
    return values.sort().values[cut : len(values) - cut]


def middle(values: Tensor) -> float:
    """The mean of :func:`middle_of` them."""
    return float(middle_of(values).mean())


def unlike(prior: Prior, tasks: TaskStatistics) -> Tensor:
    """Which tasks have weights that the prior cannot make, ``[T]``; none where there are many.

    Judged by what is left of their outputs, not by how large their filters are: tasks may differ a lot in size.
    """
    none = torch.zeros(len(tasks), dtype=torch.bool)
    if len(tasks) < LEAST:
        return none
    left = prior.posterior(tasks).misfit.sum(1)
    size = (tasks.counts * tasks.outputs).clamp_min(1)
    ratio = (left / size / prior.noise).clamp_min(1e-300).log()
    middle = ratio.median()
    spread = float((ratio - middle).abs().median())
    squares = tasks.targets.square().sum((1, 2)) + tasks.residual.sum(1)
    found = (ratio - middle > max(_FAR * spread, math.log(_TIMES))) & (left > _SHARE * squares)
    return found if float(found.double().mean()) <= MOST else none


def suspicious(prior: Prior, tasks: TaskStatistics) -> bool:
    """Whether some task seems to have a private direction."""
    lengths = prior.posterior(tasks).mean.square().sum(1)
    return bool((lengths - lengths.median() > _OWNED * len(tasks)).any())
