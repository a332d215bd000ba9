"""The convolutions of a chain: torch's own, by products with the patches, or by Winograd's algorithm.

See ``differentiable_layers`` for what a stage is. Which way a layer goes is decided by its shape and, for Winograd's
algorithm, by the ``convolve`` decision of the plan (see :mod:`metasym.engines.plan`).
"""

from __future__ import annotations

import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.engines.kernels.winograd import SIDES, convolution_gradients, convolve
from metasym.engines.layerwise.differentiable_layers import Stage, Step
from metasym.types import Params

_FEW_INPUTS = 32
"""With up to this many entries of a patch, a product with the patches beats torch's convolution (measured: 9, 27)."""


class Convolution(Stage):
    """A Conv2d with zero padding. A bias before a batch norm changes nothing and has no gradient."""

    def __init__(self, layer: nn.Conv2d, weight: str, bias: str | None, *, before_norm: bool) -> None:
        assert not isinstance(layer.padding, str)
        self.names = (weight,) if bias is None else (weight, bias)
        self.weight, self.bias, self.before_norm = weight, bias, before_norm
        self.stride, self.padding, self.dilation = layer.stride, layer.padding, layer.dilation
        self.kernel = layer.kernel_size
        entries = layer.in_channels * self.kernel[0] * self.kernel[1]
        self.by_patches = entries <= _FEW_INPUTS
        self.filterable = (
            self.kernel in [(side, side) for side in SIDES]
            and self.stride == self.dilation == (1, 1)
            and self.padding[0] == self.padding[1] < self.kernel[0]
            and not self.by_patches
        )
        """Whether Winograd's algorithm knows the layer."""
        self.winograd = False

    def by(self, way: str) -> Convolution:
        """The same stage with ``"winograd"`` for its algorithm where that knows it, or ``"direct"``."""
        found = copy.copy(self)
        found.winograd = self.filterable and way == "winograd"
        return found

    def forward(self, x: Tensor, p: Params, *, graph: bool) -> Step:
        """By a product with the patches where a patch is small."""
        patches = self._patches(x) if self.by_patches else None
        y = self._apply(x, patches, p[self.weight])
        if self.bias is not None and not self.before_norm:
            y = y + p[self.bias]
        return Step(y, (x, patches))

    def backward(
        self, step: Step, p: Params, dy: Tensor, *, inputs: bool, keep: bool
    ) -> tuple[Tensor | None, Params, Any]:
        """The two halves of torch's own derivative, or a product with the patches."""
        x, W = step.kept[0], p[self.weight]
        if self.winograd:
            dx, dW = convolution_gradients(x, W, dy, self.padding[0], inputs=inputs, weight=True)
            assert dW is not None
        else:
            dx, dW = self._by_input(x, W, dy) if inputs else None, self._by_weight(step, W, dy)
        dp = {self.weight: dW}
        if self.bias is not None:
            dp[self.bias] = self._by_bias(dy)
        return dx, dp, dy

    def tangent(self, step: Step, p: Params, tx: Tensor | None, tp: Params) -> tuple[Tensor | None, Any]:
        """``conv(x, tW) + conv(tx, W) + tb``."""
        x, patches = step.kept
        ty = None
        if self.weight in tp:
            ty = self._apply(x, patches, tp[self.weight])
        tpatches = None
        if tx is not None:
            tpatches = self._patches(tx) if self.by_patches else None
            ty = self._apply(tx, tpatches, p[self.weight], onto=ty)
        if self.bias in tp and not self.before_norm:
            ty = tp[self.bias].expand_as(step.y) if ty is None else ty + tp[self.bias]
        return ty, Step(step.y, (tx, tpatches))

    def tangent_backward(
        self, step: Step, p: Params, tp: Params, back: Any, along: Any, tdy: Tensor, *, inputs: bool
    ) -> tuple[Tensor | None, Params]:
        """The product rule on both halves of ``backward``."""
        W, dy = p[self.weight], back
        if self.winograd:
            tdx, tdW = self._twice(step, W, tp.get(self.weight), dy, along, tdy, inputs=inputs)
        else:
            tdx, tdW = self._tangents(step, W, tp.get(self.weight), dy, along, tdy, inputs=inputs)
        tdp = {self.weight: tdW}
        if self.bias is not None:
            tdp[self.bias] = self._by_bias(tdy)
        return tdx, tdp

    def _tangents(
        self, step: Step, W: Tensor, tW: Tensor | None, dy: Tensor, along: Step, tdy: Tensor, *, inputs: bool
    ) -> tuple[Tensor | None, Tensor]:
        tdW = self._by_weight(step, W, tdy)
        if along.kept[0] is not None:
            tdW = tdW + self._by_weight(along, W, dy)
        tdx = None
        if inputs:
            tdx = self._by_input(step.kept[0], W, tdy)
            if tW is not None:
                tdx = tdx + self._by_input(step.kept[0], tW, dy)
        return tdx, tdW

    def _twice(
        self, step: Step, W: Tensor, tW: Tensor | None, dy: Tensor, along: Step, tdy: Tensor, *, inputs: bool
    ) -> tuple[Tensor | None, Tensor]:
        """The same by Winograd's algorithm, which gives both gradients at once and adds to them."""
        x, tx = step.kept[0], along.kept[0]
        found = convolution_gradients(x, W, tdy, self.padding[0], inputs=inputs, weight=True)
        second = inputs and tW is not None
        if second or tx is not None:
            moved = (x if tx is None else tx), (W if tW is None else tW)
            convolution_gradients(
                *moved, dy, self.padding[0], inputs=second, weight=tx is not None, onto=found
            )
        tdx, tdW = found
        assert tdW is not None
        return tdx, tdW

    def _apply(self, x: Tensor, patches: Tensor | None, W: Tensor, onto: Tensor | None = None) -> Tensor:
        """The convolution without its bias, added to ``onto`` in place where that is given."""
        if self.winograd:
            return convolve(x, W, self.padding[0], onto)
        if patches is None:
            y = F.conv2d(x.permute(0, 3, 1, 2), W, None, self.stride, self.padding, self.dilation)
            y = y.permute(0, 2, 3, 1).contiguous()
        else:
            height, width = self._places(x)
            y = (patches.T @ W.flatten(1).T).view(x.shape[0], height, width, W.shape[0])
        return y if onto is None else onto.add_(y)

    def _by_weight(self, step: Step, W: Tensor, dy: Tensor) -> Tensor:
        x, patches = step.kept
        if patches is not None:
            product: Tensor = patches @ dy.flatten(0, 2)
            return product.T.reshape(W.shape)
        found: Tensor = self._derivative(x, W, dy, (False, True, False))[1]
        return found

    def _by_input(self, x: Tensor, W: Tensor, dy: Tensor) -> Tensor:
        found: Tensor = self._derivative(x, W, dy, (True, False, False))[0]
        return found.permute(0, 2, 3, 1).contiguous()

    def _by_bias(self, dy: Tensor) -> Tensor:
        return dy.new_zeros(dy.shape[-1]) if self.before_norm else dy.sum((0, 1, 2))

    def _derivative(self, x: Tensor, W: Tensor, dy: Tensor, wanted: tuple[bool, bool, bool]) -> Any:
        return torch.ops.aten.convolution_backward(
            dy.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), W, None, self.stride, self.padding, self.dilation,
            False, (0, 0), 1, wanted,
        )  # fmt: skip

    def _places(self, x: Tensor) -> tuple[int, int]:
        found = [
            (x.shape[1 + i] + 2 * self.padding[i] - self.dilation[i] * (self.kernel[i] - 1) - 1)
            // self.stride[i]
            + 1
            for i in range(2)
        ]
        return found[0], found[1]

    def _patches(self, x: Tensor) -> Tensor:
        """``[entries of a patch, examples * places]``, entries in the order of the weight's."""
        height, width = self._places(x)
        vertical, horizontal = self.padding
        x = F.pad(x.permute(3, 0, 1, 2), (horizontal, horizontal, vertical, vertical))
        views = [
            x[
                :,
                :,
                i * self.dilation[0] : i * self.dilation[0] + (height - 1) * self.stride[0] + 1 : self.stride[
                    0
                ],
                j * self.dilation[1] : j * self.dilation[1] + (width - 1) * self.stride[1] + 1 : self.stride[
                    1
                ],
            ]
            for i in range(self.kernel[0])
            for j in range(self.kernel[1])
        ]
        return torch.stack(views, dim=1).flatten(0, 1).flatten(1)
