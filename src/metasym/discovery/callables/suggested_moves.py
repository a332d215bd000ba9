"""Signed permutations that are worth a call by themselves: flips, exchanges, and moves of grids and of blocks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from metasym.discovery.callables.output_actions import Images
from metasym.groups.signed_permutations import SignedPermutation

_MOST = 20_000
"""Suggestions in all."""
_MOST_PAIRS = 128
"""Inputs up to which all pairs are suggested."""


def suggested_moves(n: int, shape: tuple[int, ...]) -> list[SignedPermutation]:
    """Of the inputs, each once; ``shape`` is that of one input."""
    every = np.arange(n)
    seen: dict[bytes, tuple[Images, Images]] = {}

    def add(images: Images, signs: Images) -> None:
        if (images == every).all() and (signs > 0).all():
            return
        seen.setdefault(images.tobytes() + signs.tobytes(), (images, signs))

    ones: Images = np.ones(n, dtype=np.int64)
    if n <= _MOST_PAIRS:  # first: groups of exchanges are named at a glance
        for i in range(n):
            for j in range(i):
                add(_exchange(n, i, j), ones)
    add(every, -ones)
    for i in range(n):
        flipped = ones.copy()
        flipped[i] = -1
        add(every, flipped)
    for layout in _layouts(n, shape):
        for images, signs in _of_grid(layout):
            add(images, signs)
            add(images, -signs)  # a field that is reversed often changes its sign
    if n <= _MOST_PAIRS:
        for i in range(n):
            for j in range(i):
                flipped = ones.copy()
                flipped[[i, j]] = -1
                add(_exchange(n, i, j), flipped)
                add(every, flipped)
    return [
        SignedPermutation.of((), images, (), signs)
        for images, signs in itertools.islice(seen.values(), _MOST)
    ]


def _exchange(n: int, i: int, j: int) -> Images:
    images = np.arange(n)
    images[[i, j]] = [j, i]
    return images


def _layouts(n: int, shape: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """The inputs as a grid: as they came, then every product of two or three factors."""
    if len(shape) > 1:
        yield shape
    yield (n,)
    divisors = [d for d in range(2, n) if n % d == 0]
    for a in divisors:
        yield (a, n // a)
    for a in divisors:
        for b in divisors:
            if n % (a * b) == 0 and n // (a * b) > 1:
                yield (a, b, n // (a * b))


def _of_grid(layout: tuple[int, ...]) -> Iterator[tuple[Images, Images]]:
    """Images and signs. Along each axis: exchanges of neighbours, shifts, reversal, flips; then axes exchanged."""
    grid = np.arange(int(np.prod(layout))).reshape(layout)
    ones = np.ones(grid.size, dtype=np.int64)

    def move(source: Images) -> Images:
        images = np.empty(grid.size, dtype=np.int64)
        images[source.ravel()] = np.arange(grid.size)
        return images

    reversals = [np.flip(grid, axis) for axis in range(grid.ndim)]
    for axis, length in enumerate(layout):
        yield move(reversals[axis]), ones
        yield move(np.roll(grid, 1, axis)), ones
        yield move(np.roll(np.flip(grid, axis), 1, axis)), ones
        for i in range(length):
            signs = np.ones(layout, dtype=np.int64)
            signs[(slice(None),) * axis + (i,)] = -1
            yield np.arange(grid.size), signs.ravel()
            if i + 1 < length:
                order = np.arange(length)
                order[[i, i + 1]] = [i + 1, i]
                yield move(np.take(grid, order, axis)), ones
    for a in range(grid.ndim):
        for b in range(a):
            yield move(np.flip(np.flip(grid, a), b)), ones
            if layout[a] == layout[b]:
                yield move(np.swapaxes(grid, a, b)), ones
                yield move(np.flip(np.swapaxes(grid, a, b), b)), ones
