"""The meta-gradient of a dense reparameterized linear layer as products of matrices.

With the squared loss, adapting one layer's filter v (and, for MSR-Joint, its U) by gradient descent is linear
algebra: no automatic differentiation is needed, neither of the inner steps nor through them. A task has support
inputs X ``[e, n]`` with targets Y; ``A = X U [e m, k]`` is the prediction's derivative by v. With c = 2 / (e m), step
sizes b_s of v and a_s of U, and K = X X^T, inner step s is

    r_s     = A v_s - c sum_{j<s} a_j (v_j . v_s) K r_j + bias - Y
    g_s     = c A^T r_s - c^2 sum_{j<s} a_j <r_j, K r_s> v_j
    v_{s+1} = v_s - b_s g_s

(the sums are what U's own moves contribute, see ``joint.py``; for MSR they are absent). The gradient of the query
loss runs through these three lines backwards. A's gradient is a sum of 2 S outer products for S steps, and U's is X
times it. Products with U, the whole cost at the paper's sizes, are then: X U for all tasks and steps at once,
and one for its gradient; and the same again for the query inputs (or three, where W is built: ``query_first``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from metasym.engines.dense.layer import Layer, contract, gradient_by_U
from metasym.engines.kernels.filter_steps import can_step, filter_steps
from metasym.types import Batch, OuterLoss


def closed_loss(
    layer: Layer, support: Batch, query: Batch, *, first_order: bool, query_first: str
) -> OuterLoss:
    """What ``functional.query_loss`` gives for every task, ``[tasks]``, differentiable (once) by the layer.

    ``support.x [tasks, examples, n]``, ``support.y [tasks, examples, m]``, and likewise ``query``.
    ``query_first``: contract U with the query's ``"input"`` or with the ``"filter"``.
    """
    found: tuple[Tensor, Tensor, Tensor] = _Unrolled.apply(  # type: ignore[no-untyped-call]
        *layer, support, query, first_order, query_first == "input"
    )
    return OuterLoss(*found)


@torch.no_grad()
def closed_gradient(
    layer: Layer,
    support: Batch,
    query: Batch,
    *,
    first_order: bool,
    query_first: str,
    total_tasks: int,
) -> tuple[OuterLoss, Layer]:
    """The losses, and the gradient of ``sum(query losses) / total_tasks`` by everything in ``layer``.

    What autograd would make of :func:`closed_loss`, without its bookkeeping.
    """
    U, v, bias, rates_U, rates_v = (t if t is None else t.detach() for t in layer)
    assert U is not None
    assert v is not None
    assert rates_v is not None
    bare, learned = Layer(U, v, bias, rates_U, rates_v), layer.U.requires_grad
    input_first, weight = query_first == "input", 1.0 / total_tasks
    if input_first and rates_U is None and can_step(U):
        return _fused(bare, support, query, first_order, weight, learned)
    return _gradient(bare, support, query, first_order, input_first, weight, learned)


def _fused(
    layer: Layer, support: Batch, query: Batch, first_order: bool, weight: float, learned: bool
) -> tuple[OuterLoss, Layer]:
    """The same, with one kernel for everything between the products with U; MSR only, inputs contracted first."""
    U, v, bias, _, rates = layer
    (y, y_query), m, k = (support.y, query.y), support.y.shape[-1], len(v)
    if bias is not None:
        y, y_query = y - bias, y_query - bias
    rows = torch.cat([support.x.flatten(0, 1), query.x.flatten(0, 1)])
    contracted = contract(rows, U, m)
    found = filter_steps(
        contracted, v, rates, y, y_query, weight=weight, first_order=first_order, bias=bias is not None
    )
    by_U = gradient_by_U(rows, contracted, m, k) if learned else None
    by_rates = found.rates if rates.ndim > 1 else found.rates.sum(1)
    return OuterLoss(*found.losses.unbind()), Layer(by_U, found.v, found.bias, None, by_rates)  # type: ignore[arg-type]


def _gradient(
    layer: Layer,
    support: Batch,
    query: Batch,
    first_order: bool,
    input_first: bool,
    weight: float,
    learned: bool,
) -> tuple[OuterLoss, Layer]:
    """The body of :func:`closed_gradient`, for tensors without a history."""
    losses, trail = _unroll(layer, support, query, first_order, input_first)
    by_loss = torch.full_like(losses.query, weight)
    return losses, _pull_back(trail, by_loss, U=learned, bias=layer.bias is not None)


class _Unrolled(torch.autograd.Function):
    """:func:`_unroll` and :func:`_pull_back` for autograd."""

    @staticmethod
    def forward(
        ctx: Any,
        U: Tensor,
        v: Tensor,
        bias: Tensor | None,
        rates_U: Tensor | None,
        rates_v: Tensor,
        support: Batch,
        query: Batch,
        first_order: bool,
        input_first: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        layer = Layer(U, v, bias, rates_U, rates_v)
        losses, ctx.trail = _unroll(layer, support, query, first_order, input_first)
        ctx.save_for_backward(*(t for t in layer if t is not None))  # so that changes in place are noticed
        ctx.mark_non_differentiable(losses.before, losses.after)
        return losses.query, losses.before, losses.after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, by_loss: Tensor, *_: Tensor) -> tuple[Tensor | None, ...]:
        assert ctx.saved_tensors
        found = _pull_back(ctx.trail, by_loss, U=ctx.needs_input_grad[0], bias=ctx.needs_input_grad[2])
        return (*found, None, None, None, None)


@dataclass
class _Trail:
    """What the inner steps keep for the backward pass; lists have one item for each step.

    A task's vectors are rows, ``[tasks, 1, ...]``: bmm multiplies by a row from the left in an eighth of the time
    that it takes to multiply by a column from the right.
    """

    layer: Layer
    query_x: Tensor
    """``[tasks, q, n]``."""
    first_order: bool
    rows: Tensor
    """The inputs that U was contracted with, ``[rows, n]``."""
    A: Tensor
    """``[tasks, e m, k]``."""
    B: Tensor | None
    """``[tasks, q m, k]``, where the query is contracted with its inputs first."""
    c: float
    v: list[Tensor]
    """``[tasks, 1, k]``, one more than there are steps."""
    r: list[Tensor]
    """``[tasks, 1, e m]``, one more than there are steps."""
    h: list[Tensor]
    """``[tasks, 1, k]``: g_s / c."""
    Kr: list[Tensor]
    """``[tasks, 1, e m]``: K r_s, for MSR-Joint."""
    gram: Tensor | None
    """``[tasks, e, e]``: K = X X^T, for MSR-Joint."""
    to_query: Tensor | None
    """``[tasks, q, e]``: X_q X^T, for MSR-Joint."""
    residual: Tensor
    """``[tasks, 1, q m]``, of the query."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Tasks, outputs m and k."""
        tasks, q, _ = self.query_x.shape
        return tasks, self.residual.shape[2] // q, self.A.shape[2]


def _unroll(
    layer: Layer, support: Batch, query: Batch, first_order: bool, input_first: bool
) -> tuple[OuterLoss, _Trail]:
    """All inner steps of all tasks."""
    U, v, bias, rates_U, rates_v = layer
    x, y = support
    tasks, e, n = x.shape
    q, m, k = query.x.shape[1], y.shape[-1], v.shape[0]
    rows = x.reshape(-1, n)
    if input_first:
        rows = torch.cat([rows, query.x.reshape(-1, n)])
    contracted = contract(rows, U, m)
    A = contracted[: tasks * e].view(tasks, e * m, k)
    B = contracted[tasks * e :].view(tasks, q * m, k) if input_first else None
    target = (y if bias is None else y - bias).reshape(tasks, 1, e * m)
    target_query = (query.y if bias is None else query.y - bias).reshape(tasks, 1, q * m)
    gram = to_query = None
    if rates_U is not None:
        gram, to_query = x @ x.mT, query.x @ x.mT
    c, start = 2.0 / (e * m), v.expand(tasks, 1, k)
    trail = _Trail(
        layer, query.x, first_order, rows, A, B, c, [start], [], [], [], gram, to_query, target_query
    )
    rates = rates_v.unbind()
    for s in range(len(rates) + 1):
        now = trail.v[s]
        if s == 0:
            r = torch.addmv(target.reshape(-1), A.view(-1, k), v, beta=-1).view(tasks, 1, -1)
        else:
            r = torch.baddbmm(target, now, A.mT, beta=-1)
        if rates_U is not None:
            for j in range(s):
                r = r - c * rates_U[j] * _dot(trail.v[j], now) * trail.Kr[j]
        trail.r.append(r)
        if s == len(rates):
            break
        h = torch.bmm(r, A)
        if rates_U is not None and gram is not None:
            trail.Kr.append((gram @ r.view(tasks, e, m)).view(tasks, 1, -1))
            for j in range(s):
                h = h - c * rates_U[j] * _dot(trail.Kr[j], r) * trail.v[j]
        trail.h.append(h)
        trail.v.append(torch.addcmul(now, rates[s], h, value=-c))
    last = trail.v[-1]
    if B is None:
        W = (last.view(tasks, k) @ U.mT).view(tasks, m, n)
        trail.residual = (query.x @ W.mT).view(tasks, 1, -1) - target_query
    else:
        trail.residual = torch.baddbmm(target_query, last, B.mT, beta=-1)
    if rates_U is not None and to_query is not None:
        for j in range(len(rates)):
            moved = (to_query @ trail.r[j].view(tasks, e, m)).view(tasks, 1, -1)
            trail.residual = trail.residual - c * rates_U[j] * _dot(trail.v[j], last) * moved
    before, after = torch.stack([trail.r[0], trail.r[-1]]).square().mean((2, 3))
    return OuterLoss(trail.residual.square().mean((1, 2)), before, after), trail


def _pull_back(trail: _Trail, by_loss: Tensor, *, U: bool, bias: bool) -> Layer:
    """The gradient, by the layer, of the query losses' sum, each weighted by its entry of ``by_loss [tasks]``."""
    tasks, m, _ = trail.sizes
    rates_v, A, c = trail.layer.rates_v, trail.A, trail.c
    by_residual = trail.residual * (by_loss * (2.0 / trail.residual.shape[2])).view(tasks, 1, 1)
    by_bias = by_residual.view(-1, m).sum(0) if bias else None
    by_W = None
    if trail.B is None:
        by_W = (by_residual.view(tasks, -1, m).mT @ trail.query_x).view(tasks, -1)
        by_v = (by_W @ trail.layer.U).unsqueeze(1)
    else:
        by_v = torch.bmm(by_residual, trail.B)
    moves = _Moves(trail, by_residual) if trail.Kr else None
    if moves is not None:
        by_v = by_v + moves.from_query()
    left: list[Tensor] = []  # of the outer products whose sum is A's gradient
    right: list[Tensor] = []
    after = []  # the gradient by the filter after each step
    factors = (-c * rates_v).unbind()
    for s in reversed(range(len(factors))):
        after.append(by_v)
        if trail.first_order:
            continue
        by_h = factors[s] * by_v
        by_r = torch.bmm(by_h, A.mT)
        left.append(trail.r[s])
        right.append(by_h)
        if moves is not None:
            by_v, by_r = moves.through_step(s, by_v, by_r, by_h)
        left.append(by_r)
        right.append(trail.v[s])
        by_v = torch.baddbmm(by_v, by_r, A)
        if by_bias is not None:
            by_bias = by_bias + by_r.view(-1, m).sum(0)
    by_rates_v, by_rates_U = torch.zeros_like(rates_v), None
    if after:
        products = torch.cat(trail.h, 1) * torch.cat(after[::-1], 1)  # [tasks, steps, k]
        by_rates_v = -c * products.sum((0, 2) if rates_v.ndim == 1 else 0)
    if trail.layer.rates_U is not None:
        by_rates_U = torch.zeros_like(trail.layer.rates_U) if moves is None else moves.by_rates
    by_U = _by_U(trail, by_residual, by_W, left, right) if U else None
    return Layer(by_U, by_v.sum((0, 1)), by_bias, by_rates_U, by_rates_v)  # type: ignore[arg-type]


def _by_U(
    trail: _Trail, by_residual: Tensor, by_W: Tensor | None, left: list[Tensor], right: list[Tensor]
) -> Tensor:
    """The gradient by U ``[m n, k]``: the inputs times the gradient by what their contraction with U gave."""
    tasks, m, k = trail.sizes
    shape, own = (len(trail.rows), m * k), trail.A.shape
    by_contracted = trail.A.new_empty(shape) if left else trail.A.new_zeros(shape)
    count = own[0] * own[1] // m
    if left:
        torch.bmm(torch.cat(left, 1).mT, torch.cat(right, 1), out=by_contracted[:count].view(own))
    if trail.B is not None:
        torch.mul(by_residual.mT, trail.v[-1], out=by_contracted[count:].view(trail.B.shape))
    by_U = gradient_by_U(trail.rows, by_contracted, m, k)
    return by_U if by_W is None else by_U.addmm_(by_W.mT, trail.v[-1].view(tasks, k))


class _Moves:
    """What U's own moves add to the backward pass: the sums over earlier steps j in the lines for r_s and g_s."""

    def __init__(self, trail: _Trail, by_residual: Tensor) -> None:
        rates = trail.layer.rates_U
        assert rates is not None
        self.trail, self.rates, self.by_residual = trail, rates, by_residual
        self.by_rates = torch.zeros_like(rates)
        self.by_v: list[Tensor | float] = [0.0] * len(trail.Kr)
        self.by_r: list[Tensor | float] = [0.0] * len(trail.Kr)

    def from_query(self) -> Tensor:
        """What the query adds to the last filter's gradient; what it adds to earlier steps is kept for these."""
        trail = self.trail
        tasks, m, _ = trail.sizes
        assert trail.to_query is not None
        back = (trail.to_query.mT @ self.by_residual.view(tasks, -1, m)).view(tasks, 1, -1)
        return self._through(len(trail.Kr), back, [_dot(back, r) for r in trail.r[:-1]])

    def through_step(self, s: int, by_v: Tensor, by_r: Tensor, by_h: Tensor) -> tuple[Tensor, Tensor]:
        """The gradients by v_s and r_s, with what the sums of step s add to them."""
        trail, c = self.trail, self.trail.c
        tasks, m, _ = trail.sizes
        by_r = by_r + self.by_r[s]
        for j in range(s):
            met = c * _dot(trail.v[j], by_h)
            product = _dot(trail.Kr[j], trail.r[s])
            self.by_rates[j] -= (product * met).sum()
            by_product = -self.rates[j] * met
            by_r = by_r + by_product * trail.Kr[j]
            self.by_r[j] = self.by_r[j] + by_product * trail.Kr[s]
            self.by_v[j] = self.by_v[j] - c * self.rates[j] * product * by_h
        if s == 0:
            return by_v + self.by_v[0], by_r
        assert trail.gram is not None
        back = (trail.gram @ by_r.view(tasks, -1, m)).view(tasks, 1, -1)
        added = self._through(s, back, [_dot(by_r, Kr) for Kr in trail.Kr[:s]])
        return by_v + added + self.by_v[s], by_r

    def _through(self, s: int, back: Tensor, met: list[Tensor]) -> Tensor:
        """Back through ``- c sum_j a_j (v_j . v_s) K r_j``: ``met`` is the gradient's product with each K r_j."""
        trail, c = self.trail, self.trail.c
        now = trail.v[s]
        total = torch.zeros_like(now)
        for j in range(s):
            dot = _dot(trail.v[j], now)
            self.by_rates[j] -= c * (dot * met[j]).sum()
            by_dot = -c * self.rates[j] * met[j]
            total = total + by_dot * trail.v[j]
            if not trail.first_order:  # there, v_j and r_j count as constants
                self.by_v[j] = self.by_v[j] + by_dot * now
                self.by_r[j] = self.by_r[j] - c * self.rates[j] * dot * back
        return total


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """The product of each task's rows, ``[tasks, 1, 1]``."""
    return (a * b).sum(2, keepdim=True)
