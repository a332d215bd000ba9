"""Losses of embeddings by a chain: every task's gradient at once, no activation outlives its task.

For learners that adapt nothing and whose loss joins the embeddings of support and query, as prototypes do. The two
sets go through the network one after the other: each is normalised by its own statistics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from metasym.engines.layerwise.chain import Chain, leave
from metasym.types import Episode, Params

TaskLosses = Callable[[Tensor, Tensor, Episode], tuple[Tensor, Tensor]]
"""From the embeddings of one task's support and query: the loss to be differentiated, and another one."""


def embedding_losses(
    chain: Chain, params: Params, episodes: Episode, losses: TaskLosses
) -> tuple[Tensor, Tensor]:
    """Both losses of every task, ``[tasks]`` each; the first is a function of the model's ``params``."""
    weights = list(chain.effective(params).values())
    found: tuple[Tensor, Tensor] = _Losses.apply(chain, losses, episodes, *weights)  # type: ignore[no-untyped-call]
    return found


class _Losses(torch.autograd.Function):
    """The losses at weights that all tasks share, with the gradient of the first computed at once."""

    @staticmethod
    def forward(
        ctx: Any, chain: Chain, losses: TaskLosses, episodes: Episode, *weights: Tensor
    ) -> tuple[Tensor, Tensor]:
        at = dict(zip(chain.names, weights, strict=True))
        wanted = any(ctx.needs_input_grad)
        values, others, gradients = [], [], []
        for i in range(episodes.count):
            episode = episodes.task(i)
            if wanted:
                value, other, gradient = _gradient(chain, at, losses, episode)
                gradients.append(gradient)
            else:
                support, query = (chain.predict(at, batch.x) for batch in (episode.support, episode.query))
                value, other = losses(support, query, episode)
            values.append(value)
            others.append(other)
        if wanted:
            ctx.gradients = [torch.stack([g[name] for g in gradients]) for name in chain.names]
        second = torch.stack(others)
        ctx.mark_non_differentiable(second)
        return torch.stack(values), second

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
        return (None, None, None, *(torch.tensordot(up, g, 1) for g in ctx.gradients))


def _gradient(
    chain: Chain, at: Params, losses: TaskLosses, episode: Episode
) -> tuple[Tensor, Tensor, Params]:
    """One task's losses and the gradient of the first by all effective parameters."""
    runs = [chain.run(at, batch.x) for batch in (episode.support, episode.query)]
    with torch.enable_grad():
        support, query = (leave(steps[-1].y).detach().requires_grad_() for steps in runs)
        value, other = losses(support, query, episode)
        slopes = torch.autograd.grad(value, (support, query))
    first, second = (
        chain.pull(at, steps, slope, keep=False)[0] for steps, slope in zip(runs, slopes, strict=True)
    )
    return value.detach(), other.detach(), {name: first[name] + second[name] for name in first}
