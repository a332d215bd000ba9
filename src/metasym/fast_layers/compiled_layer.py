"""What every compiled layer is: a filter, a bias, relabelled inputs and outputs around a fast product."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from metasym.fast_layers.relabelling import Relabelling

T = TypeVar("T")


class FilterUser(nn.Module):
    """A module that makes something of its filter before it multiplies: a kernel, its spectrum, a few numbers.

    While the filter is not trained that is made once. The filter is compared entry by entry before it is used again,
    so that nothing that changes it, in whatever way, goes unnoticed.
    """

    filter: Tensor

    def __init__(self) -> None:
        super().__init__()
        self._memory: tuple[Tensor, Any] | None = None
        self._frozen: tuple[Any] | None = None

    def at_rest(self) -> bool:
        """Whether the filter may be taken for numbers: nothing is traced, transformed or differentiated by it."""
        filter = self.filter
        return (
            type(filter) is nn.Parameter
            and filter.is_cpu
            and not (filter.requires_grad and torch.is_grad_enabled())
            and not torch.compiler.is_compiling()
        )

    def made(self, make: Callable[[Tensor], T]) -> T:
        """``make(filter)``, or what it was before."""
        if self._frozen is not None:
            frozen: T = self._frozen[0]
            return frozen
        if not self.at_rest():
            return make(self.filter)
        before = self._memory
        if (
            before is not None
            and before[0].dtype == self.filter.dtype
            and torch.equal(before[0], self.filter)
        ):
            found: T = before[1]
            return found
        with torch.inference_mode(False), torch.no_grad():
            filter = self.filter.detach().clone()
            value = make(filter)
        self._memory = filter, value
        return value

    def times(self, x: Tensor, prepared: Tensor) -> Tensor:
        """``x * prepared`` of an x that nothing else holds: in its place while the filter is not trained.

        One tensor fewer on the way: with large batches the system's memory, not arithmetic, takes the time.
        """
        return x.mul_(prepared) if self._memory is not None and prepared is self._memory[1] else x * prepared

    def freeze(self) -> None:
        """Take the filter for numbers from now on: what exported programs do."""
        with torch.no_grad():
            self._frozen = (self.prepared(),)

    @abstractmethod
    def prepared(self) -> Any:
        """What the product needs of the filter, by :meth:`made`."""


class StructuredLayer(FilterUser, ABC):
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
        self.plain = before.neutral, after.neutral

    @abstractmethod
    def product(self, x: Tensor) -> Tensor:
        """``[examples, inputs] -> [examples, outputs]``, both as relabelled."""

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., inputs] -> y [..., outputs]``."""
        flat = x if x.ndim == 2 else x.reshape(-1, self.in_features)
        none = not torch.compiler.is_compiling() and not x.numel()
        if none:  # transforms know no empty batch: one example of zeros, left out again, keeps the way back
            flat = torch.cat([flat, flat.new_zeros(1, self.in_features)])
        y = self.product(flat if self.plain[0] else self.before(flat))
        y = y[:0] if none else y
        if not self.plain[1]:
            y = self.after(y)
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
