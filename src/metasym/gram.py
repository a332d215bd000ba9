"""The squared loss of one convolution from the patches' second moments.

A convolution is linear in its weight ``M [out, p]`` (p the entries of a patch, one more with a bias): with P
the patches ``[rows, p]`` and Y the targets ``[rows, out]``, ``|P M^T - Y|^2 = <M S, M> - 2 <M, C> + |Y|^2`` with
``S = P^T P`` and ``C = Y^T P``. An image has many more patches than a patch has entries, and S and C depend on the
data alone: computed once a task, every loss, gradient and second derivative of it is a product of tiny
matrices, whatever the size of the image.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn.utils import parametrize

from metasym.functional import ModelPredictor, NormalEquations, flatten, unflatten
from metasym.types import Batch, Loss, Params

_LIST = "parametrizations.weight"


class ConvolutionPredictor(ModelPredictor):
    """A model that is one Conv2d, plain or reparameterized."""

    def __init__(self, model: nn.Conv2d, params: Params, *, linear: bool) -> None:
        super().__init__(model, params)
        self.layer = model
        self.linear = linear
        """Whether the weight is linear in what adapts: not so where U adapts together with v."""

    def loss_at(self, data: Batch, loss: Loss, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The squared loss from second moments; any other loss from the prediction."""
        if not is_squared(loss) or not self._pays(data.x):
            return super().loss_at(data, loss, evaluations=evaluations)
        S, C, square = self._moments(data)
        entries = data.y.numel()

        def squared(inner: Params) -> Tensor:
            M = self._matrix(inner)
            return ((M @ S * M).sum() - 2 * (M * C).sum() + square) / entries

        return squared

    def normal_equations(self, inner: Params, data: Batch) -> NormalEquations:
        """``J^T J = B (S) B^T`` with B the weights of the unit filters, the same for all tasks."""
        if not self.linear or not self._pays(data.x):
            return super().normal_equations(inner, data)
        S, C, square = (t.double() for t in self._moments(data))
        start = flatten(inner)
        units = torch.eye(start.numel(), dtype=start.dtype, device=start.device)
        zero = self._matrix(unflatten(inner, torch.zeros_like(start))).double()
        B = vmap(lambda unit: self._matrix(unflatten(inner, unit)))(units).double() - zero
        M = self._matrix(inner).double()
        flat = B.reshape(len(units), -1)
        error = C - M @ S
        gram = (B @ S).reshape(len(units), -1) @ flat.mT
        squared = square - 2 * (M * C).sum() + (M @ S * M).sum()
        return NormalEquations(gram, flat @ error.reshape(-1), None, data.y.numel(), squared.clamp_min(0))

    def _pays(self, x: Tensor) -> bool:
        """More patches than entries of a patch: otherwise the moments are larger than the data."""
        layer = self.layer
        padding = layer.padding
        assert not isinstance(padding, str)
        places = 1
        for i in range(2):
            reach = layer.dilation[i] * (layer.kernel_size[i] - 1) + 1
            places *= (x.shape[i - 2] + 2 * padding[i] - reach) // layer.stride[i] + 1
        return x.shape[0] * places >= layer.weight[0].numel()

    def _matrix(self, inner: Params) -> Tensor:
        """The weight as a matrix ``[out, p]``, its last column the bias where there is one."""
        params = {**self.params, **inner}
        if "weight" in params:
            W = params["weight"]
        else:
            lists = self.layer.parametrizations
            assert isinstance(lists, nn.ModuleDict)
            own = {n.removeprefix(f"{_LIST}."): p for n, p in params.items() if n.startswith(_LIST)}
            W = functional_call(lists["weight"], own, ())
        M = W.reshape(W.shape[0], -1)
        return M if "bias" not in params else torch.cat([M, params["bias"].unsqueeze(1)], dim=1)

    def _moments(self, data: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """``S [p, p]``, ``C [out, p]`` and the square of the targets."""
        layer = self.layer
        padding = layer.padding
        assert not isinstance(padding, str)
        P = F.unfold(
            data.x, layer.kernel_size, layer.dilation, padding, layer.stride
        )  # [examples, p, places]
        if self.layer.bias is not None:
            P = torch.cat([P, torch.ones_like(P[:, :1])], dim=1)
        Y = data.y.reshape(data.y.shape[0], data.y.shape[1], -1)
        return (P @ P.mT).sum(0), (Y @ P.mT).sum(0), torch.linalg.vector_norm(data.y) ** 2


def is_squared(loss: Loss) -> bool:
    """Whether ``loss`` is known to be the mean squared error."""
    return loss is F.mse_loss or (isinstance(loss, nn.MSELoss) and loss.reduction == "mean")


def convolution_predictor(model: nn.Module, params: Params, inner: list[str]) -> ConvolutionPredictor | None:
    """A predictor that knows the structure, if ``model`` is a single ordinary Conv2d."""
    if not isinstance(model, nn.Conv2d) or model._forward_hooks or model._forward_pre_hooks:
        return None
    base = type(model).__bases__[0] if parametrize.is_parametrized(model) else type(model)
    if base is not nn.Conv2d or model.groups != 1 or isinstance(model.padding, str):
        return None
    if model.padding_mode != "zeros":
        return None
    if parametrize.is_parametrized(model):
        lists = model.parametrizations
        assert isinstance(lists, nn.ModuleDict)
        if list(lists) != ["weight"]:
            return None
    only_filter = all(name in ("weight", "bias") or name.endswith(".original") for name in inner)
    return ConvolutionPredictor(model, params, linear=only_filter)
