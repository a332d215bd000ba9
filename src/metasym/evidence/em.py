"""Expectation and maximisation for the evidence of a family of linear tasks.

A round solves for mu and U at once: given the filters' posteriors, the expected squared residuals of all tasks are a
quadratic function of ``[U, mu]``, one system of size ``n (k + 1)`` that all outputs share. The scale of the filters
is then set back to 1 (parameter-expanded EM), which takes a direction that the tasks do not have to zero in a few
rounds where plain EM takes hundreds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from metasym.evidence.prior import Posterior, Prior
from metasym.evidence.statistics import TaskStatistics
from metasym.types import MetasymError

LEAST_NOISE = 1e-14
"""Of the outputs' mean square: what float32 can hold."""


@dataclass(frozen=True, eq=False)
class Round:
    """A prior, and the evidence of the tasks under the one before it."""

    prior: Prior
    evidence: Tensor
    """``[T]``."""


def one_round(prior: Prior, tasks: TaskStatistics, weights: Tensor, floor: float) -> Round:
    """The next prior; ``weights [T]`` counts tasks by how much they belong to the family."""
    posterior = prior.posterior(tasks)
    total = weights.sum()
    U, mean = _solve(prior, posterior, tasks, weights)
    m, n = mean.shape
    # Expected squared residuals under the new U and mean, at the old posteriors.
    blocks = U.reshape(m, n, -1)
    misfit = torch.zeros((), dtype=torch.float64)
    for part, mine, w in _parts(posterior, tasks, weights, prior.directions * m):
        seen = (part.factors.reshape(-1, n) @ blocks.permute(1, 0, 2).reshape(n, -1)).reshape(
            len(part), part.factors.shape[1] * m, -1
        )
        rest = (part.targets - part.factors @ mean.T).reshape(len(part), -1, 1) - seen @ mine.mean[:, :, None]
        spread = ((seen @ mine.covariance) * seen).sum((1, 2))
        misfit = misfit + (w * (rest.square().sum((1, 2)) + spread + part.residual.sum(1))).sum()
    noise = max(float(misfit / (weights * tasks.counts).sum() / m), floor)
    centre = (weights[:, None] * posterior.mean).sum(0) / total
    apart = posterior.mean - centre
    second = (
        (weights[:, None, None] * posterior.covariance).sum(0) + (weights[:, None] * apart).T @ apart
    ) / total
    mean = mean + (U @ centre).reshape(m, n)
    scale = torch.linalg.cholesky(second + 1e-300 * torch.eye(len(second), dtype=torch.float64))
    return Round(Prior(mean, U @ scale, noise), posterior.evidence)


def _parts(posterior: Posterior, tasks: TaskStatistics, weights: Tensor, width: int):  # type: ignore[no-untyped-def]
    size = max(1, 2**24 // max(1, width * tasks.factors.shape[1]))
    for start in range(0, len(tasks), size):
        s = slice(start, start + size)
        part = Posterior(*(getattr(posterior, f)[s] for f in Posterior.__dataclass_fields__))
        yield tasks[s], part, weights[s]


def _solve(
    prior: Prior, posterior: Posterior, tasks: TaskStatistics, weights: Tensor
) -> tuple[Tensor, Tensor]:
    """``[U, mu]`` that minimise the expected squared residuals: ``[m n, k]`` and ``[m, n]``."""
    m, n = prior.mean.shape
    k = prior.directions
    count = len(tasks)
    extended = torch.cat([posterior.mean, torch.ones(count, 1, dtype=torch.float64)], 1)
    second = extended[:, :, None] * extended[:, None, :]
    second[:, :k, :k] += posterior.covariance
    grams = tasks.grams * weights[:, None, None]
    # sum_t A_t (x) E[v v^T]_t: [n, n, k + 1, k + 1] as one product over tasks, then [n (k + 1), n (k + 1)].
    system = (grams.reshape(count, -1).T @ second.reshape(count, -1)).reshape(n, n, k + 1, k + 1)
    system = system.permute(0, 2, 1, 3).reshape(n * (k + 1), n * (k + 1))
    moments = tasks.targets.mT @ tasks.factors * weights[:, None, None]  # Y^T X, [T, m, n]
    right = (moments.reshape(count, -1).T @ extended).reshape(m, n * (k + 1))
    # Inputs that are 0 in all tasks leave nothing to scale by.
    ridge = 1e-13 * (float(system.diagonal().mean()) or 1.0)
    root, info = torch.linalg.cholesky_ex(system + ridge * torch.eye(len(system), dtype=torch.float64))
    while int(info) != 0:
        if not ridge < math.inf:
            raise MetasymError(
                "expected tasks whose sums of squares are finite, found NaN or infinity",
                about="tasks",
                found="NaN or infinity",
            )
        ridge = 100 * ridge
        root, info = torch.linalg.cholesky_ex(system + ridge * torch.eye(len(system), dtype=torch.float64))
    # What the ridge pulls towards is the prior before, not zero: directions nothing is known of stay as they were.
    before = torch.cat([prior.U.reshape(m, n, k), prior.mean[:, :, None]], 2).reshape(m, -1)
    found = torch.cholesky_solve((right + ridge * before).T, root).T.reshape(m, n, k + 1)
    return found[:, :, :k].reshape(m * n, k), found[:, :, k]
