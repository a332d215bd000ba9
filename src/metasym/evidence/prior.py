"""A prior of the weights of linear tasks: the evidence of tasks under it, and their posteriors."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from metasym.evidence.statistics import TaskStatistics

_ENTRIES = 2**24
"""Numbers of the batched matrices that are held at once."""
_LEAST_PIVOT = 0.7
"""Pivots that are 1 or more but for rounding are taken as they are down to this."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """What the tasks' examples leave to be known of their filters."""

    mean: Tensor
    """``[T, k]``."""
    covariance: Tensor
    """``[T, k, k]``."""
    misfit: Tensor
    """Squared residuals at the posterior mean, ``[T, m]``."""
    spread: Tensor
    """What the filters' uncertainty adds to the expected squared residuals, ``[T]``."""
    evidence: Tensor
    """The log marginal likelihood of each task's outputs, ``[T]``."""


@dataclass(frozen=True, eq=False)
class Prior:
    """``vec(W) = mean + U v``, ``v ~ N(0, I)``; outputs with noise of variance ``noise``. Float64."""

    mean: Tensor
    """``[m, n]``."""
    U: Tensor
    """``[m n, k]``."""
    noise: float

    @property
    def directions(self) -> int:
        """How many columns U has."""
        return self.U.shape[1]

    @property
    def power(self) -> Tensor:
        """The mean square of every weight, ``[m, n]``."""
        return self.mean.square() + self.U.square().sum(1).reshape(self.mean.shape)

    def posterior(self, tasks: TaskStatistics, noise: Tensor | None = None) -> Posterior:
        """The posterior of every task's filter; ``noise [T]`` gives each task its own, instead of the prior's."""
        parts = [self._posterior(part, own) for part, own in self._chunks(tasks, noise)]
        return Posterior(*(torch.cat([getattr(p, f) for p in parts]) for f in Posterior.__dataclass_fields__))

    def evidence(self, tasks: TaskStatistics) -> Tensor:
        """``log p(Y_t | X_t)`` of every task, ``[T]``."""
        return torch.cat([self._posterior(part, own).evidence for part, own in self._chunks(tasks, None)])

    def weights(self, tasks: TaskStatistics) -> Tensor:
        """Every task's posterior mean, ``[T, m, n]``: the best prediction of its weights under the model."""
        means = torch.cat([self._posterior(part, own).mean for part, own in self._chunks(tasks, None)])
        return self.mean + (means @ self.U.T).reshape(-1, *self.mean.shape)

    def predictive(self, tasks: TaskStatistics, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and variance of every task's outputs at ``x [T, q, n]``: ``[T, q, m]`` each, noise included."""
        (m, n), k = self.mean.shape, self.directions
        blocks = self.U.reshape(m, n, k).permute(1, 0, 2).reshape(n, m * k)
        means, variances, start = [], [], 0
        for part, own in self._chunks(tasks, None):
            found = self._posterior(part, own)
            here = x[start : start + len(part)].double() - part.x_mean[:, None]
            start += len(part)
            weights = self.mean + (found.mean @ self.U.T).reshape(-1, m, n)
            means.append(here @ weights.mT + part.y_mean[:, None])
            along = (here @ blocks).reshape(len(part), -1, k)  # what each filter entry adds: [T, q m, k]
            spread = (along @ found.covariance * along).sum(2).reshape(len(part), -1, m)
            offset = 1 / (part.counts + 1).double() if tasks.offset else torch.zeros(len(part))
            variances.append(spread.clamp_min(0) + self.noise * (1 + offset[:, None, None]))
        return torch.cat(means), torch.cat(variances)

    def rotated(self) -> Prior:
        """The same prior with U in its principal directions, strongest first."""
        left, values, _ = torch.linalg.svd(self.U, full_matrices=False)
        return replace(self, U=left * values)

    def truncated(self, directions: int) -> Prior:
        """The strongest directions alone."""
        return replace(self, U=self.rotated().U[:, :directions])

    def _chunks(self, tasks: TaskStatistics, noise: Tensor | None) -> Iterator[tuple[TaskStatistics, Tensor]]:
        m = self.mean.shape[0]
        size = max(1, _ENTRIES // max(1, self.directions * (self.directions + m * tasks.factors.shape[1])))
        own = torch.full((len(tasks),), self.noise, dtype=torch.float64) if noise is None else noise
        for start in range(0, len(tasks), size):
            yield tasks[slice(start, start + size)], own[start : start + size]

    def _posterior(self, tasks: TaskStatistics, noise: Tensor) -> Posterior:
        (m, n), k = self.mean.shape, self.directions
        count, rows = tasks.factors.shape[:2]
        blocks = self.U.reshape(m, n, k)
        # What U predicts at the rows of R: [T, r, m, k], one product for all tasks.
        seen = tasks.factors.reshape(-1, n) @ blocks.permute(1, 0, 2).reshape(n, m * k)
        seen = seen.reshape(count, rows * m, k)
        rest = (tasks.targets - tasks.factors @ self.mean.T).reshape(count, rows * m, 1)
        scale = noise[:, None, None]
        root = _root_of_precision(seen, scale)
        mean = torch.cholesky_solve(seen.mT @ rest / scale, root)
        misfit = (rest - seen @ mean).square().reshape(count, rows, m).sum(1) + tasks.residual
        covariance = torch.cholesky_inverse(root)
        # tr(seen S seen^T) = s2 (k - tr S), from the definition of the precision.
        spread = noise * (k - covariance.diagonal(dim1=1, dim2=2).sum(1))
        logdet = 2 * root.diagonal(dim1=1, dim2=2).log().sum(1)
        numbers = tasks.counts * m
        evidence = -0.5 * (
            numbers * (math.log(2 * math.pi) + noise.log())
            + logdet
            + misfit.sum(1) / noise
            + mean.square().sum((1, 2))
        )
        return Posterior(mean.squeeze(2), covariance, misfit, spread.clamp_min(0), evidence)


def _root_of_precision(seen: Tensor, noise: Tensor) -> Tensor:
    """The Cholesky factor ``[T, k, k]`` of ``seen^T seen / noise + 1``, of ``seen [T, rows, k]``.

    Its pivots are at least 1. Where inputs do not span and there is next to no noise, rounding of the products takes
    them below that, or the factor does not exist: there it comes from a QR decomposition, without the products.
    """
    one = torch.eye(seen.shape[2], dtype=torch.float64)
    root, failed = torch.linalg.cholesky_ex(seen.mT @ seen / noise + one)
    lost = (failed != 0) | (root.diagonal(dim1=1, dim2=2) < _LEAST_PIVOT).any(1)
    if bool(lost.any()):
        rows = torch.cat([seen[lost] / noise[lost].sqrt(), one.expand(int(lost.sum()), -1, -1)], 1)
        triangle = torch.linalg.qr(rows, mode="r").R
        signs = triangle.diagonal(dim1=1, dim2=2).sign()
        root[lost] = (triangle * signs[:, :, None]).mT
    found: Tensor = root
    return found
