"""What the examples of linear tasks say about their weights: sufficient statistics, of any number of examples.

A task with inputs ``X [N, n]`` and outputs ``Y [N, m]`` enters every likelihood through the triangular factor R of
``X = Q R``, the targets ``Q^T Y`` and what is left of Y outside the span of X. Not through ``X^T X``: without noise
the interesting numbers are 1e-14 of the squares that would be subtracted from each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from metasym.types import MetasymError

SEEN = 1e-9
"""Inputs that vary less than this part (in squares) of the others count as inputs that never vary."""


@dataclass(frozen=True, eq=False)
class TaskStatistics:
    """The statistics of T tasks with n inputs and m outputs, float64."""

    factors: Tensor
    """R, ``[T, r, n]`` with ``r = min(n, most examples of a task)``; rows of zeros where a task has fewer."""
    targets: Tensor
    """``Q^T Y``, ``[T, r, m]``."""
    residual: Tensor
    """The squares of Y outside the span of X, by output: ``[T, m]``."""
    counts: Tensor
    """Examples of each task, ``[T]``, less one where an offset was subtracted."""
    x_mean: Tensor
    """What was subtracted from the inputs of each task, ``[T, n]``: their mean where tasks have offsets, or 0."""
    y_mean: Tensor
    """``[T, m]``."""
    offset: bool
    """Whether every task has an offset of its own, about which nothing is assumed."""

    @classmethod
    def of(
        cls, x: Tensor | Sequence[Tensor], y: Tensor | Sequence[Tensor], *, offset: bool = False
    ) -> TaskStatistics:
        """From ``x [T, N, n]`` and ``y [T, N, m]``, or lists of ``[N_t, n]`` and ``[N_t, m]`` of any lengths.

        ``offset``: tasks are ``W x + b`` with a b of their own; it is projected out, one example pays for it.
        """
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            _check(x, y)
            return cls._even(x.double(), y.double(), offset)
        if len(x) != len(y) or len(x) == 0:
            raise MetasymError(
                f"expected as many tasks in x as in y, found {len(x)} and {len(y)}",
                about="tasks",
                found=(len(x), len(y)),
            )
        for one, other in zip(x, y, strict=True):
            _check(one.unsqueeze(0), other.unsqueeze(0))
        sizes = {(one.shape[1], other.shape[1]) for one, other in zip(x, y, strict=True)}
        if len(sizes) > 1:
            raise MetasymError(
                f"expected tasks of one number of inputs and outputs, found {sorted(sizes)}",
                about="inputs, outputs",
                found=sorted(sizes),
            )
        by_length: dict[int, list[int]] = {}
        for t, one in enumerate(x):
            by_length.setdefault(len(one), []).append(t)
        parts = []
        for members in by_length.values():
            inputs, outputs = (torch.stack([v[t] for t in members]).double() for v in (x, y))
            parts.append(cls._even(inputs, outputs, offset))
        order = torch.tensor([t for members in by_length.values() for t in members]).argsort()
        return cls.joined(parts)[order]

    @classmethod
    def of_factors(
        cls, factors: Tensor, counts: Tensor, inputs: int, *, offset: bool = False
    ) -> TaskStatistics:
        """From triangular ``factors [T, 1 + n + m, 1 + n + m]`` of the rows ``[1 x y]``, ``counts [T]`` of each task.

        The same as :meth:`of` makes of these rows, however many they are.
        """
        if offset:
            means, rest = factors[:, 0, 1:] / factors[:, 0, :1], factors[:, 1:, 1:]
        else:
            means = torch.zeros_like(factors[:, 0, 1:])
            rest = torch.linalg.qr(factors[:, :, 1:], mode="r").R
        residual = rest[:, inputs:, inputs:].square().sum(1)
        residual = residual.where((counts - int(offset) > inputs)[:, None], 0.0)
        return cls(
            rest[:, :inputs, :inputs],
            rest[:, :inputs, inputs:],
            residual,
            counts - int(offset),
            means[:, :inputs],
            means[:, inputs:],
            offset,
        )

    @classmethod
    def _even(cls, x: Tensor, y: Tensor, offset: bool) -> TaskStatistics:
        tasks, count = x.shape[:2]
        x_mean = x.mean(1) if offset else torch.zeros_like(x[:, 0])
        y_mean = y.mean(1) if offset else torch.zeros_like(y[:, 0])
        if offset:
            x, y = x - x_mean[:, None], y - y_mean[:, None]
        q, factors = torch.linalg.qr(x)
        targets = q.mT @ y
        residual = (y - q @ targets).square().sum(1)
        if count <= x.shape[2]:
            residual = torch.zeros_like(residual)
        counts = torch.full((tasks,), count - int(offset), dtype=torch.int64, device=x.device)
        return cls(factors, targets, residual, counts, x_mean, y_mean, offset)

    @classmethod
    def joined(cls, parts: Sequence[TaskStatistics]) -> TaskStatistics:
        """The tasks of all parts, one after the other."""
        rows = max(part.factors.shape[1] for part in parts)

        def padded(value: Tensor) -> Tensor:
            return torch.nn.functional.pad(value, (0, 0, 0, rows - value.shape[1]))

        return cls(
            torch.cat([padded(p.factors) for p in parts]),
            torch.cat([padded(p.targets) for p in parts]),
            torch.cat([p.residual for p in parts]),
            torch.cat([p.counts for p in parts]),
            torch.cat([p.x_mean for p in parts]),
            torch.cat([p.y_mean for p in parts]),
            parts[0].offset,
        )

    def __len__(self) -> int:
        return len(self.counts)

    def __getitem__(self, tasks: Tensor | slice) -> TaskStatistics:
        return TaskStatistics(
            self.factors[tasks],
            self.targets[tasks],
            self.residual[tasks],
            self.counts[tasks],
            self.x_mean[tasks],
            self.y_mean[tasks],
            self.offset,
        )

    def minus(self, weights: Tensor) -> TaskStatistics:
        """The tasks with ``weights [m, n]`` subtracted from each: how they deviate from these."""
        return replace(self, targets=self.targets - self.factors @ weights.T)

    @property
    def inputs(self) -> int:
        """How many inputs."""
        return self.factors.shape[2]

    @property
    def outputs(self) -> int:
        """How many outputs."""
        return self.targets.shape[2]

    @property
    def rows(self) -> int:
        """The numbers that were observed, over all tasks."""
        return int(self.counts.sum()) * self.outputs

    @property
    def mean_square(self) -> float:
        """The mean of all squared outputs (after offsets)."""
        total = self.targets.square().sum() + self.residual.sum()
        return float(total) / max(1, self.rows)

    @property
    def grams(self) -> Tensor:
        """``X^T X``, ``[T, n, n]``."""
        return self.factors.mT @ self.factors

    @property
    def _units(self) -> Tensor:
        """``[n]``: one over the size of each input in all tasks. Inputs may be measured in units far apart."""
        sizes = self.factors.square().sum((0, 1)).sqrt()
        return torch.where(sizes > 0, 1 / sizes, 0.0)

    @cached_property
    def spanned(self) -> Tensor:
        """``[n, k]``: directions in which the inputs of all tasks together vary, each as much as the others."""
        pooled, units = self.grams.sum(0), self._units
        values, vectors = torch.linalg.eigh(units[:, None] * pooled * units)
        seen = values > SEEN * values[-1]
        directions: Tensor = units[:, None] * vectors[:, seen] / values[seen].sqrt()
        return directions

    @cached_property
    def spanning(self) -> Tensor:
        """Which tasks have inputs that vary wherever those of any task do, ``[T]``.

        Least squares puts the weights of other tasks at zero where their inputs do not vary. That is no weight.
        """
        directions = self.spanned
        own = directions.mT @ self.grams @ directions
        size = own.diagonal(dim1=1, dim2=2).mean(1)
        if directions.shape[1] == 0:  # nothing varies anywhere: no task lacks what another has
            return torch.ones(len(self), dtype=torch.bool)
        least = SEEN * size[:, None, None] * torch.eye(own.shape[1], dtype=own.dtype)
        found: Tensor = (size > 0) & (torch.linalg.cholesky_ex(own - least).info == 0)
        return found

    def told(self) -> TaskStatistics:
        """The tasks without what says nothing about weights: as many examples as the inputs of each have rank.

        What is dropped would estimate the noise. But if no task determines its own weights, a prior that knows the
        small noise takes hundreds of rounds to let go of directions that the tasks do not have.
        """
        left, values, _ = torch.linalg.svd(self.factors * self._units, full_matrices=False)
        kept = values > math.sqrt(SEEN) * values[:, :1]
        ranks = kept.sum(1)
        if not bool(ranks.any()) or bool((ranks >= self.counts.clamp_max(self.inputs)).all()):
            return self
        most = int(ranks.max())
        factors, targets = (
            (left.mT @ value)[:, :most] * kept[:, :most, None] for value in (self.factors, self.targets)
        )
        if not bool(targets.any()):  # all that varies is elsewhere
            return self
        return replace(
            self, factors=factors, targets=targets, residual=torch.zeros_like(self.residual), counts=ranks
        )

    @property
    def ample(self) -> Tensor:
        """Which tasks determine their own weights, ``[T]``: inputs that span, and two examples to spare."""
        return self.spanning & (self.counts >= self.inputs + 2)


def _check(x: Tensor, y: Tensor) -> None:
    if x.ndim != 3 or y.ndim != 3 or x.shape[:2] != y.shape[:2] or 0 in x.shape or 0 in y.shape:
        raise MetasymError(
            f"expected x [tasks, examples, inputs] and y [tasks, examples, outputs], found {list(x.shape)} and "
            f"{list(y.shape)}",
            about="x, y",
            found=(tuple(x.shape), tuple(y.shape)),
        )
    for name, value in (("x", x), ("y", y)):
        if not bool(value.isfinite().all()):
            raise MetasymError(
                f"expected finite numbers, found NaN or infinity in {name}",
                about=name,
                found="NaN or infinity",
            )
