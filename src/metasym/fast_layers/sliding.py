"""Convolutions that torch has a layer for: a kernel that slides over a grid.

Behind a relabelling the grid has to be found first. Take two classes a and b of a convolution: from output i along a
to its input, and back along b, is a step to the output ``a - b`` further on. There is a step for every pair of taps;
those whose paths all have one length are the axes of the grid.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor, nn

from metasym.fast_layers.convolutions import FourierConvolution, Kernel, SlidingLayer
from metasym.fast_layers.pricing import (
    PASS,
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
from metasym.fast_layers.sharing import Classes, Index, Sharing

_TAPS = 8192
"""Taps of a kernel that the search covers."""
_STARTS = 4
"""Classes from which steps to all others are tried."""


@dataclass(frozen=True, eq=False)
class Grid:
    """Outputs and inputs on grids: ``outputs[p]`` stands at the point p, row-major; inputs likewise."""

    shape: tuple[int, ...]
    outputs: Index
    input_shape: tuple[int, ...]
    inputs: Index
    kernel: Classes
    padding: tuple[tuple[int, int], ...]


def find_sliding(sharing: Sharing) -> list[Candidate]:
    """Convolutions over a line, a plane or a space, with or without zeros around it."""
    if not 2 <= sharing.count <= _TAPS or sharing.signed:
        return []
    for grid in _grids(sharing):
        return _candidates(sharing, grid)
    # With more outputs than inputs every tap meets all inputs, but none all outputs: the roles change.
    m, n = sharing.shape
    for grid in _grids(Sharing(sharing.classes.T.copy())) if m > n else ():
        turned = _transposed(grid)
        if turned is not None and _reproduces(sharing, turned):
            return _candidates(sharing, turned)
    return []


def _transposed(grid: Grid) -> Grid | None:
    """The grid of the transposed pattern: the kernel mirrored, as many zeros as reach its other end."""
    flip = (slice(None, None, -1),) * grid.kernel.ndim
    padding = tuple(
        (size - 1 - a, size - 1 - b) for size, (a, b) in zip(grid.kernel.shape, grid.padding, strict=True)
    )
    if min(min(pair) for pair in padding) < 0:
        return None
    kernel = grid.kernel[flip].copy()
    return _in_order(Grid(grid.input_shape, grid.inputs, grid.shape, grid.outputs, kernel, padding))


def _candidates(sharing: Sharing, grid: Grid) -> list[Candidate]:
    m, n = sharing.shape
    kernel = Kernel(grid.kernel, grid.input_shape, padding=grid.padding)
    relabelled = not (
        np.array_equal(grid.outputs, np.arange(m)) and np.array_equal(grid.inputs, np.arange(n))
    )

    def around() -> tuple[Relabelling, Relabelling]:
        return Relabelling(grid.inputs, n), Relabelling(np.argsort(grid.outputs), m)

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        return SlidingLayer(filter, bias, *around(), kernel)

    def by_transforms(filter: Tensor, bias: Tensor | None) -> nn.Module:
        return FourierConvolution(filter, bias, *around(), kernel, m)

    taps = grid.kernel.size
    padded = any(map(any, grid.padding))
    name = "convolution" if padded else "valid convolution"
    shape = " x ".join(map(str, grid.input_shape))
    size = " x ".join(map(str, grid.kernel.shape))
    over, moved = f"{name} of {size} taps over {shape}", ", relabelled" if relabelled else ""
    around_work = gather_work(n, needed=relabelled) + gather_work(m, needed=relabelled)
    work = Work(30, 0.0, m * (SLIDE + TAP * taps) + PASS * m, m * taps).trained(60, 8.0)
    work += build_work(taps, needed=not kernel.free)
    found = [Candidate(name, f"{over}{moved}", work + around_work, build)]
    if len(grid.shape) == 1:
        length = kernel.transform_length(m)
        one_way = TRANSFORM * length * math.log2(length) * smoothness(length)
        fourier = Work(
            7, 0.0, 2 * one_way + 2 * PASS * length, int(2 * length * math.log2(length)) + length
        ).trained(20, 4.0)
        fourier += Work(0, trained_once=4 * one_way)
        words = f"{over}, by FFT{moved}"
        found.append(
            Candidate(name, words, fourier + build_work(taps) + around_work, by_transforms, transforms=True)
        )
    return found


def _grids(sharing: Sharing) -> list[Grid]:
    """Grids in which the pattern is a convolution; the first that is found."""
    maps = _partial_maps(sharing)
    if maps is None:
        return []
    m = sharing.shape[0]
    live = {c: int((taken >= 0).sum()) for c, taken in maps.items()}
    fullest = sorted(maps, key=lambda c: -live[c])[:_STARTS]
    for start in fullest:
        steps: list[tuple[int, Index]] = []
        for other, taken in maps.items():
            # Along paths of two outputs and more a step leaves at least every second output.
            if other == start or 2 * min(live[start], live[other]) < m:
                continue
            step = _step(maps[start], taken, sharing.shape[1])
            length = _path_length(step)
            if length > 1 and m % length == 0:
                steps.append((length, step))
        for axes in range(1, 4):
            for chosen in itertools.combinations(steps, axes):
                if math.prod(length for length, _ in chosen) != m:
                    continue
                points = _coordinates([step for _, step in chosen], [length for length, _ in chosen], m)
                grid = (
                    None
                    if points is None
                    else _checked(sharing, maps, points, tuple(length for length, _ in chosen))
                )
                if grid is not None:
                    return [grid]
            if axes == 1 and len(steps) > 200:
                break
    return []


def _partial_maps(sharing: Sharing) -> dict[int, Index] | None:
    """For every class, the input of each output ``[m]``, -1 for none; None where a row or column has two."""
    m, n = sharing.shape
    if (sharing.sizes[1:] > min(m, n)).any():
        return None
    rows, columns = np.nonzero(sharing.absolute)
    labels = sharing.absolute[rows, columns]
    table = np.full((sharing.count, m), -1, dtype=np.int32)
    table[labels - 1, rows] = columns
    if int((table >= 0).sum()) != len(rows):
        return None  # a class twice in a row
    taken = np.zeros((sharing.count, n), dtype=bool)
    taken[labels - 1, columns] = True
    if int(taken.sum()) != len(rows):
        return None  # or in a column
    return {c + 1: table[c] for c in range(sharing.count)}


def _step(a: Index, b: Index, inputs: int) -> Index:
    """From output i along a to its input and back along b: ``[m]``, -1 where there is no way."""
    back = np.full(inputs + 1, -1)
    live = b >= 0
    back[b[live]] = np.flatnonzero(live)
    found: Index = back[np.where(a >= 0, a, inputs)]
    return found


def _path_length(step: Index) -> int:
    """The length of the paths that a partial map without cycles draws; 0 where they differ or one closes."""
    starts = np.setdiff1d(np.arange(len(step)), step[step >= 0])
    if not len(starts) or len(step) % len(starts):
        return 0
    length, here = len(step) // len(starts), starts
    for _ in range(length - 1):
        here = step[here]
        if (here < 0).any():
            return 0
    return length if (step[here] < 0).all() else 0


def _coordinates(steps: Sequence[Index], lengths: Sequence[int], m: int) -> Index | None:
    """The output at each point of the grid, row-major; None where the steps do not make one."""
    corners = set(range(m))
    for step in steps:
        corners -= set(step[step >= 0].tolist())
    if len(corners) != 1:
        return None
    points = np.array([corners.pop()])
    for step, length in zip(steps, lengths, strict=True):
        lines = [points]
        for _ in range(length - 1):
            points = step[lines[-1]]
            if (points < 0).any():
                return None
            lines.append(points)
        points = np.stack(lines, axis=-1).ravel()
    return points if len(np.unique(points)) == m else None


def _checked(sharing: Sharing, maps: dict[int, Index], points: Index, shape: tuple[int, ...]) -> Grid | None:
    """The grid with its inputs, if the whole pattern is a convolution on it."""
    m, n = sharing.shape
    place = np.empty(m, dtype=np.int64)
    place[points] = np.arange(m)
    coordinates = np.stack(np.unravel_index(place, shape), axis=1)  # of output i
    # Input coordinates relative to output 0's: along a class every output has its input at one offset.
    known = np.zeros(n, dtype=bool)
    where = np.zeros((n, len(shape)), dtype=np.int64)
    offsets: dict[int, Index] = {}
    waiting = sorted(maps, key=lambda c: -int((maps[c] >= 0).sum()))
    offsets[waiting[0]] = np.zeros(len(shape), dtype=np.int64)
    while waiting:
        ready = next((c for c in waiting if c in offsets or known[maps[c][maps[c] >= 0]].any()), None)
        if ready is None:
            return None
        waiting.remove(ready)
        outs = np.flatnonzero(maps[ready] >= 0)
        ins = maps[ready][outs]
        if ready not in offsets:
            seen = known[ins]
            offsets[ready] = (where[ins[seen]] - coordinates[outs[seen]])[0]
        at = coordinates[outs] + offsets[ready]
        if known[ins].any() and not np.array_equal(where[ins][known[ins]], at[known[ins]]):
            return None
        where[ins], known[ins] = at, True
    if not known.all():
        return None
    low = where.min(0)
    input_shape = tuple(int(s) for s in where.max(0) - low + 1)
    if math.prod(input_shape) != n:
        return None
    where -= low
    taps = np.stack([offsets[c] - low for c in sorted(offsets)])
    first, last = taps.min(0), taps.max(0)
    sizes = tuple(int(s) for s in last - first + 1)
    if math.prod(sizes) > 4 * len(taps) or (len(shape) > 1 and math.prod(sizes) > 256):
        return None
    kernel = np.zeros(sizes, dtype=np.int64)
    kernel[tuple((taps - first).T)] = sorted(offsets)
    padding = tuple(
        (int(-first[a]), int(shape[a] - 1 + last[a] - (input_shape[a] - 1))) for a in range(len(shape))
    )
    if any(side < 0 for pair in padding for side in pair):
        return None
    inputs = np.empty(n, dtype=np.int64)
    flat = np.ravel_multi_index(tuple(where.T), input_shape)
    if len(np.unique(flat)) != n:
        return None
    inputs[flat] = np.arange(n)
    grid = Grid(shape, points, input_shape, inputs, kernel, padding)
    return _in_order(grid) if _reproduces(sharing, grid) else None


def _in_order(grid: Grid) -> Grid:
    """The grid with its axes turned and mirrored so that inputs stand in their own order, if any way does that."""
    axes = range(len(grid.shape))
    for order in itertools.permutations(axes):
        for flips in itertools.product((1, -1), repeat=len(order)):
            look = tuple(slice(None, None, step) for step in flips)

            inputs = grid.inputs.reshape(grid.input_shape).transpose(order)[look]
            if not np.array_equal(inputs.ravel(), np.arange(inputs.size)):
                continue
            outputs = grid.outputs.reshape(grid.shape).transpose(order)[look]
            kernel = grid.kernel.transpose(order)[look]
            pads = [grid.padding[a][::step] for a, step in zip(order, flips, strict=True)]
            return Grid(
                outputs.shape,
                outputs.ravel(),
                inputs.shape,
                inputs.ravel(),
                kernel.copy(),
                tuple((a, b) for a, b in pads),
            )
    return grid


def _reproduces(sharing: Sharing, grid: Grid) -> bool:
    """Whether the convolution on this grid has the whole pattern."""
    m, n = sharing.shape
    found = np.zeros((m, n), dtype=np.int64)
    outs = np.stack(np.unravel_index(np.arange(m), grid.shape), axis=1)
    for tap in np.argwhere(grid.kernel):
        at = outs + tap - [a for a, _ in grid.padding]
        inside = ((at >= 0) & (at < grid.input_shape)).all(1)
        flat = np.ravel_multi_index(tuple(at[inside].T), grid.input_shape)
        found[grid.outputs[inside], grid.inputs[flat]] = grid.kernel[tuple(tap)]
    return bool(np.array_equal(found, sharing.classes))
