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
from torch.func import vmap

from metasym.functional import flatten, unflatten
from metasym.gram import ConvolutionPredictor
from metasym.types import Batch, Episode, OuterLoss, Params

LARGEST_BASIS = 2**18
"""Entries of B up to which it is formed: 2 MiB, as much as the moments of a few dozen tasks."""


def fits(predict: ConvolutionPredictor, inner: Params, episodes: Episode) -> bool:
    """Whether the moments of these data are smaller than the data, and B is small."""
    entries = sum(p.numel() for p in inner.values())
    tensors = [t for batch in episodes[:2] for t in batch]
    dtype = next(iter(inner.values())).dtype
    return (
        predict.linear
        and all(predict.pays(batch.x[0]) for batch in episodes[:2])
        and entries * predict.layer.weight.numel() <= LARGEST_BASIS
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
    start = flatten(inner)
    units = torch.eye(start.numel(), dtype=start.dtype, device=start.device)
    zero = predict.matrix(unflatten(inner, torch.zeros_like(start)))
    made = vmap(lambda unit: predict.matrix(unflatten(inner, unit)))(units)
    B = (made - zero).double().flatten(1)
    offset = zero.double()
    support, query = (_Quadratic(predict, batch) for batch in episodes[:2])

    def weight(theta: Tensor) -> Tensor:
        return (theta @ B).view(-1, *offset.shape) + offset

    theta = start.double().expand(episodes.count, -1)
    M = weight(theta)
    before = support(M.detach())
    for step in range(steps):
        rate = rates(step)
        entries = torch.cat([rate[name].expand(p.shape).reshape(-1) for name, p in inner.items()]).double()
        gradient = support.gradient(M).flatten(1) @ B.mT
        theta = theta - entries * (gradient.detach() if first_order else gradient)
        M = weight(theta)
    losses = query(M), before, support(M.detach())
    return OuterLoss(*(loss.to(start.dtype) for loss in losses))


class _Quadratic:
    """The mean squared error of every task's data as a function of the weights ``M [tasks, out, p]``."""

    def __init__(self, predict: ConvolutionPredictor, data: Batch) -> None:
        self.S, self.C, self.square = predict.moments(data)
        self.entries = data.y[0].numel()

    def __call__(self, M: Tensor) -> Tensor:
        """The losses ``[tasks]``; rounding may take one below zero, where the gradient stays right and is kept."""
        value = (((M @ self.S - 2 * self.C) * M).sum((1, 2)) + self.square) / self.entries
        return value + (-value.detach()).clamp_min(0)

    def gradient(self, M: Tensor) -> Tensor:
        """By M, ``[tasks, out, p]``."""
        return (M @ self.S - self.C) * (2.0 / self.entries)
