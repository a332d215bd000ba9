"""Convolutions of one channel as modules: torch's own layers, tied taps, and Fourier transforms along a line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.fast_layers.compiled_layer import FilterUser, StructuredLayer
from metasym.fast_layers.relabelling import Relabelling
from metasym.fast_layers.sharing import Classes, Expansion

_CONVOLUTIONS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_APPLY = (F.conv1d, F.conv2d, F.conv3d)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel on a grid of inputs."""

    classes: Classes
    """``[*sizes]``: the class of each tap, 0 for none."""
    grid: tuple[int, ...]
    """Inputs along each axis."""
    circular: bool = False
    padding: tuple[tuple[int, int], ...] = ()
    """Zeros before and after, along each axis; none unless given."""

    @property
    def free(self) -> bool:
        """Whether every tap has a weight of its own."""
        flat = self.classes.ravel()
        return bool((flat > 0).all() and len(np.unique(flat)) == len(flat))

    @property
    def even_padding(self) -> tuple[int, ...] | None:
        """As many zeros before as after, as torch's layers want them; None where they differ."""
        pads = self.padding or ((0, 0),) * len(self.grid)
        return tuple(a for a, _ in pads) if all(a == b for a, b in pads) else None

    @property
    def first(self) -> int:
        """Along a line: where the outputs begin in the whole convolution, ``n + taps - 1`` long."""
        return len(self.classes) - 1 - (self.padding or ((0, 0),))[0][0]

    def transform_length(self, outputs: int) -> int:
        """How long transforms have to be so that what wraps around does not reach the outputs."""
        (n,), taps = self.grid, len(self.classes)
        return fast_length(max(n + taps - 1 - self.first, self.first + outputs, n, taps))


class SlidingLayer(nn.Module):
    """A relabelling, an ordinary ``nn.Conv1d``, ``nn.Conv2d`` or ``nn.Conv3d``, and a relabelling back."""

    def __init__(
        self, filter: Tensor, bias: Tensor | None, before: Relabelling, after: Relabelling, kernel: Kernel
    ) -> None:
        super().__init__()
        self.in_features = before.size
        self.out_features = after.size if after.index is None else len(after.index)
        self.before, self.after, self.grid = before, after, kernel.grid
        even = kernel.even_padding
        self.convolution: nn.Module
        if kernel.free and (kernel.circular or even is not None):
            padding = (
                {"padding": "same", "padding_mode": "circular"} if kernel.circular else {"padding": even}
            )
            layer = _CONVOLUTIONS[len(self.grid) - 1](
                1, 1, kernel.classes.shape, bias=False, device=filter.device, dtype=filter.dtype, **padding
            )
            weight = filter.detach()[torch.from_numpy(kernel.classes.ravel() - 1)]
            layer.weight = nn.Parameter(weight.reshape(1, 1, *kernel.classes.shape).clone())
            self.convolution = layer
        else:
            self.convolution = TiedConvolution(filter, kernel)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., inputs] -> y [..., outputs]``."""
        flat = self.before(x.reshape(-1, self.in_features))
        y: Tensor = self.after(self.convolution(flat.reshape(-1, 1, *self.grid)).flatten(1))
        if self.bias is not None:
            y = y + self.bias
        return y.reshape(*x.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"{self.in_features} -> {self.out_features}, grid {' x '.join(map(str, self.grid))}"


class TiedConvolution(FilterUser):
    """A convolution of one channel whose taps share weights, are opposite or zero."""

    def __init__(self, filter: Tensor, kernel: Kernel) -> None:
        super().__init__()
        self.filter = nn.Parameter(filter.detach().clone())
        self.expansion = Expansion(kernel.classes, len(filter))
        self.circular = kernel.circular
        if kernel.circular:
            pads = [((s - 1) // 2, s - 1 - (s - 1) // 2) for s in kernel.classes.shape]
        else:
            pads = list(kernel.padding or ((0, 0),) * len(kernel.grid))
        self.pads = [side for pair in reversed(pads) for side in pair]

    def forward(self, x: Tensor) -> Tensor:
        """``x [examples, 1, *grid] -> [examples, 1, *outputs]``."""
        weight = self.prepared()
        if any(self.pads):
            x = F.pad(x, self.pads, mode="circular" if self.circular else "constant")
        return _APPLY[weight.ndim - 3](x, weight)

    def prepared(self) -> Tensor:
        """The kernel."""
        return self.made(self._kernel)

    def _kernel(self, filter: Tensor) -> Tensor:
        found: Tensor = self.expansion(filter)[None, None]
        return found


class FourierConvolution(StructuredLayer):
    """``y[i] = sum_t k[t] x[i + t - before]`` along one line, zeros beyond its ends, by Fourier transforms."""

    def __init__(
        self,
        filter: Tensor,
        bias: Tensor | None,
        before: Relabelling,
        after: Relabelling,
        kernel: Kernel,
        outputs: int,
    ) -> None:
        super().__init__(filter, bias, before, after)
        self.expansion = Expansion(kernel.classes[::-1].copy(), len(filter))
        self.first, self.outputs = kernel.first, outputs
        self.length = kernel.transform_length(outputs)

    def prepared(self) -> Tensor:
        """The kernel's spectrum."""
        return self.made(self._spectrum)

    def _spectrum(self, filter: Tensor) -> Tensor:
        kernel: Tensor = self.expansion(filter)
        short = kernel.dtype not in (torch.float32, torch.float64)
        found: Tensor = torch.fft.rfft(kernel.float() if short else kernel, self.length)
        return found

    def product(self, x: Tensor) -> Tensor:
        """``[examples, n] -> [examples, m]``."""
        dtype = x.dtype
        if dtype not in (torch.float32, torch.float64):
            x = x.float()
        whole = torch.fft.irfft(self.times(torch.fft.rfft(x, self.length), self.prepared()), self.length)
        found: Tensor = whole[:, self.first : self.first + self.outputs]
        return found if found.dtype == dtype else found.to(dtype)


def fast_length(least: int) -> int:
    """The smallest length from ``least`` on with no prime factor above 5."""
    length = least
    while True:
        rest = length
        for p in (2, 3, 5):
            while rest % p == 0:
                rest //= p
        if rest == 1:
            return length
        length += 1
