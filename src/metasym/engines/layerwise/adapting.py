"""Adaptation of many tasks by a chain: gradients and products with the Hessian, no graph through the network.

One inner step is ``v' = v - a V^T G`` with ``G`` the gradient by the effective parameters ``W = S(U, v)`` and V^T the
derivative of S by v, transposed. Its derivative needs the network only through products of the Hessian with a
vector, and the query loss only through its first derivative. So the network is differentiated by hand, task by
task (``chain.py``), and autograd sees two functions of W: the support gradient, whose derivative is such a
product, and the query loss. Everything between them, S, step sizes and updates, are small matrices, handled for all
tasks at once. What is computed is what plain autograd computes, for any number of inner steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.func import vjp, vmap

from metasym.adaptation.functional import measure
from metasym.engines.layerwise.chain import Chain
from metasym.symmetry.matrices import mode_product
from metasym.types import Batch, Episode, Loss, OuterLoss, Params

CHAIN_TYPES = (torch.float32, torch.float64)


class ChainTask(NamedTuple):
    """What is adapted and how: the same for every task."""

    loss: Loss
    params: Params
    inner: list[str]
    rates: Callable[[int], Params]


def chained_losses(
    chain: Chain, task: ChainTask, episodes: Episode, *, steps: int, first_order: bool
) -> OuterLoss:
    """Adapt to every task's support set and score its query set: the losses, each ``[tasks]``."""
    found, before = chained_adapt(chain, task, episodes.support, steps=steps, first_order=first_order)
    weights, loss = list(found.values()), task.loss
    query = _QueryLoss.apply(chain, loss, episodes.query, *weights)  # type: ignore[no-untyped-call]
    with torch.no_grad():
        after = torch.stack(
            [
                measure(loss, chain.predict(_task(found, i), episodes.support.x[i]), episodes.support.y[i])
                for i in range(episodes.count)
            ]
        )
    return OuterLoss(query, after if before is None else before, after)


def chained_scores(chain: Chain, task: ChainTask, metric: Loss, episodes: Episode, *, steps: int) -> Tensor:
    """``metric`` on every task's query set after adaptation, ``[tasks]``; keeps no graph."""
    with torch.no_grad():
        found, _ = chained_adapt(chain, task, episodes.support, steps=steps, first_order=True)
        return torch.stack(
            [
                measure(
                    metric, chain.predict(_task(found, i), episodes.query.x[i]), episodes.query.y[i], "metric"
                )
                for i in range(episodes.count)
            ]
        )


def chained_adapt(
    chain: Chain, task: ChainTask, support: Batch, *, steps: int, first_order: bool
) -> tuple[Params, Tensor | None]:
    """The effective parameters ``[tasks, ...]`` after adaptation, and the support losses ``[tasks]`` before it."""
    moves = None if first_order or not steps else _moves_of_weights(chain, task, steps * len(support.x))
    if moves is None:
        return _adapt_filters(chain, task, support, steps=steps, first_order=first_order)
    weights = tuple(chain.effective(task.params).values())
    before: Tensor | None = None
    for step in range(steps):
        value, *G = _support_gradient(chain, task.loss, support, weights, first_order=False)
        before = value if before is None else before
        rate = task.rates(step)
        weights = tuple(
            w.expand_as(g) if move is None else w - move(g, rate[move.inner])
            for w, g, move in zip(weights, G, moves, strict=True)
        )
    return dict(zip(chain.names, weights, strict=True)), before


class _Move:
    """How a step on ``inner`` moves an effective parameter: along its gradient, or along U U^T times its gradient.

    With ``W = U_out V U_in^T`` a step of size a on V moves W by ``- a U_out U_out^T G U_in U_in^T``: the products
    U U^T are the same for all tasks and steps, so that V itself need not be known. ``uses`` is the number of
    gradients to come: where these have fewer rows in all than U_in, U_in (U_in^T x) costs less than forming
    U_in U_in^T.
    """

    def __init__(self, inner: str, factors: list[Tensor], uses: int) -> None:
        self.inner = inner
        sizes = [len(U) for U in factors]
        self.wide = factors[1] if len(factors) == 2 and sizes[1] > uses * sizes[0] else None
        self.squares = [U @ U.T for U in (factors if self.wide is None else factors[:1])]

    def __call__(self, G: Tensor, rate: Tensor) -> Tensor:
        """The step along ``G [tasks, ...]``, of its shape; with U U^T the step size is one number."""
        if not self.squares:
            return rate * G
        first, *others = self.squares
        first = rate * first  # smaller than what it is multiplied with
        if len(others) == 2:  # a convolution's: input channels last, one product instead of thousands
            inputs, kernel = others
            moved = _each(first, G.flatten(2)).view(-1, len(inputs), len(kernel))
            moved = _each(kernel, moved.mT.contiguous()) @ inputs
            return moved.mT.reshape(G.shape)
        if self.wide is not None:
            return ((_each(first, G).flatten(0, 1) @ self.wide) @ self.wide.T).view(G.shape)
        moved = G.reshape(G.shape[0], *(len(M) for M in self.squares))
        for mode, M in enumerate((first, *others)):
            moved = mode_product(moved, M, mode + 1)
        return moved.reshape(G.shape)


def _each(M: Tensor, G: Tensor) -> Tensor:
    """M times each matrix of ``G [count, rows, columns]``; ``M @ G`` reorders all of G where M has a gradient."""
    return torch.bmm(M.expand(len(G), *M.shape), G)


def _moves_of_weights(chain: Chain, task: ChainTask, uses: int) -> list[_Move | None] | None:
    """How each effective parameter moves (None: not at all); None for all where that depends on what adapts."""
    moves: list[_Move | None] = []
    rates = task.rates(0)
    explained = set()
    for name in chain.names:
        source = chain.sources.get(name)
        if name in task.params:
            moves.append(_Move(name, [], uses) if name in task.inner else None)
            explained.add(name)
        elif source is None or any(factor in task.inner for factor in source.factors):
            return None
        elif source.original not in task.inner:
            moves.append(None)
        elif rates[source.original].ndim > 0:  # a step size for each entry of V
            return None
        else:
            factors = [source.tensor(factor, task.params) for factor in source.factors]
            moves.append(_Move(source.original, factors, uses))
            explained.add(source.original)
    return moves if explained >= set(task.inner) else None


def _adapt_filters(
    chain: Chain, task: ChainTask, support: Batch, *, steps: int, first_order: bool
) -> tuple[Params, Tensor | None]:
    """The same for any way of making weights: what adapts is held for each task, weights are made from it."""
    loss, params, inner, rates = task
    tasks = support.x.shape[0]
    fixed = {name: p for name, p in params.items() if name not in inner}
    values = [params[name] for name in inner]

    def effective(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(chain.effective({**fixed, **dict(zip(inner, values, strict=True))}).values())

    def pull(weights: tuple[Tensor, ...], *values: Tensor) -> tuple[Tensor, ...]:
        return vjp(effective, *values)[1](weights)  # type: ignore[no-any-return]

    before: Tensor | None = None
    shared = effective(*values)  # until the first step all tasks have the same weights
    for step in range(steps):
        if step == 0:
            value, *G = _support_gradient(chain, loss, support, shared, first_order)
            before = value
            gradients = vmap(vjp(effective, *values)[1])(tuple(G))
        else:
            moved = vmap(effective)(*values)
            value, *G = _support_gradient(chain, loss, support, moved, first_order)
            gradients = vmap(pull)(tuple(G), *values)
        rate = rates(step)
        if first_order:
            gradients = tuple(g.detach() for g in gradients)
        values = [v - rate[n] * g for n, v, g in zip(inner, values, gradients, strict=True)]
    weights = vmap(effective)(*values) if steps else tuple(w.expand(tasks, *w.shape) for w in shared)
    return dict(zip(chain.names, weights, strict=True)), before


def _support_gradient(
    chain: Chain, loss: Loss, support: Batch, weights: tuple[Tensor, ...], first_order: bool
) -> tuple[Tensor, ...]:
    """Losses ``[tasks]`` and gradients ``[tasks, ...]`` at weights that are shared, or ``[tasks, ...]`` each."""
    if first_order:
        weights = tuple(w.detach() for w in weights)
    found: tuple[Tensor, ...] = _SupportGradient.apply(chain, loss, support, *weights)  # type: ignore[no-untyped-call]
    return found


class _SupportGradient(torch.autograd.Function):
    """The gradient of each task's loss; its derivative is a product with the Hessian."""

    @staticmethod
    def forward(ctx: Any, chain: Chain, loss: Loss, data: Batch, *weights: Tensor) -> tuple[Tensor, ...]:
        tasks = data.x.shape[0]
        keep = any(ctx.needs_input_grad)
        shared = weights[0].shape == chain.shapes[0]
        losses, gradients, tapes = [], [], []
        for i in range(tasks):
            at = dict(zip(chain.names, (w if shared else w[i] for w in weights), strict=True))
            value, gradient, tape = chain.gradient(at, Batch(data.x[i], data.y[i]), loss, keep=keep)
            losses.append(value)
            gradients.append(gradient)
            tapes.append(tape)
        ctx.chain, ctx.tapes, ctx.shared = chain, tapes, shared
        found = torch.stack(losses)
        ctx.mark_non_differentiable(found)
        return found, *(torch.stack([g[name] for g in gradients]) for name in chain.names)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor, *directions: Tensor) -> tuple[Tensor | None, ...]:
        chain: Chain = ctx.chain
        total: list[Tensor] | None = None
        parts: list[list[Tensor]] = []
        for i, tape in enumerate(ctx.tapes):
            along = dict(zip(chain.names, (d[i] for d in directions), strict=True))
            product = chain.hessian(tape, along)
            ordered = [product[name] for name in chain.names]
            if not ctx.shared:
                parts.append(ordered)
            elif total is None:
                total = ordered
            else:
                total = [a + b for a, b in zip(total, ordered, strict=True)]
            ctx.tapes[i] = None  # its memory serves the tasks that follow
        if total is None:
            total = [torch.stack(part) for part in zip(*parts, strict=True)]
        return (None, None, None, *total)


class _QueryLoss(torch.autograd.Function):
    """Each task's loss at weights of its own, with the gradient computed at once: no activation outlives its task."""

    @staticmethod
    def forward(ctx: Any, chain: Chain, loss: Loss, data: Batch, *weights: Tensor) -> Tensor:
        tasks = data.x.shape[0]
        wanted = any(ctx.needs_input_grad)
        losses, gradients = [], []
        for i in range(tasks):
            at = dict(zip(chain.names, (w[i] for w in weights), strict=True))
            batch = Batch(data.x[i], data.y[i])
            if wanted:
                value, gradient, _ = chain.gradient(at, batch, loss, keep=False)
                gradients.append(gradient)
            else:
                value = measure(loss, chain.predict(at, batch.x), batch.y)
            losses.append(value)
        if wanted:
            ctx.gradients = [torch.stack([g[name] for g in gradients]) for name in chain.names]
        return torch.stack(losses)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, up: Tensor) -> tuple[Tensor | None, ...]:
        found = [g * up.view(-1, *(1,) * (g.ndim - 1)) for g in ctx.gradients]
        return (None, None, None, *found)


def _task(params: Params, i: int) -> Params:
    return {name: p[i] for name, p in params.items()}
