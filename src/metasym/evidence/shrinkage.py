"""Strengths of directions that a limited number of tasks makes too unequal, drawn together as held-out tasks ask for.

The strongest of many estimated directions are too strong and the weakest too weak, the more so the fewer tasks there
are for each. What they share is their span; how far their variances are moved towards a common one, on the scale of
variances or on that of their logarithms, is decided by the evidence of tasks that had no part in the estimate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from torch import Tensor

from metasym.evidence.outliers import middle
from metasym.evidence.prior import Prior
from metasym.evidence.statistics import TaskStatistics

PARTS = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 1.0)
"""Of the way to the common variance."""
_LEAST_GAIN = 0.01
"""Nats a task below which directions stay as they are."""


@dataclass(frozen=True)
class Shrinkage:
    """How far variances are moved, and on which scale."""

    part: float = 0.0
    logarithms: bool = False

    def of(self, prior: Prior) -> Prior:
        """The prior with the variances of its principal directions drawn together."""
        if self.part == 0 or prior.directions < 2:
            return prior
        turned = prior.rotated()
        variances = turned.U.square().sum(0)
        kept = variances > 1e-24 * float(variances[0])  # what is rounding stays so
        new = variances.clone()
        new[kept] = self._moved(variances[kept])
        return replace(turned, U=turned.U * (new / variances.clamp_min(1e-300)).sqrt())

    def _moved(self, variances: Tensor) -> Tensor:
        if self.logarithms:
            logs = variances.log()
            return ((1 - self.part) * logs + self.part * logs.mean()).exp()
        return (1 - self.part) * variances + self.part * variances.mean()


def best_shrinkage(prior: Prior, validation: TaskStatistics) -> Shrinkage:
    """The one with which ``validation`` tasks, of which the prior knows nothing, are most likely."""
    best, value = Shrinkage(), middle(prior.evidence(validation)) + _LEAST_GAIN
    for tried in _tried():
        found = middle(tried.of(prior).evidence(validation))
        if found > value:
            best, value = tried, found
    return best


def _tried() -> Iterator[Shrinkage]:
    for logarithms in (False, True):
        yield from (Shrinkage(part, logarithms) for part in PARTS)
