"""How a convolution's weight follows from what adapts, ``M = M_0 + theta B``, and the way back, for all tasks.

B ``[entries, out p]`` holds the weights of the unit filters, the same for all tasks. Where v alone adapts and U is a
Kronecker product, B is never formed: ``M = U_out V R^T`` with R the product of U_in and U_space, a tenth of the
multiply-adds at the paper's sizes. All in float64, and without autograd but for parameters that M depends on in
other ways.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from metasym.gram import FIRST_SYMMETRY, ConvolutionPredictor
from metasym.symmetry import KroneckerSymmetry
from metasym.types import Params

Pair = tuple[Tensor, Tensor]
"""``theta [tasks, entries]`` and a gradient by the weight that it makes, ``[tasks, out, p]``."""


class Spread(ABC):
    """The affine map from ``theta [tasks, entries]`` to weights ``M [tasks, out, p]``, of which p may hold a bias."""

    @abstractmethod
    def weights(self, theta: Tensor) -> Tensor:
        """``M_0 + theta B``."""

    @abstractmethod
    def directions(self, theta: Tensor) -> Tensor:
        """``theta B``."""

    @abstractmethod
    def gather(self, G: Tensor) -> Tensor:
        """A gradient by the weights as one by theta: ``G B^T [tasks, entries]``."""

    @abstractmethod
    def pull_back(self, pairs: list[Pair], by_offset: Tensor) -> Params:
        """The gradient by what B and M_0 are made of, by the model's names of it.

        B's gradient is the sum of all outer products of a pair's rows, ``by_offset [out, p]`` that of M_0.
        """


def spread_of(predict: ConvolutionPredictor, inner: Params) -> Spread:
    """The map of a convolution that is linear in ``inner``; U is read here, and not again."""
    U = predict.symmetry(inner)
    if not isinstance(U, KroneckerSymmetry):
        return _Dense(predict, inner)
    names = [f"{FIRST_SYMMETRY}.{name}" for name, _ in U.named_parameters()]
    # Factors that are one tensor have one name; what they are made of sums up by itself in autograd alone.
    return (
        _Kronecker(U)
        if len(names) in (0, 3) and all(n in predict.params for n in names)
        else _Dense(predict, inner)
    )


class _Dense(Spread):
    """B whole; its own dependence on parameters, and that of M_0, are left to autograd."""

    def __init__(self, predict: ConvolutionPredictor, inner: Params) -> None:
        self._others = {n: p for n, p in predict.params.items() if n not in inner and p.requires_grad}
        with torch.set_grad_enabled(bool(self._others)):
            self._made = predict.basis(inner)
        self._B, self._offset = (t.detach() for t in self._made)

    def weights(self, theta: Tensor) -> Tensor:
        return self.directions(theta) + self._offset

    def directions(self, theta: Tensor) -> Tensor:
        return (theta @ self._B).view(-1, *self._offset.shape)

    def gather(self, G: Tensor) -> Tensor:
        return G.flatten(1) @ self._B.mT

    def pull_back(self, pairs: list[Pair], by_offset: Tensor) -> Params:
        thetas, gradients = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        by_made = (thetas.mT @ gradients.flatten(1), by_offset)
        made = [(t, by) for t, by in zip(self._made, by_made, strict=True) if t.requires_grad]
        if not made:
            return {}
        found = torch.autograd.grad(
            [t for t, _ in made], list(self._others.values()), [by for _, by in made], allow_unused=True
        )
        return {name: g for name, g in zip(self._others, found, strict=True) if g is not None}


class _Kronecker(Spread):
    """``M = U_out V R^T`` with ``R = U_in (x) U_space [p, r]``, V ``[k, r]``."""

    def __init__(self, U: KroneckerSymmetry) -> None:
        self._learned = U.learnable
        out, self._in, self._space = (factor.detach().double() for factor in U.factors)
        self._out, self._R = out, torch.kron(self._in, self._space)

    def weights(self, theta: Tensor) -> Tensor:
        return self.directions(theta)

    def directions(self, theta: Tensor) -> Tensor:
        return self._out @ (self._filters(theta) @ self._R.mT)

    def gather(self, G: Tensor) -> Tensor:
        return ((self._out.mT @ G) @ self._R).flatten(1)

    def pull_back(self, pairs: list[Pair], by_offset: Tensor) -> Params:
        if not self._learned:
            return {}
        theta, G = (torch.cat(parts) for parts in zip(*pairs, strict=True))
        V = self._filters(theta)
        by_out = _joined(G) @ _joined(V @ self._R.mT).mT
        by_R = (self._out.mT @ G).flatten(0, 1).mT @ V.flatten(0, 1)
        (a, b), (s, t) = self._in.shape, self._space.shape
        by_R = by_R.view(a, s, b, t).transpose(1, 2).reshape(a * b, s * t)
        by_in, by_space = by_R @ self._space.reshape(-1), self._in.reshape(-1) @ by_R
        found = (by_out, by_in.view(a, b), by_space.view(s, t))
        return {f"{FIRST_SYMMETRY}.U{i + 1}": g for i, g in enumerate(found)}

    def _filters(self, theta: Tensor) -> Tensor:
        return theta.view(len(theta), self._out.shape[1], self._R.shape[1])


def _joined(T: Tensor) -> Tensor:
    """``[tasks, rows, n]`` as ``[rows, tasks n]``."""
    return T.transpose(0, 1).flatten(1)
