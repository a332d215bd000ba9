"""What the entries of a matrix-valued function say before a search: their sizes, and which inputs they join."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.output_actions import Images


def entry_sizes(y: Array) -> Array:
    """Typical sizes ``[n, n]`` of the entries of the matrices ``y [points, n * n]``, by their diagonals."""
    n = int(np.sqrt(y.shape[1]))
    diagonal = np.sqrt(np.abs(y.reshape(-1, n, n)[:, range(n), range(n)]).mean(0))
    sizes = np.outer(diagonal, diagonal)
    return np.asarray(np.maximum(sizes, 1e-12 * sizes.max() + np.finfo(float).tiny))


def coupled_order(y: Array, sizes: Array, idle: Sequence[int]) -> Images:
    """The inputs that may move, each after those whose entries with it are the largest: these tell its sign."""
    n = len(sizes)
    coupling = np.abs(y.reshape(-1, n, n)).mean(0) / sizes
    coupling = np.maximum(coupling, coupling.T)
    left = [i for i in range(n) if i not in idle]
    order: list[int] = []
    while left:
        strength = coupling[np.ix_(left, order or left)]
        order.append(left.pop(int((strength.max(1) if order else strength.sum(1)).argmax())))
    return np.array(order, dtype=np.int64)
