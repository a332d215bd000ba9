"""A first convolution by patches and the norm after it as one, without the array between them: ``first_layer.cpp``.

With ``x = W patches``, ``W [c, entries]``, ``patches [entries, n * h * w]``, the mean and variance of x follow from
the first and second moments of the patches. Backwards, with ``A`` the sums over the pooled outputs of dy times the
patch that each was computed from, x enters only through products with the patches, which are products of W:
``dscale = r (sum W A - m dshift)`` and, with ``dx = a g + u x + d`` as in ``norm_pool.backward``,
``dW = a A + u W (patches patches^T) + d sum patches``. There is no gradient by the patches: nothing comes before.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from metasym.engines.kernels.compiled import library

_KINDS = {torch.float32: ("float", torch.int32), torch.float64: ("double", torch.int64)}


class First(NamedTuple):
    """What ``first_forward`` gives: the output, and what the gradient needs of it."""

    y: Tensor
    """``[n, h // pool, w // pool, c]``."""
    where: Tensor
    patches: Tensor
    size: tuple[int, int, int]
    """Examples, height and width before pooling."""
    mean: Tensor
    inv: Tensor
    first: Tensor
    second: Tensor
    pool: int
    relu: bool


def first_forward(
    patches: Tensor,
    W: Tensor,
    scale: Tensor,
    shift: Tensor,
    size: tuple[int, int, int],
    *,
    eps: float,
    relu: bool,
    pool: int,
) -> First | None:
    """The pooled output of norm and convolution; None where the kernel cannot be had."""
    known = patches.device.type == "cpu" and patches.dtype in _KINDS
    if not known or library("first_layer") is None:
        return None
    n, h, w = size
    entries, c = len(patches), len(W)
    y = W.new_empty(n, h // pool, w // pool, c)
    where = torch.empty(y.shape, dtype=_KINDS[W.dtype][1])
    moments = W.new_empty(entries), W.new_empty(entries, entries)
    found = First(y, where, patches, size, W.new_empty(c), W.new_empty(c), *moments, pool, relu)
    results = (found.mean, found.inv, y, where, *moments)
    _call("forward", found, (patches, W, scale, shift), (ctypes.c_double(eps), int(relu)), results)
    return found


def first_gradient(of: First, scale: Tensor, W: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients by ``W [c, entries]``, scale and shift."""
    A, dshift = W.new_empty(len(of.patches), len(W)), torch.empty_like(of.mean)
    _call("sums", of, (of.patches, of.y, of.where, dy), (int(of.relu),), (A, dshift))
    places = of.patches.shape[1]
    dscale = of.inv * ((W.T * A).sum(0) - of.mean * dshift)
    step = of.inv * scale
    u = -step * of.inv * dscale / places
    d = -step * (dshift - of.mean * of.inv * dscale) / places
    dW = step.unsqueeze(1) * A.T + u.unsqueeze(1) * (W @ of.second) + d.unsqueeze(1) * of.first
    return dW, dscale, dshift


def _call(
    name: str,
    of: First,
    given: tuple[Tensor, ...],
    numbers: tuple[object, ...],
    results: tuple[Tensor, ...],
) -> None:
    kernels = library("first_layer")
    assert kernels is not None
    sizes = (ctypes.c_int64 * 6)(*of.size, len(of.mean), of.pool, len(of.patches))
    held = [t.contiguous() for t in given]
    before, after = ([ctypes.c_void_p(t.data_ptr()) for t in tensors] for tensors in (held, results))
    function = getattr(kernels, f"first_{name}_{_KINDS[of.patches.dtype][0]}")
    function(sizes, *before, *numbers, *after, torch.get_num_threads())
