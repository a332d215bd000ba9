"""Layers that torch lacks: batch norm that is safe for each task, stacked fields, locally connected layers."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.argument_types import checked
from metasym.types import MetasymError

__all__ = ["LocallyConnected1d", "StackFields", "TaskBatchNorm2d", "UnstackFields"]


class TaskBatchNorm2d(nn.Module):
    """Batch norm of ``[examples, channels, height, width]`` that always uses the statistics of the batch itself.

    It remembers nothing between batches. Scale and shift stand outside ``F.batch_norm``, where vmap over tasks has
    correct second derivatives (inside it they are wrong).

    Args:
        channels: Number of channels.
        eps: Added to the variance.
    """

    @checked
    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, channels, height, width]``, unchanged in shape."""
        normal = F.batch_norm(x, None, None, training=True, eps=self.eps)
        return normal * self.weight.view(-1, 1, 1) + self.bias.view(-1, 1, 1)


class StackFields(nn.Module):
    """Stacks the channels of a field into one channel, for a norm with a field's statistics.

    Args:
        order: Channels of a field.
    """

    @checked
    def __init__(self, order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, fields * order, height, width] -> [examples, fields, order * height, width]``."""
        return x.reshape(*x.shape[:-3], -1, self.order * x.shape[-2], x.shape[-1])


class UnstackFields(nn.Module):
    """The inverse of :class:`StackFields`: one channel for each element of the group again."""

    @checked
    def __init__(self, order: int) -> None:
        super().__init__()
        self.order = order

    def forward(self, x: Tensor) -> Tensor:
        """``[examples, fields, order * height, width] -> [examples, fields * order, height, width]``."""
        return x.reshape(*x.shape[:-3], -1, x.shape[-2] // self.order, x.shape[-1])


class LocallyConnected1d(nn.Module):
    """A convolution without sharing: each of the ``inputs - width + 1`` places has its own filter.

    ``x [examples, inputs] -> [examples, places]``, no bias.

    Args:
        inputs: Number of inputs.
        width: Width of each filter.
        rank: Make all filters combinations of this many shared ones, ``filters = mixing @ shared``. Rank 1 with equal
            mixing is a convolution. Default: no constraint.
        generator: Source of the starting values.
    """

    @checked
    def __init__(
        self, inputs: int, width: int, rank: int | None = None, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        places = inputs - width + 1
        if width < 1 or places < 1:
            raise MetasymError(
                f"expected a width of 1 to {inputs} for {inputs} inputs, found {width}",
                about="width",
                found=width,
            )
        if rank is not None and rank < 1:
            raise MetasymError(f"expected a rank >= 1, found {rank}", about="rank", found=rank)
        self.inputs, self.width, self.places, self.rank = inputs, width, places, rank
        bound = 1 / math.sqrt(width)

        def draw(*shape: int) -> nn.Parameter:
            return nn.Parameter((2 * torch.rand(*shape, generator=generator) - 1) * bound)

        if rank is None:
            self.weight = draw(places, width)
        else:
            self.mixing = nn.Parameter(torch.full((places, rank), 1 / rank))
            self.shared = draw(rank, width)

    def filters(self) -> Tensor:
        """The filter of each place, ``[places, width]``."""
        return self.weight if self.rank is None else self.mixing @ self.shared

    def matrix(self) -> Tensor:
        """The dense ``[places, inputs]`` matrix of the layer: the oracle."""
        filters = self.filters()
        W = filters.new_zeros(self.places, self.inputs)
        rows = torch.arange(self.places).unsqueeze(1)
        columns = rows + torch.arange(self.width)
        return W.index_put((rows, columns), filters)

    def forward(self, x: Tensor) -> Tensor:
        """``[..., inputs] -> [..., places]``."""
        if x.shape[-1] != self.inputs:
            raise MetasymError(
                f"expected {self.inputs} inputs, found {x.shape[-1]}", about="x", found=int(x.shape[-1])
            )
        return (x.unfold(-1, self.width, 1) * self.filters()).sum(-1)

    def extra_repr(self) -> str:
        """The sizes, for ``print(model)``."""
        return f"inputs={self.inputs}, width={self.width}, rank={self.rank}"
