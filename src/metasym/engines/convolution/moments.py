"""The squared loss of one convolution from the patches' second moments.

A convolution is linear in its weight ``M [out, p]`` (p the entries of a patch, one more with a bias): with P
the patches ``[rows, p]`` and Y the targets ``[rows, out]``, ``|P M^T - Y|^2 = <M S, M> - 2 <M, C> + |Y|^2`` with
``S = P^T P`` and ``C = Y^T P``. An image has many more patches than a patch has entries, and S and C depend on the
data alone. They are computed once for each task; every loss, gradient and second derivative is then a product of
tiny matrices, whatever the size of the image.

The three terms cancel where the prediction is good, so all of them are held in float64: the loss is then
right to 1e-16 of ``|Y|^2``, better than a float32 prediction gives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from metasym.adaptation.functional import (
    ModelPredictor,
    NormalEquations,
    check_shapes,
    flatten,
    full_precision,
    is_squared,
    unflatten,
)
from metasym.engines.kernels.patch_moments import KERNEL, adds_blocks, patch_moments
from metasym.symmetry.matrices import Symmetry
from metasym.symmetry.parametrized import FILTER, is_filter, list_of, lists_of, plain_type
from metasym.types import Batch, Loss, Params

_LIST = FILTER.rpartition(".")[0]


class ConvolutionPredictor(ModelPredictor):
    """A model that is one Conv2d, plain or reparameterized."""

    def __init__(self, model: nn.Conv2d, params: Params, *, linear: bool) -> None:
        super().__init__(model, params)
        self.layer = model
        self.linear = linear
        """Whether the weight is linear in what adapts; it is not where U adapts together with v."""

    def loss_at(self, data: Batch, loss: Loss, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The squared loss from second moments; any other loss from the prediction."""
        if not is_squared(loss) or not self.pays(data.x.shape):
            return super().loss_at(data, loss, evaluations=evaluations)
        S, C, square = self._moments(data)
        entries = data.y.numel()

        def squared(inner: Params) -> Tensor:
            exact = self.matrix(inner)
            M = exact.double()
            value = ((M @ S * M).sum() - 2 * (M * C).sum() + square) / entries
            # Rounding may push a loss of zero below zero; its gradient is still right and is kept.
            return (value + (-value.detach()).clamp_min(0)).to(exact.dtype)

        return squared

    def normal_equations(self, inner: Params, data: Batch) -> NormalEquations:
        """``J^T J = B (S) B^T`` with B the weights of the unit filters, the same for all tasks."""
        if not self.linear or not self.pays(data.x.shape):
            return super().normal_equations(inner, data)
        S, C, square = self._moments(data)
        start = flatten(inner)
        units = torch.eye(start.numel(), dtype=start.dtype, device=start.device)
        zero = self.matrix(unflatten(inner, torch.zeros_like(start))).double()
        B = vmap(lambda unit: self.matrix(unflatten(inner, unit)))(units).double() - zero
        M = self.matrix(inner).double()
        flat = B.reshape(len(units), -1)
        error = C - M @ S
        gram = (B @ S).reshape(len(units), -1) @ flat.mT
        squared = square - 2 * (M * C).sum() + (M @ S * M).sum()
        return NormalEquations(gram, flat @ error.reshape(-1), None, data.y.numel(), squared.clamp_min(0))

    def pays(self, shape: Sequence[int]) -> bool:
        """Whether inputs ``[examples, ...]`` of this shape have more patches than a patch has entries.

        Otherwise the moments are larger than the data.
        """
        if len(shape) != 4:
            return False
        height, width = self._places(shape)
        enough = shape[0] * height * width >= self.weight_entries // self.layer.out_channels
        return min(height, width) > 0 and enough

    @property
    def weight_entries(self) -> int:
        """Entries of the layer's weight, counted without ``layer.weight``, which would build it from U and v."""
        layer = self.layer
        return layer.out_channels * layer.in_channels * math.prod(layer.kernel_size)

    def _places(self, shape: Sequence[int]) -> tuple[int, int]:
        """Height and width of the output."""
        layer = self.layer
        padding = layer.padding
        assert not isinstance(padding, str)
        found = []
        for i in range(2):
            reach = layer.dilation[i] * (layer.kernel_size[i] - 1) + 1
            found.append((shape[i - 2] + 2 * padding[i] - reach) // layer.stride[i] + 1)
        return found[0], found[1]

    def matrix(self, inner: Params) -> Tensor:
        """The weight as a matrix ``[out, p]``, its last column the bias where there is one."""
        params = {**self.params, **inner}
        if "weight" in params:
            W = params["weight"]
        else:
            own = {n.removeprefix(f"{_LIST}."): p for n, p in params.items() if n.startswith(_LIST)}
            with full_precision(next(iter(params.values()))):
                W = functional_call(list_of(self.layer), own, ())
        M = W.reshape(W.shape[0], -1)
        return M if "bias" not in params else torch.cat([M, params["bias"].unsqueeze(1)], dim=1)

    def basis(self, inner: Params) -> tuple[Tensor, Tensor]:
        """``B [entries of inner, out p]`` and ``M_0 [out, p]``, float64, with the weight ``M_0 + theta B``.

        Where v alone adapts B is U itself, built in one product; elsewhere the weights of the unit filters.
        """
        U = self.symmetry(inner)
        if U is not None:
            B = U.matrix().mT.double()
            return B, B.new_zeros(self.layer.out_channels, B.shape[1] // self.layer.out_channels)
        start = flatten(inner)
        units = torch.eye(start.numel(), dtype=start.dtype, device=start.device)
        zero = self.matrix(unflatten(inner, torch.zeros_like(start)))
        made = vmap(lambda unit: self.matrix(unflatten(inner, unit)))(units)
        return (made - zero).double().flatten(1), zero.double()

    def symmetry(self, inner: Params) -> Symmetry | None:
        """The layer's U, if only v adapts, there is no bias, and the given parameters are the layer's own."""
        own = dict(self.layer.named_parameters())
        if list(inner) != [FILTER] or "bias" in own:
            return None
        chain = list_of(self.layer)
        live = all(self.params[name] is p for name, p in own.items())
        return chain[0] if live and len(chain) == 1 and isinstance(chain[0], Symmetry) else None

    def moments(self, data: Batch, *, exact: bool = True) -> tuple[Tensor, Tensor, Tensor]:
        """``S [tasks, p, p]``, ``C [tasks, out, p]`` and the targets' squares of many tasks, in float64.

        A kernel computes them for plain 3 x 3 convolutions, where it could be compiled. Not for use under vmap, nor
        for data that need gradients.
        """
        layer, x = self.layer, data.x
        # Checked on one task, so that the error names the same shapes as the reference's.
        check_shapes((x.shape[1], layer.out_channels, *self._places(x.shape)), data.y[0])
        found = patch_moments(*data, exact=exact) if self._plain else None
        if found is not None:
            return found
        parts = [_moments(x.double(), y.double(), layer) for x, y in zip(*data, strict=True)]
        S, C, square = (torch.stack(part) for part in zip(*parts, strict=True))
        return S, C, square

    def rounds(self, data: Batch) -> bool:
        """Whether ``moments(data, exact=False)`` takes the faster sums, which round more than the exact ones."""
        return self._plain and adds_blocks(*data)

    @property
    def _plain(self) -> bool:
        layer = self.layer
        settings = (layer.kernel_size, layer.stride, layer.padding, layer.dilation)
        return settings == ((KERNEL, KERNEL), (1, 1), (0, 0), (1, 1)) and layer.bias is None

    def _moments(self, data: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """The moments of one task; works under vmap."""
        check_shapes((data.x.shape[0], self.layer.out_channels, *self._places(data.x.shape)), data.y)
        found: tuple[Tensor, Tensor, Tensor] = _Moments.apply(data.x, data.y, self.layer)  # type: ignore[no-untyped-call]
        return found


class _Moments(torch.autograd.Function):
    """The moments of one task's data; under vmap one task goes after the other.

    One task's data in float64 stay in the cache, those of all tasks would not. The loop thus costs about as much
    as all tasks at once in float32.
    """

    @staticmethod
    def forward(x: Tensor, y: Tensor, layer: nn.Conv2d) -> tuple[Tensor, Tensor, Tensor]:
        return _moments(x.double(), y.double(), layer)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs[:2])
        ctx.layer = inputs[2]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Only called where the data need gradients, as learned data do."""
        x, y = (t.double() for t in ctx.saved_tensors)
        pull = vjp(lambda x, y: _moments(x, y, ctx.layer), x, y)[1]
        return (*pull(gradients), None)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, y: Tensor, layer: nn.Conv2d
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        xs, ys = (
            t.expand(info.batch_size, *t.shape) if dim is None else t.movedim(dim, 0)
            for t, dim in zip((x, y), in_dims, strict=False)
        )
        apply: Callable[..., tuple[Tensor, ...]] = _Moments.apply
        parts = [apply(x, y, layer) for x, y in zip(xs, ys, strict=True)]
        return tuple(torch.stack(part) for part in zip(*parts, strict=True)), (0, 0, 0)


def _moments(x: Tensor, y: Tensor, layer: nn.Conv2d) -> tuple[Tensor, Tensor, Tensor]:
    """``P^T P``, ``Y^T P`` and ``|Y|^2`` of one task."""
    P = _patches(x, layer)
    if layer.bias is not None:
        P = torch.cat([P, torch.ones_like(P[:, :1])], dim=1)
    Y = y.reshape(y.shape[0], y.shape[1], -1)
    # P stands first: that makes the product a third faster.
    return (P @ P.mT).sum(0), (P @ Y.mT).sum(0).mT, torch.linalg.vector_norm(Y) ** 2


def _patches(x: Tensor, layer: nn.Conv2d) -> Tensor:
    """``[examples, entries of a patch, places]``: as ``F.unfold`` gives, but by views, five times as fast."""
    padding = layer.padding
    assert not isinstance(padding, str)
    x = F.pad(x, (padding[1], padding[1], padding[0], padding[0]))
    for i in range(2):
        reach = layer.dilation[i] * (layer.kernel_size[i] - 1) + 1
        x = x.unfold(2 + i, reach, layer.stride[i])[..., :: layer.dilation[i]]
    return x.permute(0, 1, 4, 5, 2, 3).flatten(1, 3).flatten(2)


def convolution_predictor(model: nn.Module, params: Params, inner: list[str]) -> ConvolutionPredictor | None:
    """A predictor that knows the structure, if ``model`` is a single ordinary Conv2d."""
    if not isinstance(model, nn.Conv2d) or model._forward_hooks or model._forward_pre_hooks:
        return None
    if plain_type(model) is not nn.Conv2d or model.groups != 1 or isinstance(model.padding, str):
        return None
    if model.padding_mode != "zeros":
        return None
    lists = lists_of(model)
    if lists is not None and list(lists) != ["weight"]:
        return None
    only_filter = all(name in ("weight", "bias") or is_filter(name) for name in inner)
    return ConvolutionPredictor(model, params, linear=only_filter)
