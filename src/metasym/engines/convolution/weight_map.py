"""How a convolution's weight follows from what adapts, ``M = M_0 + theta B``, and the gradients back through it.

B ``[entries, out p]`` holds the weights of the unit filters, the same for all tasks. Where v alone adapts and U is a
Kronecker product, B is never formed: ``M = U_out V R^T`` with R the product of U_in and U_space, a tenth of the
multiply-adds at the paper's sizes. Everything is in float64. Autograd is used only for parameters on which M depends
in other ways.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from metasym.engines.convolution.moments import ConvolutionPredictor
from metasym.symmetry.matrices import KroneckerSymmetry
from metasym.symmetry.parametrized import SYMMETRY
from metasym.types import Params


class Weights(NamedTuple):
    """What :meth:`WeightMap.weights` makes of theta, and what the backward pass needs of it."""

    theta: Tensor
    """``[tasks, entries]``."""
    half: Tensor | None
    """``R V^T [tasks, p, k]``, where U is a Kronecker product."""
    Mt: Tensor
    """``(theta B)^T [tasks, p, out]``: outputs last, so that tasks and p together are the rows of one product."""


class WeightGradients(NamedTuple):
    """What :meth:`WeightMap.pull` makes of a gradient by the weights, and what the backward pass needs of it."""

    Gt: Tensor
    """``[tasks, p, out]``."""
    half: Tensor | None
    """``U_out^T G [tasks, k, p]``, where U is a Kronecker product."""
    by_theta: Tensor
    """``G B^T [tasks, entries]``."""


class WeightMap(ABC):
    """The affine map from ``theta [tasks, entries]`` to weights ``M [tasks, out, p]``, where p may include a bias."""

    offset: Tensor | None
    """``M_0^T [p, out]``, where it is not zero."""

    @abstractmethod
    def weights(self, theta: Tensor) -> Weights:
        """``theta B``."""

    @abstractmethod
    def pull(self, Gt: Tensor) -> WeightGradients:
        """Turns a gradient by the weights into one by theta."""

    @abstractmethod
    def pull_back(self, uses: list[tuple[Weights, WeightGradients]], by_offset: Tensor) -> Params:
        """The gradient by the parameters that B and M_0 are made of, under their names in the model.

        B's gradient is the sum of the outer products ``theta^T G`` of all ``uses``; ``by_offset [p, out]`` is the
        gradient by M_0^T.
        """


def weight_map_of(predict: ConvolutionPredictor, inner: Params) -> WeightMap:
    """The map of a convolution that is linear in ``inner``; U is read here, and not again."""
    U = predict.symmetry(inner)
    if isinstance(U, KroneckerSymmetry):
        names = [f"{SYMMETRY}.{name}" for name, _ in U.named_parameters()]
        # Factors that are one tensor have one name: their gradients are left to autograd, which adds them up.
        if len(names) in (0, 3) and all(name in predict.params for name in names):
            return _Kronecker(U)
    return _Dense(predict, inner)


class _Dense(WeightMap):
    """B whole; its own dependence on parameters, and that of M_0, are left to autograd."""

    def __init__(self, predict: ConvolutionPredictor, inner: Params) -> None:
        self._others = {n: p for n, p in predict.params.items() if n not in inner and p.requires_grad}
        with torch.set_grad_enabled(bool(self._others)):
            self._made = predict.basis(inner)
        self._B, offset = (t.detach() for t in self._made)
        self._shape = offset.shape
        self.offset = offset.mT

    def weights(self, theta: Tensor) -> Weights:
        return Weights(theta, None, (theta @ self._B).view(-1, *self._shape).mT)

    def pull(self, Gt: Tensor) -> WeightGradients:
        return WeightGradients(Gt, None, Gt.mT.flatten(1) @ self._B.mT)

    def pull_back(self, uses: list[tuple[Weights, WeightGradients]], by_offset: Tensor) -> Params:
        theta = torch.cat([weights.theta for weights, _ in uses])
        G = torch.cat([pulled.Gt.mT.flatten(1) for _, pulled in uses])
        by_made = (theta.mT @ G, by_offset.mT)
        made = [(t, by) for t, by in zip(self._made, by_made, strict=True) if t.requires_grad]
        if not made:
            return {}
        found = torch.autograd.grad(
            [t for t, _ in made], list(self._others.values()), [by for _, by in made], allow_unused=True
        )
        return {name: g for name, g in zip(self._others, found, strict=True) if g is not None}


class _Kronecker(WeightMap):
    """``M = U_out V R^T`` with ``R = U_in (x) U_space [p, r]``, V ``[k, r]``."""

    offset = None

    def __init__(self, U: KroneckerSymmetry) -> None:
        self._learned = U.learnable
        self._out, self._in, self._space = (factor.detach().double() for factor in U.factors)
        self._R = torch.kron(self._in, self._space)

    def weights(self, theta: Tensor) -> Weights:
        k, (p, r) = self._out.shape[1], self._R.shape
        half = (theta.view(-1, r) @ self._R.mT).view(-1, k, p).mT.contiguous()
        return Weights(theta, half, (half.view(-1, k) @ self._out.mT).view(-1, p, self._out.shape[0]))

    def pull(self, Gt: Tensor) -> WeightGradients:
        (m, k), p = self._out.shape, len(self._R)
        half = (Gt.reshape(-1, m) @ self._out).view(-1, p, k).mT.contiguous()
        return WeightGradients(Gt, half, (half.view(-1, p) @ self._R).view(len(Gt), -1))

    def pull_back(self, uses: list[tuple[Weights, WeightGradients]], by_offset: Tensor) -> Params:
        if not self._learned:
            return {}
        (m, k), (p, r) = self._out.shape, self._R.shape
        G, weight_half = (
            _rows(parts, n) for parts, n in (([b.Gt for _, b in uses], m), ([f.half for f, _ in uses], k))
        )
        V, gradient_half = (
            _rows(parts, n) for parts, n in (([f.theta for f, _ in uses], r), ([b.half for _, b in uses], p))
        )
        (a, b), (s, t) = self._in.shape, self._space.shape
        by_R = (gradient_half.mT @ V).view(a, s, b, t).transpose(1, 2).reshape(a * b, s * t)
        by_in, by_space = by_R @ self._space.reshape(-1), self._in.reshape(-1) @ by_R
        found = (G.mT @ weight_half, by_in.view(a, b), by_space.view(s, t))
        return {f"{SYMMETRY}.U{i + 1}": g for i, g in enumerate(found)}


def _rows(parts: Sequence[Tensor | None], columns: int) -> Tensor:
    return torch.cat([part.reshape(-1, columns) for part in parts if part is not None])
