"""Circular convolutions on a torus of any dimension: by FFT, or tap by tap where there are few."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from metasym.fast_layers.compiled_layer import StructuredLayer
from metasym.fast_layers.convolutions import Kernel, SlidingLayer
from metasym.fast_layers.pricing import (
    AXIS,
    PASS,
    PLANES,
    SLIDE,
    TAP,
    TRANSFORM,
    Candidate,
    Work,
    build_work,
    gather_work,
    smoothness,
)
from metasym.fast_layers.relabelling import Relabelling
from metasym.fast_layers.sharing import Classes, Expansion, Index, Sharing
from metasym.fast_layers.shifts import Torus, differences, find_torus
from metasym.groups.signed_permutations import SignedPermutation

_DIRECT = 128
"""Taps of a kernel that may be applied one by one."""


class CircularConvolution(StructuredLayer):
    """``y[i] = sum_j k[i - j] x[j]`` on a torus, by Fourier transforms.

    Negacyclic: what wraps around changes its sign.

    ``kernel [*dims]`` has the class of every k, 0 for zero.
    """

    def __init__(
        self,
        filter: Tensor,
        bias: Tensor | None,
        before: Relabelling,
        after: Relabelling,
        kernel: Classes,
        *,
        negacyclic: bool = False,
    ) -> None:
        super().__init__(filter, bias, before, after)
        self.dims = tuple(int(d) for d in kernel.shape)
        self.negacyclic = negacyclic
        self.expansion = Expansion(kernel, len(filter))

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., n] -> y [..., n]``."""
        memory, filter = self._memory, self._parameters["filter"]
        # Along a circle, with a spectrum that is still right: the same as below with fewer calls, which count there.
        if (
            memory is None
            or x.ndim != 2
            or len(self.dims) != 1
            or self.negacyclic
            or type(filter) is not nn.Parameter
            or not filter.is_cpu
            or not x.dtype == filter.dtype == memory[0].dtype
            or x.dtype not in (torch.float32, torch.float64)
            or (filter.requires_grad and torch.is_grad_enabled())
            or torch.compiler.is_compiling()
            or not len(x)
            or not torch.equal(memory[0], filter)
        ):
            return super().forward(x)
        turned = torch.fft.rfft(x if self.plain[0] else self.before(x)).mul_(memory[1])
        y: Tensor = torch.fft.irfft(turned, self.dims[0])
        y = y if self.plain[1] else self.after(y)
        return y if self.bias is None else y + self.bias

    def prepared(self) -> Tensor:
        """The kernel's spectrum."""
        return self.made(self._spectrum)

    def _spectrum(self, filter: Tensor) -> Tensor:
        kernel: Tensor = self.expansion(filter)
        if kernel.dtype not in (torch.float32, torch.float64):
            kernel = kernel.float()
        found: Tensor
        if len(self.dims) == 1:
            found = torch.fft.rfft(kernel, self.dims[0] * (2 if self.negacyclic else 1))
        else:
            found = torch.fft.rfftn(kernel, dim=tuple(range(-len(self.dims), 0)))
        return found

    def product(self, x: Tensor) -> Tensor:
        """``[examples, n] -> [examples, n]``."""
        spectrum: Tensor = self.prepared()
        dtype = x.dtype
        if dtype not in (torch.float32, torch.float64):  # the transforms know no shorter ones
            x = x.float()
        if self.negacyclic:
            (n,) = self.dims
            both = torch.fft.irfft(self.times(torch.fft.rfft(x, 2 * n), spectrum), 2 * n)
            y = both[:, :n] - both[:, n:]
        elif len(self.dims) == 1:
            y = torch.fft.irfft(self.times(torch.fft.rfft(x), spectrum), self.dims[0])
        else:
            axes = tuple(range(-len(self.dims), 0))
            turned = self.times(torch.fft.rfftn(x.reshape(-1, *self.dims), dim=axes), spectrum)
            y = torch.fft.irfftn(turned, s=self.dims, dim=axes).flatten(1)
        found: Tensor = y
        return found if found.dtype == dtype else found.to(dtype)  # exported programs would keep an idle step

    def extra_repr(self) -> str:
        """With the torus."""
        kind = "negacyclic, " if self.negacyclic else ""
        return f"{kind}torus {' x '.join(map(str, self.dims))}, {super().extra_repr()}"


def find_circular(sharing: Sharing, symmetries: Sequence[SignedPermutation] = ()) -> list[Candidate]:
    """Circular convolutions with this pattern."""
    torus = find_torus(sharing, symmetries)
    if torus is None:
        return []
    found = _with_signs(sharing, torus)
    if found is None:
        return []
    output_signs, input_signs, kernel, negacyclic = found
    relabelled = any(
        not np.array_equal(side, np.arange(torus.size)) for side in (torus.outputs, torus.inputs)
    )
    candidates = [_by_transforms(torus, kernel, output_signs, input_signs, negacyclic, relabelled)]
    if not negacyclic:
        direct = _tap_by_tap(torus, kernel, output_signs, input_signs)
        candidates += [] if direct is None else [direct]
    return candidates


def around(
    torus: Torus, output_signs: Index | None, input_signs: Index | None
) -> tuple[Relabelling, Relabelling]:
    """The gathers before and after; signs are those of the points of the torus."""
    back = np.argsort(torus.outputs)
    signs = None if output_signs is None else output_signs[back]
    return Relabelling(torus.inputs, torus.size, input_signs), Relabelling(back, torus.size, signs)


def _by_transforms(
    torus: Torus,
    kernel: Classes,
    output_signs: Index | None,
    input_signs: Index | None,
    negacyclic: bool,
    relabelled: bool,
) -> Candidate:
    dims = torus.dims
    # y_i = sum_j K[j - i] x_j: as a convolution the kernel is mirrored.
    mirrored = kernel.reshape(dims)
    for axis in range(len(dims)):
        mirrored = np.take(mirrored, -np.arange(dims[axis]) % dims[axis], axis=axis)
    if negacyclic:  # K[-t] that has wrapped around once more
        mirrored = np.concatenate([mirrored[:1], -mirrored[1:]])

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        before, after = around(torus, output_signs, input_signs)
        return CircularConvolution(filter, bias, before, after, mirrored, negacyclic=negacyclic)

    length = math.prod(dims) * (2 if negacyclic else 1)
    rates = [TRANSFORM * math.log2(length / math.prod(dims) * d) * smoothness(d) for d in dims]
    one_way = length * (rates[0] if len(dims) == 1 else sum(max(AXIS, PLANES * rate) for rate in rates))
    # The spectrum of the kernel is made in every step of a training, else once.
    work = Work(
        (16 if negacyclic else 5) if len(dims) == 1 else 22,
        0.0,
        2 * one_way + (4 if negacyclic else 2) * PASS * length,
        int(2 * length * math.log2(length)) + length,
    ).trained((31 if negacyclic else 17) if len(dims) == 1 else 40, 4.0 if len(dims) == 1 else 3.0)
    work += Work(0, trained_once=4 * one_way)
    work += gather_work(torus.size, needed=relabelled) + gather_work(torus.size, needed=relabelled)
    work += build_work(torus.size)
    what = "signed circular convolution" if negacyclic or output_signs is not None else "circular convolution"
    words = f"{what} {points_in_words(dims)}, by FFT{', relabelled' if relabelled else ''}"
    return Candidate("circular convolution", words, work, build, transforms=True)


def points_in_words(dims: Sequence[int]) -> str:
    """``of 256 points`` or ``of a 16 x 16 torus``."""
    return f"of {dims[0]} points" if len(dims) == 1 else f"of a {' x '.join(map(str, dims))} torus"


def _tap_by_tap(
    torus: Torus, kernel: Classes, output_signs: Index | None, input_signs: Index | None
) -> Candidate | None:
    """Few taps that lie close together: torch's convolution with circular padding."""
    taps = np.flatnonzero(kernel)
    if len(torus.dims) > 3 or len(taps) > _DIRECT:
        return None
    torus, kernel = _narrow(torus, kernel)
    dims, grid = torus.dims, kernel.reshape(torus.dims)
    starts, sizes = zip(
        *(_window(np.unique(np.nonzero(grid)[axis]), d) for axis, d in enumerate(dims)), strict=True
    )
    if math.prod(sizes) > _DIRECT or any(2 * s > d + 1 for s, d in zip(sizes, dims, strict=True)):
        return None
    # padding="same" puts the window at -(size - 1) // 2: the outputs are moved so that it is there.
    left = [(size - 1) // 2 for size in sizes]
    offset = [-(start + shift) for start, shift in zip(starts, left, strict=True)]
    moved = torus.moved(offset)
    signs = output_signs
    if signs is not None:
        signs = np.roll(signs.reshape(dims), [-o for o in offset], axis=tuple(range(len(dims)))).ravel()
    window = np.ix_(
        *((start + np.arange(size)) % d for start, size, d in zip(starts, sizes, dims, strict=True))
    )
    inside: Classes = grid[window]
    relabelled = any(
        not np.array_equal(side, np.arange(torus.size)) for side in (moved.outputs, moved.inputs)
    )

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        before, after = around(moved, signs, input_signs)
        return SlidingLayer(filter, bias, before, after, Kernel(inside, dims, circular=True))

    taps_work = torus.size * (SLIDE + TAP * inside.size)
    work = Work(34, 0.0, taps_work + PASS * torus.size, torus.size * inside.size).trained(64, 8.0)
    work += gather_work(torus.size, needed=relabelled) + gather_work(torus.size, needed=relabelled)
    words = (
        f"circular convolution {points_in_words(dims)}, {' x '.join(map(str, sizes))} taps"
        f"{', relabelled' if relabelled else ''}"
    )
    return Candidate("circular convolution", words, work, build)


def _narrow(torus: Torus, kernel: Classes) -> tuple[Torus, Classes]:
    """The steps along each axis for which the taps lie closest together."""
    for axis, d in enumerate(torus.dims):
        taps = np.unique(np.nonzero(kernel.reshape(torus.dims))[axis])
        units = {1} | {int(t - taps[0]) for t in taps if math.gcd(int(t - taps[0]), d) == 1}
        best = min(sorted(units), key=lambda u: _window(np.unique((taps * pow(u, -1, d)) % d), d)[1])
        if best != 1:
            torus = torus.rescaled(axis, best)
            kernel = np.take(kernel.reshape(torus.dims), np.arange(d) * best % d, axis=axis).ravel()
    return torus, kernel


def _window(taps: Index, length: int) -> tuple[int, int]:
    """Start and size of the smallest window on a circle that holds all taps."""
    gaps = np.diff(np.concatenate([taps, taps[:1] + length]))
    widest = int(gaps.argmax())
    return int(taps[(widest + 1) % len(taps)]), length - int(gaps[widest]) + 1


def _with_signs(sharing: Sharing, torus: Torus) -> tuple[Index | None, Index | None, Classes, bool] | None:
    """Signs of outputs and inputs (by point) with which the pattern depends on differences alone.

    And the kernel ``[n]``, the signed class of each difference, and whether it is negacyclic. None where no signs do.
    """
    classes = sharing.part(torus.outputs, torus.inputs)
    offsets = differences(torus.dims)
    if np.array_equal(classes, classes[0][offsets]):
        return None, None, classes[0], False
    if len(torus.dims) > 1:
        return None
    n = torus.size
    wraps = np.tril(np.ones((n, n), dtype=bool), -1)  # j < i: the difference has wrapped around
    signs = np.sign(classes)
    for second in (1, -1):
        fitted = _gauge(signs, second)
        if fitted is None:
            continue
        outputs, inputs = fitted
        plain = classes * outputs[:, None] * inputs[None, :]
        for twisted in (False, True):
            expected = plain[0][offsets]
            if twisted:
                expected = np.where(wraps, -expected, expected)
            if np.array_equal(plain, expected):
                trivial = bool((outputs > 0).all() and (inputs > 0).all())
                return (None if trivial else outputs), (None if trivial else inputs), plain[0], twisted
    return None


def _gauge(signs: Index, second: int) -> tuple[Index, Index] | None:
    """Signs of outputs and inputs that make the first two rows, and the first diagonal with no zeros, agree.

    With ``signs[i, j] = s_i t_j u_(j - i)`` and row 0 as u, row 1 ties t_j to t_(j - 1);
    the diagonal ties s_i to t_i.
    """
    n = len(signs)
    live = np.flatnonzero(signs[0])
    if len(live) < n:
        return None
    inputs: Any = np.ones(n, dtype=np.int64)
    inputs[1] = second
    first = signs[1, 1] * signs[0, 0] * second  # s_1
    for j in range(2, n):
        inputs[j] = first * signs[1, j] * signs[0, j - 1] * inputs[j - 1]
    diagonal = signs[np.arange(n), np.arange(n)]
    outputs = diagonal * signs[0, 0] * inputs
    return outputs, inputs
