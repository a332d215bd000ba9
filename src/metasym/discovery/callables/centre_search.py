"""Points that every symmetry of a function may keep, such as a robot's rest pose: where moves with signs are about.

Signed permutations keep the sum of the squares of all outputs and of all derivatives, and the plain sum of outputs
where they change no output's sign. At a point that a group keeps, the gradient of such a measure vanishes along all
directions that the group turns. So minima of the gradient's length are candidates. Differences to both sides are
exact there whatever the step: what breaks them is odd about the point, and there it is nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.input_draws import InputDraws
from metasym.types import MetasymError

MOST_INPUTS = 24
"""Inputs up to which a centre is searched for: a start calls f at ``8 n^3`` points."""
_STARTS = 8, 3, 3
"""Of each measure; the second needs ``2 n`` calls for each value."""
_ROUNDS = 60
"""Of the search, at most."""
_STEP = 0.05
"""Of differences, in standard deviations."""
_CLOSE = 1e-10
"""Standard deviations below which a step changes nothing."""
_FARTHEST = 4.0
"""From the mean of the inputs, in standard deviations."""
_SAME = 1e-4
"""Standard deviations below which two candidates are one."""
_MOST = 4
"""Centres that are tried."""

Measure = Callable[[Array], Array]


def is_centre(f: CalledFunction, draws: InputDraws, centre: Array) -> bool:
    """Whether the measures have no slope at ``centre [n]``: all moves with signs may then be about it."""
    return _level_inputs(f, draws, centre) == f.inputs


def centre_candidates(f: CalledFunction, draws: InputDraws) -> list[Array]:
    """At most four points ``[n]``, those first where the measures are level along the most inputs."""
    found: list[tuple[int, Array]] = []
    for measure, starts in zip(_measures(f, draws.spread), _STARTS, strict=True):
        for start in (draws.centre, *draws.search[: starts - 1]):
            try:
                point = _least_slope(measure, start, draws)
                point[np.abs(point) <= _SAME**2 * draws.spread] = 0
                if (np.abs(point - draws.centre) > _FARTHEST * draws.spread).any():
                    continue
                if any((np.abs(point - other) <= _SAME * draws.spread).all() for _, other in found):
                    continue
                found.append((_level_inputs(f, draws, point), point))
            except (MetasymError, np.linalg.LinAlgError):  # f may not take the points on the way
                continue
    found.sort(key=lambda one: -one[0])
    return [point for level, point in found[:_MOST] if level]


def _level_inputs(f: CalledFunction, draws: InputDraws, point: Array) -> int:
    """Along how many inputs neither the squares of outputs nor those of derivatives change at ``point [n]``."""
    level = np.ones(f.inputs, dtype=bool)
    allowed = float(np.sqrt(f.rounding))
    for measure in _measures(f, draws.spread)[:2]:
        typical = max(float(np.abs(_gradient(measure, x, draws.spread)).max()) for x in draws.search[:4])
        level &= np.abs(_gradient(measure, point, draws.spread)) <= allowed * (typical + 1e-300)
    return int(level.sum())


def _measures(f: CalledFunction, spread: Array) -> tuple[Measure, ...]:
    """Of ``x [points, n]``, ``[points]`` each."""

    def slopes(x: Array) -> Array:
        steps = np.diag(_STEP * spread)
        there = [f((x[:, None, :] + sign * steps).reshape(-1, f.inputs)) for sign in (1, -1)]
        change = (there[0] - there[1]) / (2 * _STEP)
        return np.asarray((change**2).reshape(len(x), -1).sum(1))

    def squares(x: Array) -> Array:
        return np.asarray((f(x) ** 2).sum(1))

    def total(x: Array) -> Array:
        return np.asarray(f(x).sum(1))

    return squares, slopes, total


def _gradient(measure: Measure, x: Array, spread: Array) -> Array:
    """In units of the inputs' spreads."""
    steps = np.diag(_STEP * spread)
    there = measure(np.r_[x + steps, x - steps])
    return np.asarray((there[: len(x)] - there[len(x) :]) / (2 * _STEP))


def _curvature(measure: Measure, x: Array, spread: Array) -> Array:
    n = len(x)
    steps = np.diag(_STEP * spread)
    i, j = np.triu_indices(n)
    both, apart = steps[i] + steps[j], steps[i] - steps[j]
    values = measure(np.r_[x + both, x - both, x + apart, x - apart]).reshape(4, -1)
    found = np.zeros((n, n))
    found[i, j] = found[j, i] = (values[0] + values[1] - values[2] - values[3]) / (4 * _STEP**2)
    return found


def _least_slope(measure: Measure, start: Array, draws: InputDraws) -> Array:
    """A minimum of the gradient's length near ``start``: damped steps of Gauss and Newton, the curvature kept up to
    date by symmetric updates of rank one and measured again where they lead nowhere.
    """
    spread, x = draws.spread + 1e-300, start.copy()
    gradient, curvature = _gradient(measure, x, spread), _curvature(measure, x, spread)
    damping, measured = 1e-3, True
    for _ in range(_ROUNDS):
        square = curvature @ curvature
        size = float(np.trace(square)) / len(x) + 1e-300
        step = -np.linalg.solve(square + damping * size * np.eye(len(x)), curvature @ gradient)
        step *= min(1.0, 1.0 / (float(np.abs(step).max()) + 1e-300))
        if float(np.abs(step).max()) < _CLOSE:
            if measured:
                break
            curvature, measured, damping = _curvature(measure, x, spread), True, 1e-6
            continue
        after = _gradient(measure, x + step * spread, spread)
        rest = after - gradient - curvature @ step
        along = float(rest @ step)
        if abs(along) > 1e-8 * float(np.linalg.norm(rest) * np.linalg.norm(step)):
            curvature, measured = curvature + np.outer(rest, rest) / along, False
        if after @ after < gradient @ gradient:
            x, gradient, damping = x + step * spread, after, max(damping / 8, 1e-12)
        else:
            damping *= 8
    return np.asarray(x)
