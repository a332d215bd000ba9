"""What held-out tasks could decide at all: a symmetry that they could not show may still exist."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metasym.certification.bounds import forbidden, noise_of
from metasym.certification.certificate_thresholds import LIMITS
from metasym.evidence.statistics import TaskStatistics
from metasym.groups.signed_groups import WeightOrbits


@dataclass(frozen=True)
class Resolution:
    """How well the weights of fresh tasks are known, whatever they share."""

    smallest: float
    """The smallest relative defect that could be bounded or refuted if it touched all weights; infinite: none."""
    unseen: bool
    """Whether the inputs of all tasks together leave some direction out: no weight is known along it."""
    few: bool
    """Whether tasks have fewer examples than inputs, so that no task's weights are known by themselves."""


def resolution(tasks: TaskStatistics, power: Tensor, noise: float) -> Resolution:
    """What the tasks could tell; ``power [m, n]`` is the mean square of every weight."""
    grams = tasks.grams.sum(0)
    values = torch.linalg.eigvalsh(grams / grams.diagonal().mean().clamp_min(1e-300))
    unseen = bool(values[0] <= 1e-9 * values[-1])
    few = int((tasks.counts > tasks.inputs).sum()) < LIMITS.enough_tasks * len(tasks)
    size = tasks.inputs * tasks.outputs
    everything = WeightOrbits(torch.arange(size), torch.zeros(size, dtype=torch.int64))
    total = float(power.sum())
    if unseen or total == 0 or len(tasks) == 0:
        return Resolution(math.inf, unseen, few)
    ones = torch.ones(size, dtype=torch.float64)
    found = forbidden(tasks, everything, ones, noise_of(tasks, noise))
    if found.visible <= 0:
        return Resolution(math.inf, unseen, few)
    return Resolution(math.sqrt(2 * 2 * found.spread / found.visible / total), unseen, few)
