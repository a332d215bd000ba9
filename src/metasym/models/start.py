"""Layers that start from an explicit generator."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import skip_init


def started(
    kind: type[nn.Module],
    *sizes: int,
    generator: torch.Generator | None,
    bias: bool = False,
    **options: Any,
) -> nn.Module:
    """A linear or convolution layer drawn from ``generator``, not from the global one.

    Torch's own start for these layers: weights, and biases where there are any, uniform in
    ``+- 1 / sqrt(fan-in)``.
    """
    layer: nn.Module = skip_init(kind, *sizes, bias=bias, **options)
    weight = layer.weight
    assert isinstance(weight, Tensor)
    bound = 1 / math.sqrt(weight[0].numel())
    with torch.no_grad():
        for parameter in layer.parameters():  # the weight first, then the bias
            parameter.copy_((2 * torch.rand(parameter.shape, generator=generator) - 1) * bound)
    return layer
