"""Tasks made by real simulators, each with the symmetry group that its maps truly have.

A simulator draws physical parameters for every task and answers with the linear map of each task. ``simulate`` makes
examples of them, and ``true_group`` (a module beside this package) finds by search over all signed permutations
which symmetries they have. Nothing here uses what metasym reads off a learned U.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

MODULES = {
    "ant": "ant",
    "satellites": "satellites",
    "orbits": "satellites",
    "resistors": "resistors",
    "resistors-generic": "resistors",
    "truss": "truss",
    "cluster": "cluster",
}
"""Every simulator, and the module of this package that holds it."""
SIMULATORS = tuple(MODULES)


@dataclass(frozen=True)
class Simulated:
    """The tasks of one simulator and seed."""

    x: Array
    """``[tasks, examples, n]``"""
    y: Array
    """``[tasks, examples, m]``, with noise."""
    maps: Array
    """``[tasks, m, n]``: the map of each task, without noise."""
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]


@dataclass(frozen=True)
class Simulator:
    """How tasks are made: ``draw(generator, tasks)`` gives the map of every task, ``[tasks, m, n]``."""

    draw: Callable[[np.random.Generator, int], Array]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    group: str
    """The group that its construction suggests; the maps may have more symmetries than that."""
    words: str
    """What it is, for tables."""


def simulator(name: str) -> Simulator:
    """The simulator of a name; its package is imported only now."""
    made: Simulator = import_module(f"{__name__}.{MODULES[name]}").SIMULATORS[name]
    return made


def simulate(name: str, seed: int, *, tasks: int = 500, examples: int = 20, noise: float = 0.0) -> Simulated:
    """The tasks of a seed: inputs from N(0, 1), noise as a share of the outputs' root mean square."""
    source, maps = simulator(name), _maps(name, seed, tasks)
    x, y = examples_of(maps, np.random.Generator(np.random.PCG64([seed, 14, 1])), examples, noise)
    return Simulated(x, y, maps, source.input_names, source.output_names)


@lru_cache(maxsize=128)
def _maps(name: str, seed: int, tasks: int) -> Array:
    """Simulated once for all noise levels."""
    maps = simulator(name).draw(np.random.Generator(np.random.PCG64([seed, 14])), tasks)
    maps.flags.writeable = False
    return maps


def examples_of(
    maps: Array, generator: np.random.Generator, examples: int, noise: float
) -> tuple[Array, Array]:
    """Inputs from N(0, 1) ``[tasks, examples, n]`` and the maps' outputs ``[tasks, examples, m]`` with noise."""
    x = generator.standard_normal((len(maps), examples, maps.shape[2]))
    y = x @ maps.transpose(0, 2, 1)
    return x, y + noise * np.sqrt(np.mean(y**2)) * generator.standard_normal(y.shape)
