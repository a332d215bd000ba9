"""All tasks' inner steps of one convolution at once, in the coordinates of what adapts.

The squared loss of a convolution is quadratic in its weight M (``gram.py``), and M is linear in what adapts:
``M = M_0 + theta B`` with B ``[entries, out p]``, the weights of the unit filters, the same for all tasks. Inner
steps of all tasks then are products of small matrices, ``[tasks, entries]`` with B, and so is their gradient by B,
from which that of U follows once for all tasks instead of once for each. In float64, as the moments are.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from metasym.functional import flatten
from metasym.gram import ConvolutionPredictor
from metasym.types import Batch, Episode, OuterLoss, Params

LARGEST_BASIS = 2**18
"""Entries of B up to which it is formed: 2 MiB, as much as the moments of a few dozen tasks."""

CANCELS = 1e-3
"""Losses below this share of the targets' mean square are computed from exact moments. Moments that are not are off
by 1e-9 of that square: the losses above keep six digits."""


def fits(predict: ConvolutionPredictor, inner: Params, episodes: Episode) -> bool:
    """Whether the moments of these data are smaller than the data, and B is small."""
    entries = sum(p.numel() for p in inner.values())
    tensors = [t for batch in episodes[:2] for t in batch]
    dtype = next(iter(inner.values())).dtype
    return (
        predict.linear
        and all(predict.pays(batch.x[0]) for batch in episodes[:2])
        and entries * predict.weight_entries <= LARGEST_BASIS
        and all(t.dtype == dtype and not t.requires_grad for t in tensors)
    )


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
    by_step = []
    for step in range(steps):
        rate = rates(step)
        by_step.append(
            torch.cat([rate[name].expand(p.shape).reshape(-1) for name, p in inner.items()]).double()
        )

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
    # The digits of a loss whose terms cancel need exact moments: half as expensive again.
    if support.rounded(found.before, found.after) or query.rounded(found.query):
        found = losses(*(_Quadratic(predict, batch, exact=True) for batch in episodes[:2]))
    return OuterLoss(*(loss.to(next(iter(inner.values())).dtype) for loss in found))


class _Quadratic:
    """The mean squared error of every task's data as a function of the weights ``M [tasks or 1, out, p]``."""

    def __init__(self, predict: ConvolutionPredictor, data: Batch, *, exact: bool) -> None:
        self.S, self.C, self.square = predict.moments(data, exact=exact)
        self.entries = data.y[0].numel()
        self.exact = exact or not predict.rounds(data)

    def __call__(self, M: Tensor) -> Tensor:
        """The losses ``[tasks]``; rounding may take one below zero, where the gradient stays right and is kept."""
        value = (((M @ self.S - 2 * self.C) * M).sum((1, 2)) + self.square) / self.entries
        return value + (-value.detach()).clamp_min(0)

    def gradient(self, M: Tensor) -> Tensor:
        """By M, ``[tasks, out, p]``."""
        return (M @ self.S - self.C) * (2.0 / self.entries)

    def rounded(self, *losses: Tensor) -> bool:
        """Whether one of these losses is so small that rounding of the moments shows in it."""
        least = self.square * (CANCELS / self.entries)
        return not self.exact and any(bool((loss.detach() < least).any()) for loss in losses)
