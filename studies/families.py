"""Planted families in harder conditions: classes that vary unequally, correlated inputs, few examples, few tasks."""

from __future__ import annotations

import math

import numpy as np

from metasym.groups import Group, cyclic, equivariant_basis, shifts
from metasym.tasks.planted import planted_group
from studies.simulators import Array, Simulated

FAMILIES = (
    "shifts12",
    "dihedral10",
    "reflection10",
    "blocks9",
    "grid10",
    "signed8",
    "none8",
    "shifts9",
    "torus9",
)
"""The fully connected ones of :mod:`metasym.tasks.planted`, and shifts of 9 points and of a 3 x 3 torus."""
CONDITIONS = ("plain", "decay", "correlated", "examples5", "tasks20")
DECAY = 100.0
CONDITION = 1000.0


def family_group(name: str) -> Group:
    """The group of a family, acting alike on inputs and outputs."""
    own = {"shifts9": lambda: shifts(9), "torus9": lambda: cyclic(3).product(cyclic(3), "product")}
    group = own[name]() if name in own else planted_group(name)
    assert group is not None
    return group


def tied_classes(name: str) -> Array:
    """The classes of tied weights as orthonormal columns ``[n n, classes]``."""
    group = family_group(name)
    basis = equivariant_basis(group, group).numpy()
    projection = basis @ basis.T  # an entry's row is the average of its class
    rows = np.round(projection, 9) + 0.0
    leading = np.take_along_axis(rows, (rows != 0).argmax(1)[:, None], 1)
    _, first = np.unique(rows * np.sign(leading), axis=0, return_index=True)
    classes = projection[:, [i for i in first if np.any(rows[i])]]
    return np.asarray(classes / np.linalg.norm(classes, axis=0))


def family_maps(
    name: str, generator: np.random.Generator, tasks: int, *, decay: float = 1.0
) -> tuple[Array, Array]:
    """Maps ``[tasks, n, n]`` with entries of mean square 1 / n, and the prior's U ``[n n, classes]`` (mean 0).

    The standard deviations of the classes fall geometrically by ``decay``, in an order that is drawn.
    """
    classes = tied_classes(name)
    n = math.isqrt(len(classes))
    scales = np.geomspace(1, 1 / decay, classes.shape[1])[generator.permutation(classes.shape[1])]
    U = classes * scales
    U *= math.sqrt(n) / np.linalg.norm(U)
    maps = (generator.standard_normal((tasks, U.shape[1])) @ U.T).reshape(tasks, n, n)
    return maps, U


def correlated_inputs(
    generator: np.random.Generator, tasks: int, examples: int, n: int, condition: float
) -> Array:
    """Gaussian inputs whose covariance has this condition number and a mean variance of 1."""
    spread = np.geomspace(1, 1 / condition, n)
    rotation = np.linalg.qr(generator.standard_normal((n, n)))[0]
    mixing = rotation * np.sqrt(spread / spread.mean())
    return np.asarray(generator.standard_normal((tasks, examples, n)) @ mixing.T)


def family(
    name: str,
    seed: int,
    *,
    condition: str = "plain",
    noise: float = 0.0,
    tasks: int = 500,
    examples: int = 20,
) -> Simulated:
    """The tasks of a planted family in one of the :data:`CONDITIONS`; noise relative to the outputs."""
    generator = np.random.Generator(np.random.PCG64([seed, 15]))
    tasks = 20 if condition == "tasks20" else tasks
    examples = 5 if condition == "examples5" else examples
    maps, _ = family_maps(name, generator, tasks, decay=DECAY if condition == "decay" else 1.0)
    n = maps.shape[1]
    ill = CONDITION if condition == "correlated" else 1.0
    x = correlated_inputs(generator, tasks, examples, n, ill)
    y = x @ maps.transpose(0, 2, 1)
    y = y + noise * np.sqrt(np.mean(y**2)) * generator.standard_normal(y.shape)
    names = tuple(f"{i}" for i in range(n))
    return Simulated(x, y, maps, names, names)
