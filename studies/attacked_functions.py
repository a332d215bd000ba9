"""Functions of few inputs whose symmetries are known in code: made to break certificates, and ordinary ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Law = Callable[[np.random.Generator, int], Array]
Function = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Made:
    """Rows, and what is true of them."""

    x: Array
    y: Array
    function: Function
    """``[rows, n]`` to ``[rows, m]``, without noise."""
    law: Law
    """Fresh inputs."""
    finite: frozenset[str] = frozenset()
    """Names of the true group and of subgroups that a search may meet."""
    continuous: frozenset[str] = frozenset()


Kind = Callable[[np.random.Generator], Made]


def normal(n: int) -> Law:
    """Independent Gaussian inputs."""
    return lambda g, count: g.normal(size=(count, n))


def _kind(
    f: Function,
    law: Law | int,
    rows: int = 200,
    noise: float = 0.01,
    finite: str = "",
    continuous: str = "",
    seen: Callable[[np.random.Generator, Array, Array], tuple[Array, Array]] | None = None,
) -> Kind:
    """Rows of a law, a function and Gaussian noise; ``seen`` changes what the file holds."""
    inputs = normal(law) if isinstance(law, int) else law

    def function(x: Array) -> Array:
        y = np.asarray(f(x), dtype=np.float64)
        return y[:, None] if y.ndim == 1 else y

    def make(g: np.random.Generator) -> Made:
        x = inputs(g, rows)
        y = function(x)
        y = y + noise * y.std(0) * g.normal(size=y.shape)
        if seen is not None:
            x, y = seen(g, x, y)
        return Made(x, y, function, inputs, frozenset(finite.split()), frozenset(continuous.split()))

    return make


def _even(x: Array) -> Array:
    """Even in x0."""
    return np.asarray(np.cos(x[:, 0]) * x[:, 1] + x[:, 2] + 0.5 * x[:, 1] ** 2)


def _ring(x: Array) -> Array:
    return np.asarray((x * np.roll(x, 1, axis=1)).sum(1) + np.tanh(x).sum(1))


def _sphere(n: int) -> Law:
    def law(g: np.random.Generator, count: int) -> Array:
        x = g.normal(size=(count, n))
        return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))

    return law


def _uniform(n: int, low: float, high: float) -> Law:
    return lambda g, count: g.uniform(low, high, size=(count, n))


def _tails(n: int) -> Law:
    return lambda g, count: g.standard_t(3, size=(count, n))


def _whole(n: int) -> Law:
    return lambda g, count: np.round(1.5 * g.normal(size=(count, n)))


def _repeated(
    distinct: int, noise: float
) -> Callable[[np.random.Generator, Array, Array], tuple[Array, Array]]:
    """Few rows again and again, in random order."""

    def seen(g: np.random.Generator, x: Array, y: Array) -> tuple[Array, Array]:
        which = g.integers(distinct, size=len(x))
        return x[which], y[which] + noise * y.std(0) * g.normal(size=y.shape)

    return seen


def _outliers(g: np.random.Generator, x: Array, y: Array) -> tuple[Array, Array]:
    wild = g.random(len(y)) < 0.01
    return x, np.where(wild[:, None], y + 8 * y.std(0) * g.normal(size=y.shape), y)


def _missing(g: np.random.Generator, x: Array, y: Array) -> tuple[Array, Array]:
    found = x.copy()
    found[g.random(len(x)) < 0.1, 0] = 0.0
    return found, y


def _uneven(g: np.random.Generator, x: Array, y: Array) -> tuple[Array, Array]:
    """Loud where x0 is positive."""
    return x, y + 0.4 * y.std(0) * (x[:, :1] > 0) * g.normal(size=y.shape)


def _drifting(_: np.random.Generator, x: Array, y: Array) -> tuple[Array, Array]:
    return x, y + 0.1 * y.std(0) * np.linspace(-1, 1, len(y))[:, None]


def _vectors(x: Array, count: int) -> Array:
    parts = x.reshape(len(x), count, -1)
    return np.asarray(np.einsum("nad,nbd->nab", parts, parts))


def _three_vectors(x: Array) -> Array:
    g = _vectors(x, 3)
    return np.asarray(
        np.tanh(g[:, 0, 1]) + 0.3 * np.sqrt(g[:, 0, 0]) + g[:, 1, 2] / 2 * np.cos(g[:, 2, 2] / 3)
    )


def _twelve(off: float) -> Function:
    """Of three vectors of four numbers; one number of the first counts more than the others."""

    def function(x: Array) -> Array:
        weights = np.ones(12)
        weights[1] += off
        g = _vectors(x * weights, 3)
        return np.asarray(np.sin(g[:, 0, 1] / 3) + 0.1 * g[:, 0, 0] + g[:, 1, 2] / 4)

    return function


def _seven(last: float) -> Function:
    """Of seven inputs that may be interchanged; the last counts more than the others."""

    def function(x: Array) -> Array:
        z = x * np.array([1.0] * 6 + [last])
        return np.asarray(np.sin(z).sum(1) + z.sum(1) ** 2 / 7)

    return function


def _two_scales(x: Array) -> Array:
    return np.stack([1000 * _even(x), np.sin(x[:, 0]) + x[:, 1]], axis=1)


S3, S4, D4 = "S_3 Z_2 Z_3", "S_4 S_3 Z_2 Z_3 Z_2^2 Z_4 D_4", "D_4 Z_4 Z_2 Z_2^2"
ATTACKS: dict[str, Kind] = {
    # A violation in few places.
    "local-ramp": _kind(lambda x: _even(x) + 2 * np.maximum(0, x[:, 0] - 1.8), 3, 250, 0.0),
    "local-ramp-noise": _kind(lambda x: _even(x) + 2 * np.maximum(0, x[:, 0] - 1.8), 3, 250),
    "local-jump": _kind(lambda x: _even(x) + 1.0 * ((x[:, 0] > 1) & (x[:, 1] > 1)), 3, 250, 0.0),
    "local-bump": _kind(lambda x: _even(x) + 2 * np.exp(-12 * ((x[:, 0] - 1) ** 2 + x[:, 1] ** 2)), 3, 250),
    "local-bump-turn": _kind(
        lambda x: (
            np.exp(-(x[:, 0] ** 2 + x[:, 1] ** 2) / 2)
            + x[:, 2]
            + 1.5 * np.exp(-15 * ((x[:, 0] - 1) ** 2 + x[:, 1] ** 2))
        ),
        3,
        250,
    ),
    "local-corner": _kind(lambda x: _ring(x) + 4.0 * ((x[:, 0] > 1.2) & (x[:, 2] > 0.8)), 4, 250, 0.0),
    # Everywhere, but rough, faint or hidden.
    "fast-wave": _kind(lambda x: _even(x) + 0.12 * np.sin(15 * x[:, 0]), 3, 250),
    "faint-odd": _kind(lambda x: _even(x) + 0.1 * x[:, 0] * x[:, 2], 3, 250, 0.05),
    "gain-3%": _kind(
        lambda x: np.sin(x[:, 0]) + 0.97 * np.sin(x[:, 1]) + x[:, 0] * x[:, 1] + x[:, 2], 3, 250
    ),
    "oval-3%": _kind(lambda x: np.exp(-(x[:, 0] ** 2 + 1.03 * x[:, 1] ** 2) / 2) + x[:, 2], 3, 250),
    "censored": _kind(lambda x: np.minimum(_even(x) + 0.5 * x[:, 0], 1.0), 3, 250),
    "uneven-noise": _kind(lambda x: _even(x) + 0.25 * x[:, 0] * (x[:, 0] > 0), 3, 250, seen=_uneven),
    "two-scales": _kind(_two_scales, 3, 250),
    # Rows that are not what they seem.
    "repeated-rows": _kind(
        lambda x: np.sin(3 * x[:, 0]) * x[:, 1] + np.exp(x[:, 2] / 2), 3, 300, 0.0, seen=_repeated(40, 0.0)
    ),
    "repeated-x": _kind(lambda x: _even(x) + 0.5 * np.sin(2 * x[:, 0]), 3, 300, seen=_repeated(40, 0.02)),
    "missing-as-0": _kind(_even, 3, 250, finite="Z_2", seen=_missing),
    "outliers": _kind(_even, 3, 250, finite="Z_2", seen=_outliers),
    "drifting": _kind(_even, 3, 250, finite="Z_2", seen=_drifting),
    "heavy-tails": _kind(_even, _tails(3), 250, finite="Z_2"),
    "whole-inputs": _kind(lambda x: _even(x / 1.5) + 0.5 * (x[:, 0] == 3), _whole(3), 300, 0.0),
    # True symmetries that were refuted.
    "kinks-S3": _kind(lambda x: np.maximum(x[:, :3].max(1), 0) + 0.5 * x[:, 3], 4, 250, 0.0, S3),
    "kinks-S4": _kind(lambda x: x.max(1) + 0.5 * np.abs(x).min(1), 4, 250, 0.0, S4),
    "kinks-Z2": _kind(lambda x: np.abs(x[:, 0]) + x[:, 1] * x[:, 2] + x[:, 1], 3, 250, 0.0, "Z_2"),
    "sphere-so2": _kind(lambda x: np.exp(x[:, 2]) + x[:, 2] ** 2, _sphere(3), 250, 0.0, D4, "so(2)"),
    "scaling": _kind(
        lambda x: x[:, 0] * x[:, 1] + (x[:, 0] * x[:, 1]) ** 2 + x[:, 2], 3, 250, 0.0, "Z_2", "R so(1,1)"
    ),
    "scaling-ratio": _kind(
        lambda x: np.exp(x[:, 0] / x[:, 1]) + x[:, 2], _uniform(3, 1, 3), 250, 0.0, "", "R"
    ),
    "translation": _kind(lambda x: np.sin(x[:, 0] - x[:, 1]) + x[:, 2] ** 2, 3, 250, 0.01, "Z_2 Z_2^2", "R"),
    "cosines-D4": _kind(lambda x: np.cos(x[:, 0]) + np.cos(x[:, 1]) + 0.6 * x[:, 2], 3, 250, 0.01, D4),
    "sums-S7": _kind(_seven(1.0), 7, 300, 0.01, "S_7"),
    "sums-S7-10%": _kind(_seven(1.1), 7, 300, 0.01, "S_6"),
    "grid-sums": _kind(
        lambda x: np.tanh(x.reshape(-1, 3, 2).sum(2)).sum(1), 6, 300, 0.01, "Z_2 S_2^3 S_3 Z_2^3"
    ),
    "three-vectors": _kind(_three_vectors, 6, 400, 0.01, "Z_2 D_4", "so(2)"),
    "twelve-so4": _kind(_twelve(0.0), 12, 600, 0.01, "Z_2", "so(4)"),
    "twelve-1%": _kind(_twelve(0.01), 12, 600, 0.01, "Z_2"),
    "twelve-5%": _kind(_twelve(0.05), 12, 600, 0.01, "Z_2"),
    "twelve-30%": _kind(_twelve(0.3), 12, 600, 0.01, "Z_2"),
    "translation-2%": _kind(
        lambda x: np.sin(x[:, 0] - x[:, 1]) + 0.06 * x[:, 0] + x[:, 2] ** 2, 3, 250, 0.01, "Z_2"
    ),
    "scaling-2%": _kind(
        lambda x: np.exp(x[:, 0] / x[:, 1]) + 0.05 * x[:, 0] + x[:, 2], _uniform(3, 1, 3), 250, 0.0
    ),
}
CONTROLS: dict[str, Kind] = {
    "none-3": _kind(
        lambda x: np.sin(x[:, 0] + 0.8 * x[:, 1]) + x[:, 0] ** 2 * x[:, 1] + np.exp(x[:, 2] / 2), 3
    ),
    "none-4": _kind(lambda x: np.tanh(x @ [1.0, 0.6, -0.4, 1.5]) + x[:, 0] * x[:, 2] ** 2 + x[:, 3], 4, 250),
    "even": _kind(_even, 3, 250, 0.01, "Z_2"),
    "ring-D4": _kind(_ring, 4, 260, 0.01, D4),
    "ring-exact": _kind(_ring, 4, 260, 0.0, D4),
    "swap": _kind(
        lambda x: np.sin(x[:, 0] + x[:, 1]) + x[:, 0] * x[:, 1] + x[:, 2] ** 2 + x[:, 2], 3, 250, 0.02, "Z_2"
    ),
    "turn": _kind(lambda x: np.exp(-(x[:, 0] ** 2 + x[:, 1] ** 2) / 2) + x[:, 2], 3, 250, 0.01, D4, "so(2)"),
    "turn-3": _kind(lambda x: np.tanh((x[:, :3] ** 2).sum(1) - 2) + x[:, 3] / 2, 4, 300, 0.01, "", "so(3)"),
    "polynomial": _kind(lambda x: x[:, 0] * x[:, 1] + x[:, 2] ** 3, 3, 200, 0.0, D4, "so(1,1) R"),
}
