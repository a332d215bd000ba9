"""Sharing patterns by name, written down entry by entry: what the compiler has to find behind a relabelling."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Classes = npt.NDArray[np.int64]


def circular(n: int) -> Classes:
    i = np.arange(n)
    return (i[None, :] - i[:, None]) % n + 1


def dihedral(n: int) -> Classes:
    d = circular(n) - 1
    return np.minimum(d, n - d) + 1


def torus(a: int, b: int) -> Classes:
    x, y = np.divmod(np.arange(a * b), b)
    return ((x[None] - x[:, None]) % a) * b + (y[None] - y[:, None]) % b + 1


def negacyclic(n: int) -> Classes:
    i = np.arange(n)
    return np.where(i[None, :] < i[:, None], -circular(n), circular(n))


def symmetric(n: int) -> Classes:
    return np.eye(n, dtype=np.int64) + 1


def exchangeable(a: int, b: int) -> Classes:
    x, y = np.divmod(np.arange(a * b), b)
    row, column = x[None] == x[:, None], y[None] == y[:, None]
    return np.where(row & column, 1, np.where(row, 2, np.where(column, 3, 4)))


def blocks(count: int, size: int) -> Classes:
    inside = np.arange(1, size * size + 1).reshape(size, size)
    found = np.zeros((count * size, count * size), dtype=np.int64)
    for k in range(count):
        found[k * size : (k + 1) * size, k * size : (k + 1) * size] = inside + k * size * size
    return found


def equal_blocks(count: int, size: int) -> Classes:
    return np.kron(np.eye(count, dtype=np.int64), np.arange(1, size * size + 1).reshape(size, size))


def valid(n: int, taps: int) -> Classes:
    found = np.zeros((n - taps + 1, n), dtype=np.int64)
    for i in range(len(found)):
        found[i, i : i + taps] = np.arange(1, taps + 1)
    return found


def padded(n: int, taps: int) -> Classes:
    whole = np.zeros((n, n + taps - 1), dtype=np.int64)
    for i in range(n):
        whole[i, i : i + taps] = np.arange(1, taps + 1)
    return whole[:, taps // 2 : taps // 2 + n]


def toeplitz(m: int, n: int) -> Classes:
    return np.arange(n)[None, :] - np.arange(m)[:, None] + m


def full(n: int, taps: int) -> Classes:
    """Every place where the kernel meets the inputs at all: more outputs than inputs."""
    return valid(n + taps - 1, taps).T.copy()


def valid_plane(height: int, width: int, taps: int) -> Classes:
    rows, columns = height - taps + 1, width - taps + 1
    found = np.zeros((rows, columns, height, width), dtype=np.int64)
    for i in range(rows):
        for j in range(columns):
            found[i, j, i : i + taps, j : j + taps] = np.arange(1, taps * taps + 1).reshape(taps, taps)
    return found.reshape(rows * columns, height * width)


def few_taps(n: int, taps: int) -> Classes:
    d = circular(n)
    return np.where(d <= taps, d, 0)


def relabelled(classes: Classes, draw: np.random.Generator, *, signs: bool = False) -> Classes:
    m, n = classes.shape
    found = classes[draw.permutation(m)][:, draw.permutation(n)]
    if signs:
        found = found * draw.choice([-1, 1], m)[:, None] * draw.choice([-1, 1], n)[None, :]
    return found
