"""Convolutions with kernels of 3 x 3 or 5 x 5 by Winograd's minimal filtering, and their gradients: ``winograd.cpp``.

Images are ``[n, h, w, channels]``, weights ``[out, in, r, r]``, as torch has them. Rounding errors in float32 are
about twice (3 x 3) and six times (5 x 5) those of torch's own convolution. Only where it could be compiled: ask
:func:`can_filter` first.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from metasym.engines.kernels.engine_kernels import library

_KINDS = {torch.float32: "float", torch.float64: "double"}
SIDES = (3, 5)
"""Height and width of the kernels."""
TILE = 4
"""A tile has 4 x 4 outputs."""


def planes(side: int) -> int:
    """How many products a tile takes for a pair of channels, with kernels of ``side x side``."""
    return (TILE + side - 1) ** 2


def can_filter() -> bool:
    """Whether the kernel could be compiled."""
    return library("winograd") is not None


def convolve(x: Tensor, W: Tensor, padding: int, onto: Tensor | None = None) -> Tensor:
    """``[n, h + 2 padding - r + 1, w + 2 padding - r + 1, out]``, added to ``onto`` where that is given."""
    n, h, w, _ = x.shape
    less = W.shape[-1] - 1 - 2 * padding
    y = x.new_empty(n, h - less, w - less, W.shape[0]) if onto is None else onto
    _call("forward", (x, W), (y,), (x, W, padding), add=onto is not None)
    return y


def convolution_gradients(
    x: Tensor,
    W: Tensor,
    dy: Tensor,
    padding: int,
    *,
    inputs: bool,
    weight: bool,
    onto: tuple[Tensor | None, Tensor | None] | None = None,
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients by x (where ``inputs``) and by W (where ``weight``), added to ``onto`` where that is given.

    Only the gradient by W reads x, and only the gradient by x reads W; otherwise just their shapes matter.
    """
    if onto is None:
        dx = x.new_empty(x.shape) if inputs else None
        dW = x.new_empty(W.shape) if weight else None
    else:
        dx, dW = onto[0] if inputs else None, onto[1] if weight else None
    _call("backward", (x, W, dy), (dx, dW), (x, W, padding), add=onto is not None)
    return dx, dW


def _call(
    name: str,
    given: tuple[Tensor, ...],
    results: tuple[Tensor | None, ...],
    of: tuple[Tensor, Tensor, int],
    *,
    add: bool,
) -> None:
    kernels = library("winograd")
    assert kernels is not None
    x, W, padding = of
    sizes = (ctypes.c_int64 * 7)(*x.shape, W.shape[0], padding, W.shape[-1])
    held = [t.contiguous() for t in given]
    assert all(t is None or t.is_contiguous() for t in results)
    pointers = [ctypes.c_void_p(0 if t is None else t.data_ptr()) for t in (*held, *results)]
    function = getattr(kernels, f"winograd_{name}_{_KINDS[x.dtype]}")
    function(sizes, *pointers, int(add), torch.get_num_threads())
