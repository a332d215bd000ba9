"""What too few tasks have not shown: directions given back to the prior, as weakly as held-out tasks ask for."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from metasym.evidence.prior import Prior
from metasym.evidence.statistics import TaskStatistics

MOST_WEIGHTS = 400
"""Directions that may be given back."""
STRENGTHS = (1e-8, 1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Variances of what is given back, of the mean variance of a weight."""


def completed(prior: Prior, allowed: Tensor, validation: TaskStatistics) -> Prior:
    """The prior with some variance in all directions ``allowed [m n, d]``, if that raises the evidence."""
    if allowed.shape[1] > MOST_WEIGHTS or prior.directions >= allowed.shape[1]:
        return prior
    typical = float(prior.power.mean())
    best, value = prior, float(prior.evidence(validation).mean())
    for strength in STRENGTHS:
        more = (strength * typical) ** 0.5 * allowed
        candidate = replace(prior, U=_compact(torch.cat([prior.U, more], 1)))
        found = float(candidate.evidence(validation).mean())
        if found > value + 0.1:
            best, value = candidate, found
    return best


def _compact(columns: Tensor) -> Tensor:
    """As few columns with the same ``U U^T``."""
    left, values, _ = torch.linalg.svd(columns, full_matrices=False)
    kept = values > 1e-12 * values[0]
    found: Tensor = left[:, kept] * values[kept]
    return found
