"""A plane truss of six nodes on elastic supports, solved with scipy: forces to displacements.

The nodes are the corners of two bays side by side. A task draws the stiffness of each kind of bar that the two mirror
symmetries of the rectangle do not distinguish, and of the supports. Mirrors flip the sign of one component: Z_2 x Z_2
by signed permutations.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve

from studies.simulators import Array, Simulator

NODES = np.array([(x, y) for y in (-0.5, 0.5) for x in (-1.3, 0.0, 1.3)])
BARS = (
    ((0, 1), 0), ((1, 2), 0), ((3, 4), 0), ((4, 5), 0),  # along
    ((0, 3), 1), ((2, 5), 1),  # across, at the ends
    ((1, 4), 2),  # across, in the middle
    ((0, 4), 3), ((1, 3), 3), ((2, 4), 3), ((1, 5), 3),  # diagonals
)  # fmt: skip


def truss_maps(generator: np.random.Generator, tasks: int) -> Array:
    """``[tasks, 12, 12]``: displacement of (node, component) for a unit force at (node, component)."""
    maps = []
    for _ in range(tasks):
        kinds = generator.uniform(0.2, 2.0, 4)
        stiffness = np.zeros((12, 12))
        for (a, b), kind in BARS:
            along = NODES[b] - NODES[a]
            direction = along / np.linalg.norm(along)
            bar = np.zeros(12)
            bar[2 * a : 2 * a + 2], bar[2 * b : 2 * b + 2] = -direction, direction
            stiffness += kinds[kind] * np.outer(bar, bar)
        ends, middle = generator.uniform(0.2, 1.0, 2), generator.uniform(0.2, 1.0, 2)
        supports = np.concatenate([ends, middle, ends, ends, middle, ends])
        maps.append(solve(stiffness + np.diag(supports), np.eye(12), assume_a="pos"))
    return np.stack(maps)


_PLACES = [f"{c} of node {i}" for i in range(1, 7) for c in "xy"]

SIMULATORS = {
    "truss": Simulator(
        truss_maps,
        tuple(f"force {place}" for place in _PLACES),
        tuple(f"shift {place}" for place in _PLACES),
        "Z_2 x Z_2",
        "an elastic truss of two bays (scipy), forces to displacements",
    )
}
