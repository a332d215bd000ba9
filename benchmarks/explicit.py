"""Our models as people write them without metasym: plain modules that build their weight in ``forward``.

``higher`` cannot patch parametrized modules, and the paper's code has layers of this kind. Values, names of what is
inner and the order of products (the cheapest) are ours, so that all contenders compute the same numbers. Batch norm
is torch's own, fused with its scale: faster than ours for a loop over tasks.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrize

from metasym.engines.layerwise.layer_order import layers_in_order
from metasym.nn import TaskBatchNorm2d
from metasym.symmetry.matrices import DenseSymmetry, KroneckerSymmetry, mode_product


class Reparameterized(nn.Module):
    """A Linear or Conv2d whose weight is made of U and v at every call."""

    def __init__(self, layer: nn.Linear | nn.Conv2d) -> None:
        super().__init__()
        lists = layer.parametrizations
        assert isinstance(lists, nn.ModuleDict)
        plist = lists["weight"]
        assert isinstance(plist, parametrize.ParametrizationList)
        symmetry = plist[0]
        self.shape, self.padding = layer.weight.shape, getattr(layer, "padding", None)
        self.v = nn.Parameter(plist.original.detach().clone())
        if isinstance(symmetry, DenseSymmetry):
            factors, self.order = [symmetry.U], None
        else:
            assert isinstance(symmetry, KroneckerSymmetry)
            factors, self.order = symmetry.factors, symmetry._order
        self.U = nn.ParameterList([nn.Parameter(U.detach().clone()) for U in factors])
        self.bias = None if layer.bias is None else nn.Parameter(layer.bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """Make W, apply it."""
        if self.order is None:
            W = self.U[0] @ self.v
        else:
            W = self.v
            for mode in self.order:
                W = mode_product(W, self.U[mode], mode)
        W = W.view(self.shape)
        if self.padding is None:
            return F.linear(x, W, self.bias)
        return F.conv2d(x, W, self.bias, padding=self.padding)


class Call(nn.Module):
    """A function between layers."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        """What the function gives."""
        return self.function(x)


def explicit(model: nn.Module) -> nn.Sequential:
    """The same network from plain modules; inner parameters are all but those under ``U``."""
    parts = layers_in_order("", model)
    assert parts is not None, "the benchmarks' networks act layer by layer"
    layers: list[nn.Module] = []
    for _, layer in parts:
        if not isinstance(layer, nn.Module):
            layers.append(Call(layer))
        elif parametrize.is_parametrized(layer):
            assert isinstance(layer, nn.Linear | nn.Conv2d)
            layers.append(Reparameterized(layer))
        elif isinstance(layer, TaskBatchNorm2d):
            norm = nn.BatchNorm2d(len(layer.weight), eps=layer.eps, track_running_stats=False)
            with torch.no_grad():
                norm.weight.copy_(layer.weight)
                norm.bias.copy_(layer.bias)
            layers.append(norm)
        else:
            layers.append(layer)
    return nn.Sequential(*layers)


def is_symmetry(name: str) -> bool:
    """Whether a parameter of an explicit model is part of U."""
    return ".U." in name
