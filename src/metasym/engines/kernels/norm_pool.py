"""Batch norm with the batch's statistics, ReLU and max-pooling as one function of one task's activations.

With P the number of examples and places, ``m`` and ``r = 1 / sqrt(var + eps)`` over them for each channel,

    n = r (x - m),    z = scale n + shift,    y = relu(max of z over each window).

Only the largest place of a window has a gradient, so that sums over all places need the pooled ones alone. With
g the gradient by z (zero but at those places),

    dshift = sum g,    dscale = sum g n,    dx = r scale (g - dshift / P - n dscale / P),

and along a direction (tx, tscale, tshift, tdy), with the means ``tm`` of tx and ``s`` of n tx,

    tn = r (tx - tm - n s),    tr = - r^2 s,

from which the tangents of y, dscale, dshift and dx follow by the product rule. Each of the four functions below is
one call of ``norm_pool.cpp`` where that could be compiled, and the same in torch's operations where not.

Activations are ``[examples, height, width, channels]``; pooled ones have ``height // p`` and ``width // p``. Where
``shared`` channels in a row share their statistics, scale and shift, as the channels of a group's field do, there is
one scale and shift for each such field, and P counts its channels too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from metasym.engines.kernels.engine_kernels import library

WINDOWS = (1, 2, 3)
"""Sides of pooling windows that there are kernels for; 1 is no pooling."""

_KINDS = {torch.float32: ("float", torch.int32), torch.float64: ("double", torch.int64)}


class Normed(NamedTuple):
    """What ``forward`` gives: the output, and what the other functions need of it."""

    y: Tensor
    x: Tensor
    mean: Tensor
    inv: Tensor
    where: Tensor
    """Which place of its window each output was taken from, counted row by row."""
    pool: int
    relu: bool
    shared: int = 1


class Tangent(NamedTuple):
    """What ``tangent`` gives: the output's tangent, and what ``tangent_backward`` needs of it."""

    y: Tensor
    x: Tensor | None
    mean: Tensor
    slope: Tensor


def forward(
    x: Tensor, scale: Tensor, shift: Tensor, *, eps: float, relu: bool, pool: int, shared: int = 1
) -> Normed:
    """``x [n, h, w, c]``, ``scale [c / shared]``, ``shift`` likewise: y and what it was made with."""
    kernels = _kernels(x)
    scale, shift = _wide(scale, shared), _wide(shift, shared)
    if kernels is None:
        return _forward(x, scale, shift, eps=eps, relu=relu, pool=pool, shared=shared)
    n, h, w, c = x.shape
    kind, index = _KINDS[x.dtype]
    y = x.new_empty(n, h // pool, w // pool, c)
    where = torch.empty(y.shape, dtype=index)
    mean, inv = torch.empty_like(scale), torch.empty_like(scale)
    found = Normed(y, x, mean, inv, where, pool, relu, shared)
    _call(kernels, f"forward_{kind}", found, (x, scale, shift), float(eps), int(relu), (mean, inv, y, where))
    return found


def backward(of: Normed, scale: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """``dy`` like y: the gradients by x, scale and shift."""
    kernels = _kernels(of.x)
    dy, scale = dy.contiguous(), _wide(scale, of.shared)
    if kernels is None:
        return _narrow(of, _backward(of, scale, dy))
    dx, dscale, dshift = torch.empty_like(of.x), torch.empty_like(scale), torch.empty_like(scale)
    inputs = (of.x, of.mean, of.inv, scale, of.y, of.where, dy)
    name = f"backward_{_KINDS[dy.dtype][0]}"
    _call(kernels, name, of, inputs, int(of.relu), (dscale, dshift, dx))
    return _narrow(of, (dx, dscale, dshift))


def tangent(of: Normed, scale: Tensor, tx: Tensor | None, tscale: Tensor, tshift: Tensor) -> Tangent:
    """The tangent of y along ``tx [n, h, w, c]`` (None: zero), ``tscale [c]`` and ``tshift [c]``."""
    kernels = _kernels(of.x)
    tx = None if tx is None else tx.contiguous()
    scale, tscale, tshift = (_wide(t, of.shared) for t in (scale, tscale, tshift))
    if kernels is None:
        return _tangent(of, scale, tx, tscale, tshift)
    ty, tmean, slope = torch.empty_like(of.y), torch.empty_like(scale), torch.empty_like(scale)
    tensors = (of.x, tx, of.mean, of.inv, scale, tscale, tshift, of.y, of.where)
    name = f"tangent_{_KINDS[of.x.dtype][0]}"
    _call(kernels, name, of, tensors, int(of.relu), (tmean, slope, ty))
    return Tangent(ty, tx, tmean, slope)


def tangent_backward(
    of: Normed, along: Tangent, scale: Tensor, tscale: Tensor, gradient: Sequence[Tensor], tdy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The tangents of what ``backward`` gives; ``gradient`` is dy, dscale and dshift, ``tdy`` the tangent of dy."""
    kernels = _kernels(of.x)
    dy, tdy = gradient[0].contiguous(), tdy.contiguous()
    scale, tscale, dscale, dshift = (_wide(t, of.shared) for t in (scale, tscale, *gradient[1:]))
    if kernels is None:
        return _narrow(of, _tangent_backward(of, along, scale, tscale, (dy, dscale, dshift), tdy))
    tdx, tdscale, tdshift = torch.empty_like(of.x), torch.empty_like(scale), torch.empty_like(scale)
    inputs = (of.x, along.x, of.mean, of.inv, scale, tscale, along.mean, along.slope, of.y, of.where)
    name = f"tangent_backward_{_KINDS[dy.dtype][0]}"
    outputs = (tdscale, tdshift, tdx)
    _call(kernels, name, of, (*inputs, dy, tdy, dscale, dshift), int(of.relu), outputs)
    return _narrow(of, (tdx, tdscale, tdshift))


def _kernels(x: Tensor) -> ctypes.CDLL | None:
    return library() if x.device.type == "cpu" and x.dtype in _KINDS else None


def _wide(t: Tensor, shared: int) -> Tensor:
    """``[c / shared]``, one for each field, as ``[c]``, one for each channel."""
    return t.contiguous() if shared == 1 else t.repeat_interleave(shared)


def _narrow(of: Normed, found: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The same with one entry for each field in the last two, which are equal for all channels of a field."""
    if of.shared == 1:
        return found
    return found[0], found[1][:: of.shared].contiguous(), found[2][:: of.shared].contiguous()


def _tie(t: Tensor, shared: int) -> Tensor:
    """Sums ``[c]`` of channels that share their statistics: each channel gets the sum over all of them."""
    return t if shared == 1 else t.unflatten(0, (-1, shared)).sum(1).repeat_interleave(shared)


def _call(kernels: ctypes.CDLL, name: str, of: Normed, *arguments: object) -> None:
    """Call a kernel with these arguments in order: tuples of contiguous tensors (or None), and numbers."""
    sizes = (ctypes.c_int64 * 6)(*of.x.shape, of.pool, of.shared)
    flat: list[object] = [sizes]
    for argument in arguments:
        if isinstance(argument, tuple):
            assert all(t is None or t.is_contiguous() for t in argument)
            flat += [ctypes.c_void_p(0 if t is None else t.data_ptr()) for t in argument]
        else:
            flat.append(ctypes.c_double(argument) if isinstance(argument, float) else argument)
    getattr(kernels, name)(*flat, torch.get_num_threads())


def _forward(
    x: Tensor, scale: Tensor, shift: Tensor, *, eps: float, relu: bool, pool: int, shared: int
) -> Normed:
    # torch.var_mean takes ten times as long along leading dimensions
    mean = _tie(x.flatten(0, 2).mean(0), shared) / shared
    var = _tie((x - mean).square_().flatten(0, 2).mean(0), shared) / shared
    inv = (var + eps).rsqrt()
    z = (x - mean) * (inv * scale) + shift
    y, flat = F.max_pool2d(z.permute(0, 3, 1, 2), pool, return_indices=True)
    y, flat = y.permute(0, 2, 3, 1).contiguous(), flat.permute(0, 2, 3, 1).contiguous()
    return Normed(y.relu() if relu else y, x, mean, inv, flat, pool, relu, shared)


def _backward(of: Normed, scale: Tensor, dy: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    places = of.x[..., 0].numel() * of.shared
    g = _open(of, dy)
    normal = (_pick(of, of.x) - of.mean) * of.inv
    dshift, dscale = (_tie(t.sum((0, 1, 2)), of.shared) for t in (g, g * normal))
    step = of.inv * scale
    dx = (of.x - of.mean) * (-step * of.inv * dscale / places) - step * dshift / places
    return _add(of, dx, step * g), dscale, dshift


def _tangent(of: Normed, scale: Tensor, tx: Tensor | None, tscale: Tensor, tshift: Tensor) -> Tangent:
    normal = (_pick(of, of.x) - of.mean) * of.inv
    z = tscale * normal + tshift
    tmean, slope = torch.zeros_like(scale), torch.zeros_like(scale)
    if tx is not None:
        tmean = _tie(tx.mean((0, 1, 2)), of.shared) / of.shared
        slope = _tie(((of.x - of.mean) * tx).mean((0, 1, 2)), of.shared) / of.shared * of.inv
        z = z + scale * of.inv * (_pick(of, tx) - tmean - normal * slope)
    return Tangent(_open(of, z), tx, tmean, slope)


def _tangent_backward(
    of: Normed, along: Tangent, scale: Tensor, tscale: Tensor, gradient: Sequence[Tensor], tdy: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    places = of.x[..., 0].numel() * of.shared
    dy, dscale, dshift = gradient
    g, tg = _open(of, dy), _open(of, tdy)
    normal = (of.x - of.mean) * of.inv
    moved = -normal * (of.inv * along.slope) - of.inv * along.mean
    if along.x is not None:
        moved = moved + of.inv * along.x
    tdshift = _tie(tg.sum((0, 1, 2)), of.shared)
    tdscale = _tie((tg * _pick(of, normal) + g * _pick(of, moved)).sum((0, 1, 2)), of.shared)
    step = of.inv * scale
    tstep = of.inv * tscale - of.inv**2 * along.slope * scale
    tdx = -tstep * (dshift + normal * dscale) - step * (tdshift + moved * dscale + normal * tdscale)
    return _add(of, tdx / places, tstep * g + step * tg), tdscale, tdshift


def _open(of: Normed, t: Tensor) -> Tensor:
    """``t`` where ReLU lets it through."""
    return torch.where(of.y > 0, t, 0) if of.relu else t


def _pick(of: Normed, t: Tensor) -> Tensor:
    """The places of ``t [n, h, w, c]`` that the outputs were taken from; indices of torch's own pooling."""
    return t.flatten(1, 2).gather(1, of.where.flatten(1, 2)).view(of.y.shape)


def _add(of: Normed, t: Tensor, pooled: Tensor) -> Tensor:
    """``pooled`` added to ``t`` at the places that the outputs were taken from."""
    return t.flatten(1, 2).scatter_add(1, of.where.flatten(1, 2), pooled.flatten(1, 2)).view(of.x.shape)
