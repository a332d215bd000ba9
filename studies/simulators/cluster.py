"""Clusters of four metal atoms in ase: displacements of the atoms to the forces on them.

A task is an element (of those that ase's effective-medium potential knows), a bond length, and the spring by which a
surrounding matrix holds each atom. The atoms form a regular tetrahedron, whose 24 rotations and reflections permute
atoms and axes (with signs): T_d, isomorphic to S_4. spglib finds them again in the coordinates.
"""

from __future__ import annotations

import numpy as np
import spglib
import spglib.error
from ase import Atoms
from ase.calculators.emt import EMT

from studies.simulators import Array, Simulator

ELEMENTS = ("Ni", "Cu", "Pd", "Ag", "Pt", "Au", "Al")
BONDS = {"Ni": 2.3, "Cu": 2.4, "Pd": 2.6, "Ag": 2.7, "Pt": 2.6, "Au": 2.7, "Al": 2.7}
"""About the bond lengths of the free clusters, in angstroms."""
CORNERS = np.array([(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)], dtype=float)
STEP = 1e-4
"""Displacement for the central differences, in angstroms; they keep every symmetry exactly."""


def atoms(element: str, bond: float) -> Atoms:
    """The cluster, centred at 0."""
    return Atoms(f"{element}4", positions=CORNERS * bond / np.sqrt(8))


def cluster_maps(generator: np.random.Generator, tasks: int) -> Array:
    """``[tasks, 12, 12]``: force on (atom, component) for a unit displacement of (atom, component), in eV/A^2."""
    maps = np.empty((tasks, 12, 12))
    for task in range(tasks):
        element = str(generator.choice(ELEMENTS))
        bond = BONDS[element] * generator.uniform(0.9, 1.15)
        held = generator.uniform(0.1, 2.0)
        cluster = atoms(element, bond)
        cluster.calc = EMT()
        rest = cluster.get_positions()
        for j in range(12):
            forces = []
            for sign in (1, -1):
                moved = rest.copy()
                moved[j // 3, j % 3] += sign * STEP
                cluster.set_positions(moved)
                forces.append(cluster.get_forces().ravel())
            maps[task, :, j] = (forces[0] - forces[1]) / (2 * STEP)
        maps[task] -= held * np.eye(12)
    return maps


def rotations(element: str = "Cu", bond: float = 2.4) -> list[tuple[Array, list[int]]]:
    """The symmetries that spglib sees in the coordinates: a matrix for the axes, and where each atom goes."""
    cluster = atoms(element, bond)
    cell = 20 * np.eye(3)
    positions = cluster.get_positions() / 20 + 0.5
    spglib.error.OLD_ERROR_HANDLING = False  # errors as exceptions, and no warning that this is new
    found = spglib.get_symmetry((cell, positions, cluster.get_atomic_numbers()), symprec=1e-5)
    elements = []
    for rotation, translation in zip(found["rotations"], found["translations"], strict=True):
        moved = (positions @ rotation.T + translation) % 1
        images = [int(np.argmin(np.linalg.norm(positions - p, axis=1))) for p in moved]
        elements.append((rotation.astype(float), images))
    return elements


_PLACES = [f"{c} of atom {i}" for i in range(1, 5) for c in "xyz"]

SIMULATORS = {
    "cluster": Simulator(
        cluster_maps,
        tuple(f"shift {place}" for place in _PLACES),
        tuple(f"force {place}" for place in _PLACES),
        "S_4",
        "tetrahedra of seven metals (ase, spglib), displacements to forces",
    )
}
