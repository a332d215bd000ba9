"""A reparameterized linear layer, contracted with its inputs before its filter.

With ``vec(W) = U v`` a layer predicts ``y[m] = sum_{n,k} x[n] U[m,n,k] v[k]``. Building W first costs one
product with U for every new v. In the inner loop v changes at each step and x does not: contracting U with
the inputs first, ``A = x U [examples, outputs, k]``, costs one product for all steps, after which a step
costs almost nothing. Which is cheaper depends on the sizes alone.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from metasym.adaptation.functional import ModelPredictor, call
from metasym.symmetry.matrices import DenseSymmetry
from metasym.symmetry.parametrized import (
    filter_name,
    layer_of_filter,
    list_of,
    lists_of,
    plain_type,
    weight_site,
)
from metasym.types import Params


class DenseLayer(NamedTuple):
    """The one dense reparameterized Linear, last in its model, whose filter is all that adapts."""

    name: str
    """The name of its filter in the model."""
    U: Tensor
    """``[outputs * inputs, k]``."""
    v: Tensor
    """``[k]``."""
    bias: Tensor | None
    outputs: int
    inputs: int
    head: nn.Module | None
    """What comes before the layer, if anything."""


class LayerPredictor(ModelPredictor):
    """A model whose last layer is a dense reparameterized Linear, and whose filter is all that adapts."""

    def __init__(
        self, model: nn.Module, params: Params, layer: DenseLayer, contract: str | None = None
    ) -> None:
        super().__init__(model, params)
        self.name, self.U, _, self.bias, self.outputs, self.inputs, self.head = layer
        self.k = self.U.shape[1]
        self.contract = contract
        """``"input"`` or ``"filter"`` where the user has decided what U is contracted with first."""
        # Input-major, so that one product of matrices serves the examples of all tasks.
        self.by_input = self.U.reshape(self.outputs, self.inputs, -1).transpose(0, 1).reshape(self.inputs, -1)

    def at(self, x: Tensor, *, evaluations: int) -> Callable[[Params], Tensor]:
        """The prediction at ``x``, contracted with U first where that is less work."""
        first = input_first(x.shape[0], evaluations) if self.contract is None else self.contract == "input"
        if not first:
            return super().at(x, evaluations=evaluations)
        A = self._contract(x)

        def prediction(inner: Params) -> Tensor:
            y = A @ inner[self.name]
            return y if self.bias is None else y + self.bias

        return prediction

    def jacobian(self, inner: Params, x: Tensor) -> Tensor:
        """The contraction itself, ``[rows * outputs, k]``, with a row for each input that the layer sees."""
        return self._contract(x).reshape(-1, self.k)

    def _contract(self, x: Tensor) -> Tensor:
        """``[..., outputs, k]`` from what the layer sees, ``[..., inputs]``."""
        if self.head is not None:
            names = {name for name, _ in self.head.named_parameters()}
            x = call(self.head, {n: p for n, p in self.params.items() if n in names}, x)
        return (x @ self.by_input).reshape(*x.shape[:-1], self.outputs, self.k)


def dense_linear(layer: nn.Module) -> bool:
    """Whether ``layer`` is an ordinary Linear whose weight, and nothing else, a dense symmetry makes."""
    if not isinstance(layer, nn.Linear) or layer._forward_hooks or layer._forward_pre_hooks:
        return False
    if plain_type(layer) is not nn.Linear:
        return False
    if list(lists_of(layer) or ()) != ["weight"]:
        return False
    plist = list_of(layer)
    return len(plist) == 1 and isinstance(plist[0], DenseSymmetry)


def input_first(examples: int, evaluations: int) -> bool:
    """Whether contracting U with the inputs first is less work, forward and backward, counted in products.

    One contraction costs ``examples`` products with U, and as many for U's gradient. Building W costs one
    product for each evaluation, one for U's gradient and one for v's.
    """
    return 2 * examples < 3 * evaluations


def layer_predictor(
    model: nn.Module, params: Params, inner: list[str], contract: str | None = None
) -> LayerPredictor | None:
    """A predictor that knows the structure, if ``model`` ends in the one dense layer whose filter adapts."""
    layer = last_dense_layer(model, inner)
    return None if layer is None else LayerPredictor(model, params, layer, contract)


def last_dense_layer(model: nn.Module, inner: list[str]) -> DenseLayer | None:
    """The last layer of ``model``, if it is a dense Linear and its filter all that adapts."""
    name = layer_of_filter(inner[0]) if len(inner) == 1 else None
    if name is None:
        return None
    layer = model.get_submodule(weight_site(name)[0])
    if not dense_linear(layer):
        return None
    if layer is model:
        return dense_layer(model, name, None)
    if type(model) is not nn.Sequential or model._forward_hooks or model._forward_pre_hooks:
        return None
    *before, last = model._modules.items()  # named_children lists a layer that is used twice only once
    if last[0] != name:
        return None
    head = nn.Sequential(OrderedDict(before))
    own = {id(p) for p in layer.parameters()}
    tied = any(id(p) in own for p in head.parameters())
    return None if tied else dense_layer(model, name, head)


def dense_layer(model: nn.Module, layer: str, head: nn.Module | None) -> DenseLayer:
    """The layer named ``layer``, which is known to be a dense Linear."""
    module = model.get_submodule(layer)
    assert isinstance(module, nn.Linear)
    plist = list_of(module)
    symmetry, v = plist[0], plist.original
    assert isinstance(symmetry, DenseSymmetry)
    assert isinstance(v, Tensor)
    sizes = module.out_features, module.in_features
    return DenseLayer(filter_name(layer), symmetry.U, v, module.bias, *sizes, head)
