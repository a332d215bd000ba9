"""Resistor networks solved with scipy: currents that are fed in at nodes, to the nodes' potentials.

``resistors``: a 3 x 3 grid of nodes, currents at the eight on the border, potentials at all nine. A task draws one
conductance for each kind of wire that the square's symmetries do not distinguish, and the leaks to the ground: D_4.
``resistors-generic``: ten wires between eight nodes without any symmetry, each with a conductance of its own.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import spsolve

from studies.simulators import Array, Simulator


def _grid_wires() -> tuple[list[tuple[int, int]], list[int]]:
    """Wires between neighbours of the 3 x 3 grid (diagonals too), and the kind of each."""
    wires, kinds = [], []
    for a in range(9):
        for b in range(a + 1, 9):
            (r, c), (s, d) = divmod(a, 3), divmod(b, 3)
            if max(abs(r - s), abs(c - d)) > 1:
                continue
            diagonal = r != s and c != d
            centre = 4 in (a, b)
            wires.append((a, b))
            kinds.append(2 * diagonal + centre)
    return wires, kinds


def potentials(wires: list[tuple[int, int]], conductances: Array, leaks: Array) -> Array:
    """``[nodes, nodes]``: the potential of each node for a unit current into one of them."""
    a, b = np.array(wires).T
    nodes = len(leaks)
    rows = np.concatenate([a, b, a, b, np.arange(nodes)])
    columns = np.concatenate([a, b, b, a, np.arange(nodes)])
    values = np.concatenate([conductances, conductances, -conductances, -conductances, leaks])
    laplacian = coo_array((values, (rows, columns)), shape=(nodes, nodes)).tocsc()
    return np.asarray(spsolve(laplacian, np.eye(nodes)))


BORDER = (0, 1, 2, 3, 5, 6, 7, 8)


def grid_maps(generator: np.random.Generator, tasks: int) -> Array:
    """``[tasks, 9, 8]``."""
    wires, kinds = _grid_wires()
    places = np.array([(i % 2 == 1) + 2 * (i == 4) for i in range(9)])  # corner, middle of a side, centre
    maps = []
    for _ in range(tasks):
        conductance, leak = generator.uniform(0.2, 2.0, 4), generator.uniform(0.1, 1.0, 3)
        maps.append(potentials(wires, conductance[kinds], leak[places])[:, BORDER])
    return np.stack(maps)


GENERIC_WIRES = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (4, 5), (4, 6), (5, 7), (1, 6), (0, 7)]


def generic_maps(generator: np.random.Generator, tasks: int) -> Array:
    """``[tasks, 8, 8]``."""
    return np.stack(
        [
            potentials(GENERIC_WIRES, generator.uniform(0.2, 2.0, 10), generator.uniform(0.1, 1.0, 8))
            for _ in range(tasks)
        ]
    )


SIMULATORS = {
    "resistors": Simulator(
        grid_maps,
        tuple(f"current {i + 1}" for i in BORDER),
        tuple(f"potential {i + 1}" for i in range(9)),
        "D_4",
        "a 3 x 3 grid of resistors (scipy), border currents to potentials",
    ),
    "resistors-generic": Simulator(
        generic_maps,
        tuple(f"current {i}" for i in range(1, 9)),
        tuple(f"potential {i}" for i in range(1, 9)),
        "none",
        "ten different resistors, no symmetry",
    ),
}
