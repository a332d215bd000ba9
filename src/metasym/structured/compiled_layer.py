"""What every compiled layer is: a filter, a bias, relabelled inputs and outputs around a fast product."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from metasym.structured.relabelling import Relabelling


class StructuredLayer(nn.Module, ABC):
    """``y = W x + b`` without W: the filter alone is stored, ``[count]`` numbers or a shape that holds as many."""

    def __init__(self, filter: Tensor, bias: Tensor | None, before: Relabelling, after: Relabelling) -> None:
        super().__init__()
        self.in_features, self.out_features = (
            before.size,
            len(after.index) if after.index is not None else after.size,
        )
        self.filter = nn.Parameter(filter.detach().clone())
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())
        self.before, self.after = before, after

    @abstractmethod
    def product(self, x: Tensor) -> Tensor:
        """``[examples, inputs] -> [examples, outputs]``, both as relabelled."""

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., inputs] -> y [..., outputs]``."""
        flat = x if x.ndim == 2 else x.reshape(-1, self.in_features)
        y: Tensor = self.after(self.product(self.before(flat)))
        if self.bias is not None:
            y = y + self.bias
        return y if x.ndim == 2 else y.reshape(*x.shape[:-1], self.out_features)

    def dense(self) -> Tensor:
        """The weight ``[m, n]`` that this layer multiplies with: the columns are its answers to unit vectors."""
        with torch.no_grad():
            bias, self.bias = self.bias, None
            try:
                eye = torch.eye(self.in_features, dtype=self.filter.dtype, device=self.filter.device)
                found: Tensor = self(eye).T.contiguous()
                return found
            finally:
                self.bias = bias

    def extra_repr(self) -> str:
        """Sizes, and how many numbers are stored."""
        sizes = f"{self.in_features} -> {self.out_features}, {self.filter.numel()} filter entries"
        return f"{sizes}, bias={self.bias is not None}"
