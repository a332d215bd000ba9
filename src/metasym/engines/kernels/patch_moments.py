"""Second moments of the 3 x 3 patches of many tasks' images, in float64.

With P the patches ``[rows, p]`` of a task's images and Y its targets ``[rows, out]``: ``S = P^T P``, ``C = Y^T P``
and ``|Y|^2``. One call of ``patch_moments.cpp`` where that could be compiled; elsewhere the caller has its own way.
"""

from __future__ import annotations

import ctypes

import torch
from torch import Tensor

from metasym.engines.kernels.engine_kernels import library

_KINDS = {torch.float32: "float", torch.float64: "double"}
BLOCKS_FROM = 2**13
"""How many patches a task needs for sums of float32 products: with fewer the rounding does not average out."""
KERNEL = 3
"""Height and width of the patches that the kernel knows."""


def adds_blocks(x: Tensor, y: Tensor) -> bool:
    """Whether ``patch_moments(x, y, exact=False)`` takes faster and less exact sums."""
    enough = x.shape[1] * y.shape[-2] * y.shape[-1] >= BLOCKS_FROM
    return enough and x.dtype == torch.float32 and _kernels(x, y) is not None


def _kernels(x: Tensor, y: Tensor) -> ctypes.CDLL | None:
    known = x.device.type == y.device.type == "cpu" and x.dtype in _KINDS and x.dtype == y.dtype
    return library("patch_moments") if known else None


def patch_moments(x: Tensor, y: Tensor, *, exact: bool = True) -> tuple[Tensor, Tensor, Tensor] | None:
    """``x [tasks, n, c, h, w]`` and ``y [tasks, n, out, h - 2, w - 2]`` to the moments of every task.

    These are ``S [tasks, p, p]`` and ``C [tasks, out, p]`` with p = 9 c, channels first, and ``|Y|^2 [tasks]``. None
    where the kernel cannot be had or does not know these data. Unless ``exact``, they may be off by some
    1e-9 of ``|P|^2``, ``|P| |Y|`` and ``|Y|^2``: see :func:`adds_blocks`.
    """
    kernels = _kernels(x, y)
    if kernels is None:
        return None
    kind = _KINDS[x.dtype] if exact or not adds_blocks(x, y) else "blocks"
    tasks, n, c, h, w = x.shape
    out = y.shape[2]
    x = x.contiguous()
    if y.stride(-1) != 1 or y.stride(-2) != w - 2:
        y = y.contiguous()
    S, C = (torch.empty(tasks, rows, 9 * c, dtype=torch.float64) for rows in (9 * c, out))
    square = torch.empty(tasks, dtype=torch.float64)
    sizes = (ctypes.c_int64 * 6)(tasks, n, c, h, w, out)
    strides = (ctypes.c_int64 * 3)(*y.stride()[:3])
    pointers = [ctypes.c_void_p(t.data_ptr()) for t in (x, y)]
    results = [ctypes.c_void_p(t.data_ptr()) for t in (S, C, square)]
    function = getattr(kernels, f"moments_{kind}")
    function(sizes, *pointers, strides, *results, torch.get_num_threads())
    return S, C, square
