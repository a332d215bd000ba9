"""Translations inside an algebra: directions that no invariant looks at, apart from inputs that do not matter.

A function that does not change along a direction is kept by every field along it, however fast it flows where: by
affine ones as well as by the constant one. The constant ones are the translations. What is left acts on the other
directions alone.
"""

from __future__ import annotations

import numpy as np

from metasym.discovery.algebra.vector_fields import Array, angle, orthonormal
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.models.invariant_features import SymmetricFit

_EXACT = 1e-6
"""Parts of polynomials and fields that are rounding."""
_DEGREES = 1e-3
"""Between translations and the fields that hold them, by rounding."""


def translations(n: int) -> Array:
    """The constant fields: ``[n, n, n+1]``."""
    return along(np.eye(n))


def along(directions: Array) -> Array:
    """The constant fields along ``directions [t, n]``."""
    t, n = directions.shape
    found = np.zeros((t, n, n + 1))
    found[:, :, n] = directions
    return found


def apart(fields: Array, polynomials: Array) -> tuple[Array, Array]:
    """Directions ``[t, n]`` that no polynomial looks at, and fields that act on the others alone.

    No direction, and the fields as they are, where they do not hold the translations along all of them.
    """
    n = fields.shape[1]
    none = np.zeros((0, n))
    if not len(polynomials) or not len(fields):
        return none, fields
    looked_at = np.concatenate([polynomials[:, :, :n].reshape(-1, n), polynomials[:, :, n]])
    _, sizes, rows = np.linalg.svd(looked_at, full_matrices=True)
    rank = int((sizes > _EXACT * max(float(sizes[0]), 1e-300)).sum())
    idle = rows[rank:]
    if not len(idle) or angle(along(idle), fields) > _DEGREES:
        return none, fields
    onto = rows[:rank].T @ rows[:rank]
    others = np.concatenate([onto @ fields[:, :, :n] @ onto, (fields[:, :, n] @ onto)[:, :, None]], axis=2)
    return idle, orthonormal(others, _EXACT) if np.abs(others).max() > _EXACT else fields[:0]


def worth_a_name(
    directions: Array, fit: SymmetricFit, x: Array, y: Array, generator: np.random.Generator
) -> tuple[Array, float]:
    """Directions without those along inputs that do not matter; and what the least of the moved inputs carries.

    An input that the function does not depend on may be moved as one likes: that is no symmetry worth a name.
    """
    carried = np.array([_carried(i, fit, x, y, generator) for i in range(x.shape[1])])
    idle = np.flatnonzero(carried < CONTINUOUS.hardly)
    if len(directions) and len(idle):
        _, sizes, rows = np.linalg.svd(directions[:, idle].T, full_matrices=True)
        rank = int((sizes > CONTINUOUS.moves).sum())
        directions = rows[rank:] @ directions
        directions[:, idle] = 0
        directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-300)
    if not len(directions):
        return directions, float(carried[idle].max(initial=0.0))
    moved = np.linalg.norm(directions, axis=0) > CONTINUOUS.moves
    return directions, float(carried[moved].min())


def _carried(i: int, fit: SymmetricFit, x: Array, y: Array, generator: np.random.Generator) -> float:
    """The part of the model's variance that an input carries (a total Sobol index)."""
    model = fit.fit(x, y)
    other = x.copy()
    other[:, i] = x[generator.permutation(len(x)), i]
    change = model(fit.inputs(other)) - model(fit.inputs(x))
    return min(1.0, float(0.5 * (change**2).sum(1).mean() / ((y - y.mean(0)) ** 2).sum(1).mean()))
