"""The layers of a chain, each with its derivative and the tangents of both.

A stage is a function ``y = f(x, p)`` of activations and of parameters (effective ones: the weight W itself, not what
it is made from). Besides y it gives the gradients ``(dx, dp) = f'(x, p)^T dy``, and, along a direction ``(tx, tp)``,
the tangents ``ty`` of y and ``(tdx, tdp)`` of the gradients. Run forwards and backwards through all stages this
is the product of the Hessian with a vector, at about three times the cost of the gradient and without a graph of
the gradient's own computation. Images are ``[examples, height, width, channels]`` between stages. ``tx`` is None
where nothing before has a direction; ``dx`` is None where nothing before has parameters.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call

from metasym.engines import kernels
from metasym.types import Params


class Step(NamedTuple):
    """What one stage did to one batch: its output, and whatever its other functions need of it."""

    y: Tensor
    kept: Any


class Stage(ABC):
    """A layer or several fused ones. ``names`` are its effective parameters."""

    names: tuple[str, ...]

    @abstractmethod
    def forward(self, x: Tensor, p: Params, *, graph: bool) -> Step:
        """The output; ``graph`` says whether gradients will be asked for."""

    @abstractmethod
    def backward(
        self, step: Step, p: Params, dy: Tensor, *, inputs: bool, keep: bool
    ) -> tuple[Tensor | None, Params, Any]:
        """``dx`` (where ``inputs``), the gradients of the parameters, and (where ``keep``) what tangents need."""

    @abstractmethod
    def tangent(self, step: Step, p: Params, tx: Tensor | None, tp: Params) -> tuple[Tensor | None, Any]:
        """``ty`` (None for zero), and what ``tangent_backward`` needs."""

    @abstractmethod
    def tangent_backward(
        self, step: Step, p: Params, tp: Params, back: Any, along: Any, tdy: Tensor, *, inputs: bool
    ) -> tuple[Tensor | None, Params]:
        """``tdx`` (where ``inputs``) and the tangents of the parameters' gradients."""


class NormPool(Stage):
    """Batch norm with the batch's statistics, then ReLU and max-pooling where they follow: fused kernels."""

    def __init__(self, scale: str, shift: str, *, eps: float, relu: bool, pool: int, shared: int = 1) -> None:
        self.names = (scale, shift)
        self.scale, self.shift, self.eps, self.relu, self.pool = scale, shift, eps, relu, pool
        self.shared = shared
        """This many channels in a row share one mean, deviation, scale and shift."""

    def forward(self, x: Tensor, p: Params, *, graph: bool) -> Step:
        """One pass for the statistics, one for the rest."""
        done = kernels.forward(
            x, p[self.scale], p[self.shift], eps=self.eps, relu=self.relu, pool=self.pool, shared=self.shared
        )
        return Step(done.y, done)

    def backward(
        self, step: Step, p: Params, dy: Tensor, *, inputs: bool, keep: bool
    ) -> tuple[Tensor | None, Params, Any]:
        """The kernel gives all of it at once."""
        dx, dscale, dshift = kernels.backward(step.kept, p[self.scale], dy)
        return dx, {self.scale: dscale, self.shift: dshift}, (dy, dscale, dshift)

    def tangent(self, step: Step, p: Params, tx: Tensor | None, tp: Params) -> tuple[Tensor | None, Any]:
        """Zero where neither the input nor scale and shift move."""
        if tx is None and not tp:
            return None, None
        tscale, tshift = self._directions(p, tp)
        along = kernels.tangent(step.kept, p[self.scale], tx, tscale, tshift)
        return along.y, along

    def tangent_backward(
        self, step: Step, p: Params, tp: Params, back: Any, along: Any, tdy: Tensor, *, inputs: bool
    ) -> tuple[Tensor | None, Params]:
        """Where nothing moves, dx and the rest are linear in dy alone."""
        if along is None:
            tdx, tdscale, tdshift = kernels.backward(step.kept, p[self.scale], tdy)
        else:
            tscale, _ = self._directions(p, tp)
            tdx, tdscale, tdshift = kernels.tangent_backward(
                step.kept, along, p[self.scale], tscale, back, tdy
            )
        return tdx, {self.scale: tdscale, self.shift: tdshift}

    def _directions(self, p: Params, tp: Params) -> tuple[Tensor, Tensor]:
        zero = torch.zeros_like(p[self.scale])
        return tp.get(self.scale, zero).contiguous(), tp.get(self.shift, zero).contiguous()


class Linear(Stage):
    """``y = x W^T + b`` for ``x [examples, features]``."""

    def __init__(self, weight: str, bias: str | None) -> None:
        self.names = (weight,) if bias is None else (weight, bias)
        self.weight, self.bias = weight, bias

    def forward(self, x: Tensor, p: Params, *, graph: bool) -> Step:
        """One product."""
        return Step(F.linear(x, p[self.weight], None if self.bias is None else p[self.bias]), x)

    def backward(
        self, step: Step, p: Params, dy: Tensor, *, inputs: bool, keep: bool
    ) -> tuple[Tensor | None, Params, Any]:
        """Two products."""
        dp = {self.weight: dy.T @ step.kept}
        if self.bias is not None:
            dp[self.bias] = dy.sum(0)
        return dy @ p[self.weight] if inputs else None, dp, dy

    def tangent(self, step: Step, p: Params, tx: Tensor | None, tp: Params) -> tuple[Tensor | None, Any]:
        """``x tW^T + tx W^T + tb``."""
        parts = []
        if self.weight in tp:
            parts.append(step.kept @ tp[self.weight].T)
        if tx is not None:
            parts.append(tx @ p[self.weight].T)
        if self.bias in tp:
            parts.append(tp[self.bias].expand_as(step.y))
        return sum(parts[1:], parts[0]) if parts else None, tx

    def tangent_backward(
        self, step: Step, p: Params, tp: Params, back: Any, along: Any, tdy: Tensor, *, inputs: bool
    ) -> tuple[Tensor | None, Params]:
        """The product rule."""
        tdW = tdy.T @ step.kept
        tdp = {self.weight: tdW if along is None else tdW + back.T @ along}
        if self.bias is not None:
            tdp[self.bias] = tdy.sum(0)
        tdx = None
        if inputs:
            tdx = tdy @ p[self.weight]
            if self.weight in tp:
                tdx = tdx + back @ tp[self.weight]
        return tdx, tdp


class Anything(Stage):
    """Any other module or function, through autograd: run once, so that even random layers stay consistent.

    It sees images as ``[examples, channels, height, width]``; what it makes of them may have any shape.
    """

    def __init__(self, function: nn.Module | Callable[[Tensor], Tensor], names: dict[str, str]) -> None:
        self.function, self.inside = function, names
        """The module's own parameter names, by the model's."""
        self.names = tuple(names)

    def forward(self, x: Tensor, p: Params, *, graph: bool) -> Step:
        """With a graph of its own, from leaves of its own."""
        image = x.permute(0, 3, 1, 2) if x.ndim == 4 else x
        if not graph:
            y = self._run(image, p)
            return Step(_channels_last(y), None)
        with torch.enable_grad():
            leaf = image.detach().requires_grad_()
            own = {n: p[n].detach().requires_grad_() for n in self.names}
            y = self._run(leaf, own)
        return Step(_channels_last(y.detach()), (leaf, own, y))

    def backward(
        self, step: Step, p: Params, dy: Tensor, *, inputs: bool, keep: bool
    ) -> tuple[Tensor | None, Params, Any]:
        """Autograd's, with a graph for the tangents."""
        leaf, own, y = step.kept
        with torch.enable_grad():
            up = _channels_first(dy).detach().requires_grad_()
            found = self._gradients(y, (leaf, own), up, graph=keep)
        dx, *dp = (g.detach() for g in found)
        return _channels_last(dx) if inputs else None, dict(zip(self.names, dp, strict=True)), (up, found)

    def tangent(self, step: Step, p: Params, tx: Tensor | None, tp: Params) -> tuple[Tensor | None, Any]:
        """The derivative, along the direction, of a derivative that is linear in its argument."""
        if tx is None and not tp:
            return None, None
        leaf, own, y = step.kept
        moves = self._moves(step, tx, tp)
        with torch.enable_grad():
            probe = torch.zeros_like(y).requires_grad_()
            found = self._gradients(y, (leaf, own), probe, graph=True)
            if not any(g.requires_grad for g in found):
                return None, moves
            (ty,) = torch.autograd.grad(found, probe, moves, retain_graph=True, allow_unused=True)
        return None if ty is None else _channels_last(ty), moves

    def tangent_backward(
        self, step: Step, p: Params, tp: Params, back: Any, along: Any, tdy: Tensor, *, inputs: bool
    ) -> tuple[Tensor | None, Params]:
        """``f'^T tdy``, and the gradient of the inner product of f'^T dy with the direction."""
        leaf, own, y = step.kept
        _, found = back
        parts = [
            g.detach() for g in self._gradients(y, (leaf, own), _channels_first(tdy), graph=False, keep=True)
        ]
        if along is not None and any(g.requires_grad for g in found):
            with torch.enable_grad():
                product = sum((g * move).sum() for g, move in zip(found, along, strict=True))
            if isinstance(product, Tensor) and product.requires_grad:
                more = torch.autograd.grad(
                    product, [leaf, *own.values()], retain_graph=True, allow_unused=True
                )
                parts = [a if b is None else a + b for a, b in zip(parts, more, strict=True)]
        tdx, *tdp = parts
        return _channels_last(tdx) if inputs else None, dict(zip(self.names, tdp, strict=True))

    def _run(self, image: Tensor, p: Params) -> Tensor:
        if not isinstance(self.function, nn.Module):
            return self.function(image)
        own = {inside: p[name] for name, inside in self.inside.items()}
        y: Tensor = functional_call(self.function, own, (image,))
        return y

    def _gradients(
        self, y: Tensor, at: tuple[Tensor, Params], dy: Tensor, *, graph: bool, keep: bool = False
    ) -> list[Tensor]:
        leaves = [at[0], *at[1].values()]
        found = torch.autograd.grad(
            y, leaves, dy, create_graph=graph, retain_graph=graph or keep, allow_unused=True
        )
        return [torch.zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]

    def _moves(self, step: Step, tx: Tensor | None, tp: Params) -> list[Tensor]:
        leaf, own, _ = step.kept
        first = torch.zeros_like(leaf) if tx is None else _channels_first(tx)
        return [first, *(tp.get(n, torch.zeros_like(own[n])) for n in self.names)]


def _channels_last(t: Tensor) -> Tensor:
    return t.permute(0, 2, 3, 1).contiguous() if t.ndim == 4 else t.contiguous()


def _channels_first(t: Tensor) -> Tensor:
    return t.permute(0, 3, 1, 2) if t.ndim == 4 else t
