"""The plain loop as the oracle of every engine: one task after the other, ``create_graph`` and nothing clever.

It reads a learner's options and its model, and shares no code with the engines: the model runs by
``torch.func.functional_call``, inner steps are written out, exact solves go by the whole Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from metasym.learners import GradientLearner, Learner, ProtoNet
from metasym.types import Batch, Episode, OuterLoss, Params


class Opaque(nn.Module):
    """Hides a model's structure, so that no engine knows it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


def plain_losses(learner: Learner, episodes: Episode) -> OuterLoss:
    """The losses of every task, ``[tasks]``, with a graph to all outer parameters."""
    found = []
    for i in range(episodes.count):
        episode = episodes.task(i)
        if isinstance(learner, ProtoNet):
            query, near = _prototype_losses(learner, episode)
            found.append((query, near, near))
            continue
        assert isinstance(learner, GradientLearner)
        inner, before = _adapt(learner, episode.support, learner.inner_steps)
        after = _loss(learner, inner, episode.support)
        found.append((_loss(learner, inner, episode.query), before.detach(), after.detach()))
    return OuterLoss(*(torch.stack(parts) for parts in zip(*found, strict=True)))


def plain_gradient(learner: Learner, episodes: Episode) -> tuple[OuterLoss, Params]:
    """The losses and the gradient of the mean query loss, by the names of the outer parameters."""
    losses, outer = plain_losses(learner, episodes), learner.outer_parameters()
    parts = torch.autograd.grad(losses.query.mean(), list(outer.values()), allow_unused=True)
    return losses, {
        name: torch.zeros_like(p) if g is None else g
        for (name, p), g in zip(outer.items(), parts, strict=True)
    }


def plain_scores(learner: Learner, episodes: Episode, steps: int) -> Tensor:
    """The learner's own loss on every task's query set after so many steps, ``[tasks]``."""
    found = []
    for i in range(episodes.count):
        episode = episodes.task(i)
        if isinstance(learner, ProtoNet):
            found.append(_prototype_losses(learner, episode)[0])
        else:
            assert isinstance(learner, GradientLearner)
            found.append(_loss(learner, _adapt(learner, episode.support, steps)[0], episode.query))
    return torch.stack(found).detach()


def _call(learner: Learner, inner: Params, x: Tensor) -> Tensor:
    output: Tensor = functional_call(learner.model, inner, (x,))
    return output


def _loss(learner: Learner, inner: Params, data: Batch) -> Tensor:
    return learner.loss(_call(learner, inner, data.x), data.y)


def _adapt(learner: GradientLearner, support: Batch, steps: int) -> tuple[Params, Tensor]:
    """What adapts, after ``steps``, and the support loss before."""
    named = dict(learner.model.named_parameters())
    inner: Params = {name: named[name] for name in learner.inner_names}
    before = _loss(learner, inner, support)
    if learner.solver != "sgd":
        return _solve(learner, inner, support, steps), before
    for step in range(steps):
        values = list(inner.values())
        parts = torch.autograd.grad(_loss(learner, inner, support), values, create_graph=True)
        rates = learner.rates.at(step)
        inner = {
            name: p - rates[name] * (g.detach() if learner.first_order else g)
            for (name, p), g in zip(inner.items(), parts, strict=True)
        }
    return inner, before


def _solve(learner: GradientLearner, inner: Params, support: Batch, steps: int) -> Params:
    """Least squares with a penalty on the change, by the Jacobian: exactly, or by conjugate gradients."""
    sizes, shapes = [p.numel() for p in inner.values()], [p.shape for p in inner.values()]

    def split(flat: Tensor) -> Params:
        parts = flat.split(sizes)
        return {name: t.reshape(s) for name, t, s in zip(inner, parts, shapes, strict=True)}

    start = torch.cat([p.reshape(-1) for p in inner.values()])
    of: Callable[[Tensor], Tensor] = lambda flat: _call(learner, split(flat), support.x).reshape(-1)  # noqa: E731
    J: Any = torch.autograd.functional.jacobian(of, start, create_graph=True)
    r = support.y.reshape(-1) - of(start)
    A = J.T @ J / len(r) + learner.penalty * torch.eye(len(start), dtype=start.dtype, device=start.device)
    b = J.T @ r / len(r)
    if learner.solver == "ridge":
        return split(start + torch.linalg.solve(A, b))
    d, g = torch.zeros_like(b), b
    p = g
    for _ in range(steps):
        alpha = (g @ g) / (p @ A @ p)
        d, new = d + alpha * p, g - alpha * (A @ p)
        p, g = new + (new @ new) / (g @ g) * p, new
    return split(start + d)


def _prototype_losses(learner: ProtoNet, episode: Episode) -> tuple[Tensor, Tensor]:
    support, query = learner.model(episode.support.x), learner.model(episode.query.x)
    labels = episode.support.y
    means = torch.stack([support[labels == c].mean(0) for c in range(int(labels.max()) + 1)])
    far = [-((t.unsqueeze(1) - means) ** 2).sum(-1) for t in (query, support)]
    return F.cross_entropy(far[0], episode.query.y), F.cross_entropy(far[1], labels).detach()
