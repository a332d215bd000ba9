"""The weights that every task shows on its own, with a covariance that assumes little about the noise.

The noise of one example may depend on its inputs and may be shared by outputs; examples are independent. What is left
of an example is ``r = M noise`` with ``M = 1 - H``, so that ``E r_j r_j^T = sum_i M_ji^2 S_i`` with S_i the
covariance of example i. Solved for the S_i, and put where homoscedastic formulas have ``s2``, it gives the
covariance of least squares weights without bias, whatever the S_i are. Tasks with few examples to spare, where that
system is nearly singular, take ``r_i r_i^T / M_ii``: without bias for equal noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from metasym.evidence.statistics import SEEN, TaskStatistics

MOST_ENTRIES = 2**24
"""Numbers of all tasks' covariances that are held: tasks times weights squared."""
_MANY = 20
"""With more examples than this many times the inputs, the simple form has no bias to speak of."""
_PRODUCTS = 2**22
"""Numbers of products of rows that are held at once."""
_SINGULAR = 0.02
"""The smallest eigenvalue of the squares of M from which the system for the S_i is solved."""


@dataclass(frozen=True, eq=False)
class OwnWeights:
    """Of T tasks with m outputs and n inputs, each separately."""

    weights: Tensor
    """``[T, m n]``: least squares."""
    covariance: Tensor
    """``[T, m n, m n]``, without bias; not always positive."""
    positive: Tensor
    """``[T, m n, m n]``: one that is positive, for what has to be."""
    spare: Tensor
    """``[T]``: examples less unknowns."""
    shape: tuple[int, int]

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, tasks: Tensor) -> OwnWeights:
        return OwnWeights(
            self.weights[tasks], self.covariance[tasks], self.positive[tasks], self.spare[tasks], self.shape
        )

    def minus(self, weights: Tensor) -> OwnWeights:
        """With ``weights [m, n]`` subtracted from those of each."""
        return OwnWeights(
            self.weights - weights.reshape(-1), self.covariance, self.positive, self.spare, self.shape
        )

    def squares(self, form: Tensor) -> Tensor:
        """``[T]``: ``w^T Q w`` of every task without what noise adds, for a form Q ``[m n, m n]``."""
        return (self.weights @ form * self.weights).sum(1) - self.added(form)

    def added(self, form: Tensor) -> Tensor:
        """``[T]``: what noise adds to ``w^T Q w`` on average."""
        return self.covariance.flatten(1) @ form.reshape(-1)

    @property
    def power(self) -> Tensor:
        """``[m n]``: the mean square of every weight over the tasks, noise subtracted."""
        found: Tensor = (self.weights.square() - self.covariance.diagonal(dim1=1, dim2=2)).mean(0)
        return found.clamp_min(0)


def own_weights(x: Sequence[Tensor], y: Sequence[Tensor], *, offset: bool = False) -> OwnWeights | None:
    """From ``x [N_t, n]`` and ``y [N_t, m]`` of every task; None where some task does not determine its weights.

    ``offset``: every task has an offset of its own, about which nothing is assumed.
    """
    n, m = x[0].shape[1], y[0].shape[1]
    if len(x) * (m * n) ** 2 > MOST_ENTRIES:
        return None
    by_length: dict[int, list[int]] = {}
    for t, one in enumerate(x):
        by_length.setdefault(len(one), []).append(t)
    if min(by_length) - int(offset) < n + 2:
        return None
    parts = []
    for length, members in by_length.items():
        units = _sizes([x[t] for t in members], offset)
        if bool((units == 0).any()):
            return None
        for some in _at_once(members, length, n, m):
            inputs, outputs = (torch.stack([v[t] for t in some]).double() for v in (x, y))
            found = _even(inputs, outputs, units, offset)
            if found is None:
                return None
            parts.append(found)
    order = torch.tensor([t for members in by_length.values() for t in members]).argsort()
    weights, covariance, positive, spare = (torch.cat([p[k] for p in parts])[order] for k in range(4))
    return OwnWeights(weights, covariance, positive, spare, (m, n))


def own_weights_of_rows(
    tasks: TaskStatistics,
    each: Callable[[Callable[[Tensor, Tensor, Tensor], None]], None],
    total: Callable[[Tensor], Tensor],
) -> OwnWeights | None:
    """The same of rows that are read a part at a time, for tasks with many examples; None where some has few.

    ``each`` calls a function with all rows again: of some tasks ``ids [k]``, padded rows ``[k, most, n + m]`` of
    ``[x y]``, and which are there, ``[k, most]``. ``total`` adds up what several processes saw.
    """
    n, m, count = tasks.inputs, tasks.outputs, len(tasks)
    if count * (m * n) ** 2 > MOST_ENTRIES or bool((tasks.counts < n + 2).any()):
        return None
    units = tasks.factors.square().sum((0, 1)).sqrt()
    if bool((units == 0).any()):
        return None
    triangle = tasks.factors / units
    values = torch.linalg.svdvals(triangle)
    if bool((values[:, -1].square() <= SEEN * values[:, 0].square()).any()):
        return None
    inverse = torch.linalg.inv(triangle) / units[:, None]  # [T, n, n]: x R^-1 has orthonormal columns
    weights = (inverse @ tasks.targets).mT
    found = torch.zeros(count, m * m, n * n, dtype=torch.float64)

    def add(ids: Tensor, rows: Tensor, there: Tensor) -> None:
        x, y = rows[..., :n] - tasks.x_mean[ids, None], rows[..., n:] - tasks.y_mean[ids, None]
        basis = x @ inverse[ids]
        maker = basis @ inverse[ids].mT
        rest = y - x @ weights[ids].mT
        left = 1 - basis.square().sum(2)
        if tasks.offset:
            left = left - 1 / (tasks.counts[ids, None] + 1)
        maker = maker * (there / left.clamp_min(1e-6))[..., None].sqrt()
        pairs = (maker[..., :, None] * maker[..., None, :]).flatten(2)
        products = (rest[..., :, None] * rest[..., None, :]).flatten(2)
        found.index_add_(0, ids, products.mT @ pairs)

    def some(ids: Tensor, rows: Tensor, there: Tensor) -> None:
        step = max(1, _PRODUCTS // (len(ids) * (n * n + m * m)))
        for start in range(0, rows.shape[1], step):
            add(ids, rows[:, start : start + step], there[:, start : start + step])

    each(some)
    blocks = total(found).reshape(count, m, m, n, n)
    covariance = blocks.permute(0, 1, 3, 2, 4).reshape(count, m * n, m * n)
    return OwnWeights(weights.flatten(1), covariance, covariance, tasks.counts - n, (m, n))


def _sizes(x: Sequence[Tensor], offset: bool) -> Tensor:
    """``[n]``: how large each input is in all of these tasks."""
    squares = [
        ((one - one.mean(0)) if offset else one).square().sum(0) for one in (one.double() for one in x)
    ]
    return torch.stack(squares).sum(0).sqrt()


def _at_once(members: list[int], examples: int, n: int, m: int) -> list[list[int]]:
    """Tasks of equally many examples, so many at a time that what is made of them takes some ten MB."""
    each = examples * max(n * n, m * m, examples if examples <= _MANY * n else 0)
    step = max(1, _PRODUCTS // each)
    return [members[start : start + step] for start in range(0, len(members), step)]


def _even(x: Tensor, y: Tensor, units: Tensor, offset: bool) -> tuple[Tensor, Tensor, Tensor, Tensor] | None:
    """Tasks with equally many examples; ``units [n]``: the sizes of the inputs."""
    tasks, count, n = x.shape
    m = y.shape[2]
    if offset:
        x, y = x - x.mean(1, keepdim=True), y - y.mean(1, keepdim=True)
    q, triangle = torch.linalg.qr(x / units)
    values = torch.linalg.svdvals(triangle)
    if bool((values[:, -1].square() <= SEEN * values[:, 0].square()).any()):
        return None  # inputs that do not vary in some direction: no weight is known along it
    maker = torch.linalg.solve_triangular(triangle, q.mT, upper=True) / units[:, None]  # [T, n, N]
    weights = (maker @ y).mT
    rest = y - q @ (q.mT @ y)
    mean = 1 / count if offset else 0.0
    diagonal = (1 - mean - q.square().sum(2)).clamp_min(1e-6)
    pairs = (maker.mT[..., :, None] * maker.mT[..., None, :]).flatten(2)  # [T, N, n n]
    products = (rest[..., :, None] * rest[..., None, :]).flatten(2)  # [T, N, m m]
    positive = _weighted(products, pairs / diagonal[..., None], m, n)
    covariance = positive
    if count <= _MANY * n:
        squares = (torch.eye(count, dtype=torch.float64) - q @ q.mT - mean).square()
        known = torch.linalg.eigvalsh(squares)[:, 0] > _SINGULAR
        if bool(known.any()):
            solved = torch.linalg.solve(squares[known], pairs[known])
            covariance = positive.clone()
            covariance[known] = _weighted(products[known], solved, m, n)
    spare = torch.full((tasks,), count - int(offset) - n)
    return weights.flatten(1), covariance, positive, spare


def _weighted(products: Tensor, pairs: Tensor, m: int, n: int) -> Tensor:
    """``sum_i S_i (x) a_i a_i^T`` as ``[T, m n, m n]``."""
    blocks = (products.mT @ pairs).reshape(-1, m, m, n, n)
    return blocks.permute(0, 1, 3, 2, 4).reshape(-1, m * n, m * n)
