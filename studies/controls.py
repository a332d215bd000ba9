"""Negative controls: data that fooled an earlier reading, and what may be named in each.

Most of them have no symmetry at all, and any group that is named is wrong. Some are made from circulant maps (Z_8),
and say in ``truth`` whose group may be named.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from studies.simulators import Array, Simulated

N = 8
TASKS = 300
EXAMPLES = 20
_Drawn = tuple[Array, Array, Array]
"""Inputs, outputs and the maps whose group may be named."""


@dataclass(frozen=True)
class Control:
    """``make(generator)`` gives inputs, outputs, and the maps whose group may be named."""

    make: Callable[[np.random.Generator], _Drawn]
    words: str
    truth: str = "none"
    """``none``: nothing may be named. ``maps``: the group of all tasks' maps. ``deviations``: the maps have no
    symmetry, but their deviations from the mean map have one, which may be told as such."""


def control(name: str, seed: int, *, noise: float = 0.0) -> Simulated:
    """The tasks of a control; noise relative to the outputs' deviation from their mean."""
    generator = np.random.Generator(np.random.PCG64([seed, 16]))
    x, y, maps = CONTROLS[name].make(generator)
    y = y + noise * np.std(y) * generator.standard_normal(y.shape)
    names = tuple(f"{i}" for i in range(maps.shape[2]))
    return Simulated(x, y, maps, names, tuple(f"{i}" for i in range(maps.shape[1])))


def _generic(g: np.random.Generator) -> Array:
    """Maps without symmetry, in a space of 20 dimensions that no permutation keeps, around a mean map."""
    directions = g.standard_normal((20, N, N)) / np.sqrt(20 * N)
    mean = g.standard_normal((N, N)) / np.sqrt(N)
    return np.asarray(mean + np.einsum("tk,kij->tij", g.standard_normal((TASKS, 20)), directions))


def _circulant(g: np.random.Generator) -> Array:
    rows = g.standard_normal((TASKS, N)) / np.sqrt(N)
    shift = (np.arange(N)[:, None] - np.arange(N)[None, :]) % N
    return np.asarray(rows[:, shift])


def _inputs(g: np.random.Generator) -> Array:
    return np.asarray(g.standard_normal((TASKS, EXAMPLES, N)))


def _through(x: Array, maps: Array) -> _Drawn:
    return x, x @ maps.transpose(0, 2, 1), maps


def _mean30(g: np.random.Generator) -> _Drawn:
    return _through(30 + _inputs(g), _generic(g))


def _factor(g: np.random.Generator) -> _Drawn:
    return _through(_inputs(g) + 10 * g.standard_normal((TASKS, EXAMPLES, 1)), _generic(g))


def _duplicates(g: np.random.Generator) -> _Drawn:
    x = _inputs(g)
    x[..., 4:] = x[..., :4]
    return _through(x, _generic(g))


def _constant(g: np.random.Generator) -> _Drawn:
    x = _inputs(g)
    x[..., 2], x[..., 5] = 1.0, 1.0
    return _through(x, _generic(g))


def _tanh(g: np.random.Generator) -> _Drawn:
    x, y, maps = _through(_inputs(g), _generic(g))
    return x, np.tanh(2 * y), maps


def _squares(g: np.random.Generator) -> _Drawn:
    x, y, maps = _through(_inputs(g), _generic(g))
    return x, y**2, np.zeros_like(maps)


def _exchangeable(g: np.random.Generator) -> _Drawn:
    """Inputs whose law every permutation keeps, with a correlation of one half."""
    x = _inputs(g) + g.standard_normal((TASKS, EXAMPLES, 1))
    return _through(x, _generic(g))


def _waves(g: np.random.Generator) -> _Drawn:
    """Inputs that are smooth on a circle: every shift keeps their law."""
    kernel = np.exp(-np.minimum(np.arange(N), N - np.arange(N)) / 2.0)
    shift = (np.arange(N)[:, None] - np.arange(N)[None, :]) % N
    return _through(_inputs(g) @ kernel[shift], _generic(g))


def _sparse(g: np.random.Generator) -> _Drawn:
    """Two weights in each row, such that all inputs and outputs hang together; each weight varies for itself."""
    kept = np.eye(N, dtype=bool) | np.roll(np.eye(N, dtype=bool), 1, axis=1)
    kept = kept[g.permutation(N)][:, g.permutation(N)]
    spread = g.uniform(0.5, 2.0, (N, N))
    return _through(_inputs(g), kept * spread * g.standard_normal((TASKS, N, N)))


def _diagonal(g: np.random.Generator) -> _Drawn:
    spread = g.uniform(0.5, 2.0, N)
    return _through(_inputs(g), np.eye(N) * (spread * g.standard_normal((TASKS, N)))[:, :, None])


def _multiples(g: np.random.Generator) -> _Drawn:
    fixed = g.standard_normal((N, N)) / np.sqrt(N)
    return _through(_inputs(g), g.uniform(0.5, 2.0, (TASKS, 1, 1)) * fixed)


def _nearly(g: np.random.Generator) -> _Drawn:
    other = g.standard_normal((TASKS, N, N)) / np.sqrt(N)
    return _through(_inputs(g), _circulant(g) + 0.1 * other)


def _quadratic(g: np.random.Generator) -> _Drawn:
    """A quarter of the outputs' variance comes from a quadratic map without symmetry."""
    x, y, maps = _through(_inputs(g), _circulant(g))
    forms = g.standard_normal((TASKS, N, N, N))
    squares = np.einsum("tej,tijk,tek->tei", x, forms, x) - np.einsum("tijj->ti", forms)[:, None]
    return x, y + squares * np.std(y) / np.std(squares) / np.sqrt(3), maps


def _outliers(g: np.random.Generator) -> _Drawn:
    maps = _circulant(g)
    all_maps = maps.copy()
    outside = g.permutation(TASKS)[: round(0.03 * TASKS)]
    all_maps[outside] = g.standard_normal((len(outside), N, N)) / np.sqrt(N) * 3
    x, y, _ = _through(_inputs(g), all_maps)
    return x, y, np.delete(maps, outside, 0)


def _fixed(g: np.random.Generator) -> _Drawn:
    fixed = g.standard_normal((N, N)) / np.sqrt(N)
    circulant = _circulant(g)
    x, y, _ = _through(_inputs(g), fixed + circulant)
    return x, y, circulant


CONTROLS = {
    "mean30": Control(_mean30, "inputs of mean 30 and deviation 1"),
    "factor": Control(_factor, "inputs with a common factor"),
    "duplicates": Control(_duplicates, "four inputs that are copies of four others"),
    "constant": Control(_constant, "two constant inputs"),
    "tanh": Control(_tanh, "saturating tasks, read with a linear layer"),
    "squares": Control(_squares, "squared outputs: no linear part at all"),
    "exchangeable": Control(_exchangeable, "exchangeable inputs, generic maps"),
    "waves": Control(_waves, "inputs with a shift-invariant law, generic maps"),
    "sparse": Control(_sparse, "sparse maps, generic values"),
    "diagonal": Control(_diagonal, "diagonal maps, generic values"),
    "multiples": Control(_multiples, "multiples of one generic map"),
    "nearly": Control(_nearly, "circulant maps and a tenth of a generic one"),
    "quadratic": Control(_quadratic, "circulant maps, a quarter of the variance quadratic", "maps"),
    "outliers": Control(_outliers, "circulant maps, 3 % of tasks are others", "maps"),
    "fixed": Control(_fixed, "one fixed generic map plus circulant maps", "deviations"),
}
