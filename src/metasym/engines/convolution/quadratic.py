"""All tasks' inner steps of one convolution at once, in the coordinates of what adapts.

The squared loss of a convolution is quadratic in its weight M (``moments.py``), and M is linear in what adapts:
``M = M_0 + theta B`` with B ``[entries, out p]``, the weights of the unit filters, the same for all tasks. Inner
steps of all tasks then are products of small matrices, ``[tasks, entries]`` with B, and so is their gradient by B,
from which that of U follows once for all tasks instead of once for each. In float64, as the moments are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from metasym.adaptation.functional import flatten, unflatten
from metasym.engines.convolution.moments import ConvolutionPredictor
from metasym.engines.convolution.weight_map import WeightGradients, WeightMap, Weights, weight_map_of
from metasym.types import Batch, Episode, OuterLoss, Params

LARGEST_BASIS = 2**18
"""Entries of B up to which it is formed: 2 MiB, as much as the moments of a few dozen tasks."""

CANCELS = 1e-3
"""Losses below this share of the targets' mean square are computed again from exact moments. The faster moments are
off by 1e-9 to 3e-9 of that mean square, so larger losses keep six digits."""


def quadratic_losses(
    predict: ConvolutionPredictor,
    inner: Params,
    episodes: Episode,
    *,
    steps: int,
    rates: Callable[[int], Params],
    first_order: bool,
) -> OuterLoss:
    """What ``functional.query_loss`` gives for every task, ``[tasks]``, differentiable by the outer parameters."""
    start = flatten(inner).double()
    B, offset = predict.basis(inner)
    by_step = [_joined_rates(inner, rates(step)) for step in range(steps)]

    def losses(support: _Quadratic, query: _Quadratic) -> OuterLoss:
        theta = start.unsqueeze(0)  # the same for all tasks, until the first step
        M = (theta @ B).view(-1, *offset.shape) + offset
        before = support(M.detach())
        for rate in by_step:
            gradient = support.gradient(M).flatten(1) @ B.mT
            theta = theta - rate * (gradient.detach() if first_order else gradient)
            M = (theta @ B).view(-1, *offset.shape) + offset
        return OuterLoss(query(M), before, support(M.detach()))

    support, query = (_Quadratic(predict, batch, exact=False) for batch in episodes[:2])
    found = losses(support, query)
    # A loss whose terms cancel keeps its digits only with exact moments, which cost half as much again.
    if support.rounded(found.before, found.after) or query.rounded(found.query):
        found = losses(*(_Quadratic(predict, batch, exact=True) for batch in episodes[:2]))
    return OuterLoss(*(loss.to(next(iter(inner.values())).dtype) for loss in found))


@torch.no_grad()
def quadratic_gradient(
    predict: ConvolutionPredictor,
    inner: Params,
    episodes: Episode,
    *,
    steps: int,
    rates: Callable[[int], Params],
    first_order: bool,
    total_tasks: int,
) -> QuadraticGradient:
    """The same losses and the gradient of ``sum(query losses) / total_tasks``, without autograd.

    With ``N_s = dL/dM`` of the support loss at step s, ``theta_{s+1} = theta_s - r_s (N_s B^T)``; the way back runs
    through these steps in reverse. What reaches B is a sum of outer products, a pair of rows for each use of B.
    """
    weight_map = weight_map_of(predict, inner)
    start = flatten(inner).double().unsqueeze(0)
    by_step = [_joined_rates(inner, rates(step)) for step in range(steps)]
    support, query = (_Quadratic(predict, batch, exact=False) for batch in episodes[:2])
    trail = _descend(weight_map, start, by_step, support, query)
    if support.rounded(trail.losses.before, trail.losses.after) or query.rounded(trail.losses.query):
        support, query = (_Quadratic(predict, batch, exact=True) for batch in episodes[:2])
        trail = _descend(weight_map, start, by_step, support, query)

    by_rates: list[Tensor] = []
    uses: list[tuple[Weights, WeightGradients]] = []
    by_M = trail.by_query / total_tasks
    by_theta = torch.zeros_like(start)
    by_offset = torch.zeros_like(by_M[0])
    for s in reversed(range(steps)):
        pulled = weight_map.pull(by_M)
        uses.append((trail.weights[s + 1], pulled))
        by_offset += by_M.sum(0)
        by_theta = by_theta + pulled.by_theta
        by_rates.insert(0, -(by_theta * trail.gradients[s].by_theta).sum(0))
        if first_order:
            by_M = torch.zeros_like(by_M)
            continue
        change = weight_map.weights(by_theta * -by_step[s])
        uses.append((change, trail.gradients[s]))
        by_M = support.curvature(change.Mt)
    shared = weight_map.pull(by_M.sum(0, keepdim=True))
    uses.append((trail.weights[0], shared))
    by_start = by_theta.sum(0) + shared.by_theta[0]
    found = weight_map.pull_back(uses, by_offset + shared.Gt[0])
    found.update(unflatten(inner, by_start))
    dtype = next(iter(inner.values())).dtype
    return QuadraticGradient(
        OuterLoss(*(loss.to(dtype) for loss in trail.losses)),
        {name: g.to(dtype) for name, g in found.items()},
        [unflatten(inner, by.to(dtype)) for by in by_rates],
    )


class QuadraticGradient(NamedTuple):
    """What a step gives: losses ``[tasks]``, the gradient of the model, and that of each step's step sizes."""

    losses: OuterLoss
    by_model: Params
    by_rates: list[Params]
    """One item for each inner step: gradients for every entry of what adapts, as if it had its own step size."""


class _Trail(NamedTuple):
    """The inner steps of all tasks, and where they end."""

    weights: list[Weights]
    """One more than there are steps. The first has a single row, which all tasks share."""
    gradients: list[WeightGradients]
    """Those of the support losses, one item for each step."""
    losses: OuterLoss
    by_query: Tensor
    """The query losses' gradients by the adapted weights, ``[tasks, p, out]``."""


def _descend(
    weight_map: WeightMap, start: Tensor, by_step: list[Tensor], support: _Quadratic, query: _Quadratic
) -> _Trail:
    weights, pulled = [weight_map.weights(start)], []
    Mt = weights[0].Mt if weight_map.offset is None else weights[0].Mt + weight_map.offset
    before, gradient = support.at(Mt)
    for i, rate in enumerate(by_step):
        if i > 0:
            gradient = support.at(Mt)[1]
        pulled.append(weight_map.pull(gradient))
        weights.append(weight_map.weights(weights[-1].theta - rate * pulled[-1].by_theta))
        Mt = weights[-1].Mt if weight_map.offset is None else weights[-1].Mt + weight_map.offset
    after = support.at(Mt)[0] if by_step else before
    loss, by_query = query.at(Mt)
    return _Trail(weights, pulled, OuterLoss(loss, before, after), by_query)


def _joined_rates(inner: Params, rate: Params) -> Tensor:
    """The step size of every entry of what adapts, ``[entries]``, float64."""
    return torch.cat([rate[name].expand(p.shape).reshape(-1) for name, p in inner.items()]).double()


class _Quadratic:
    """The mean squared error of every task's data as a function of the weights ``M [tasks or 1, out, p]``."""

    def __init__(self, predict: ConvolutionPredictor, data: Batch, *, exact: bool) -> None:
        self.S, self.C, self.square = predict.moments(data, exact=exact)
        self.entries = data.y[0].numel()
        self.exact = exact or not predict.rounds(data)

    def __call__(self, M: Tensor) -> Tensor:
        """The losses ``[tasks]``. Rounding may push one below zero: it counts as zero, and keeps its gradient."""
        value = (((M @ self.S - 2 * self.C) * M).sum((1, 2)) + self.square) / self.entries
        return value + (-value.detach()).clamp_min(0)

    def gradient(self, M: Tensor) -> Tensor:
        """The gradient by M, ``[tasks, out, p]``."""
        return (M @ self.S - self.C) * (2.0 / self.entries)

    def at(self, Mt: Tensor) -> tuple[Tensor, Tensor]:
        """The losses ``[tasks]`` at ``Mt [tasks or 1, p, out]`` and their gradients ``[tasks, p, out]``."""
        error = self.S @ Mt - self._Ct
        value = (((error - self._Ct) * Mt).sum((1, 2)) + self.square) / self.entries
        return value.clamp_min(0), error * (2.0 / self.entries)

    def curvature(self, Dt: Tensor) -> Tensor:
        """The Hessian by M, applied to ``Dt [tasks, p, out]``."""
        return (self.S * (2.0 / self.entries)) @ Dt

    @functools.cached_property
    def _Ct(self) -> Tensor:
        return self.C.mT.contiguous()

    def rounded(self, *losses: Tensor) -> bool:
        """Whether one of these losses is so small that rounding of the moments shows in it."""
        least = self.square * (CANCELS / self.entries)
        return not self.exact and any(bool((loss.detach() < least).any()) for loss in losses)
