"""Inputs in comparable units, without losing the equality of those that share one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metasym.discovery.algebra.vector_fields import Array, moved_by, orthonormal
from metasym.discovery.claim_thresholds import UNITS


@dataclass(frozen=True, eq=False)
class Coordinates:
    """``(x - centre) / scale``; inputs that vary about equally share one scale, small means count as 0.

    Each input divided by its own standard deviation would turn a sphere into an ellipsoid that depends on the sample.
    """

    centre: Array
    """``[n]``"""
    scale: Array
    """``[n]``"""

    @property
    def matrix(self) -> Array:
        """``[n+1, n+1]``: takes ``(x, 1)`` to these coordinates."""
        n = len(self.scale)
        found = np.zeros((n + 1, n + 1))
        found[:n, :n] = np.diag(1 / self.scale)
        found[:n, n] = -self.centre / self.scale
        found[n, n] = 1
        return found

    def __call__(self, x: Array) -> Array:
        """``x [points, n]`` in these coordinates."""
        return np.asarray((x - self.centre) / self.scale)

    def back(self, fields: Array) -> Array:
        """Fields in these coordinates as fields in those of the data."""
        return orthonormal(moved_by(fields, self.matrix))


def coordinates(x: Array) -> Coordinates:
    """Coordinates for ``x [examples, n]``."""
    spread = x.std(0)
    order = np.argsort(spread)
    scale = np.ones_like(spread)
    start = 0
    for i in range(1, len(order) + 1):
        if i < len(order) and spread[order[i]] <= UNITS.same * spread[order[i - 1]]:
            continue
        members = order[start:i]
        common = float(np.sqrt(np.mean(spread[members] ** 2)))
        scale[members] = common if common > 0 else 1.0
        start = i
    middle = x.mean(0)
    centre = np.where(np.abs(middle) < UNITS.centred * scale, 0.0, middle)
    return Coordinates(centre, scale)
