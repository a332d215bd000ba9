"""Compact algebras of pairs: coordinates in which they rotate, and the circles that their generators run through."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from metasym.discovery.algebra.vector_fields import Array, sides
from metasym.discovery.claim_thresholds import CONTINUOUS

_STEPS = 24
"""Turns of a circle: averages of polynomials up to degree 23 are exact."""
_HIGHEST = 4
"""The largest frequency of a circle, in units of its own, that the search covers."""
_EXACT = 1e-6
"""Rounding of fields whose entries are about 1; no verdict depends on it."""


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates ``matrix (x - centre)`` in which an algebra acts by rotations."""

    centre: Array
    """``[n]``"""
    matrix: Array
    """``[n, n]``, symmetric and positive."""

    def __call__(self, x: Array) -> Array:
        """``x [points, n]`` in these coordinates."""
        return np.asarray((x - self.centre) @ self.matrix)

    def rotations(self, fields: Array) -> Array:
        """Fields ``[d, n, n+1]`` as matrices ``[d, n, n]`` in these coordinates."""
        inverse = np.linalg.inv(self.matrix)
        found = self.matrix @ fields[:, :, :-1] @ inverse
        return np.asarray((found - found.transpose(0, 2, 1)) / 2)

    def fields(self, matrices: Array) -> Array:
        """And back."""
        linear = np.linalg.inv(self.matrix) @ matrices @ self.matrix
        return np.concatenate([linear, -(linear @ self.centre)[:, :, None]], axis=2)


@dataclass(frozen=True, eq=False)
class Circle:
    """The group of one generator: ``_STEPS`` or more equal turns of inputs and of outputs, the identity first."""

    inner: Array
    """``[steps, n, n]``"""
    outer: Array
    """``[steps, m, m]``"""


def frame(fields: Array, tolerance: float = 0.02) -> Frame | None:
    """Where fields ``[d, n, n+1]`` rotate; None where they do not, such as translations and scalings."""
    n = fields.shape[1]
    A, a = fields[:, :, :n], fields[:, :, n]
    size = float(np.abs(fields).max()) if len(fields) else 0.0
    if size < _EXACT:
        return Frame(np.zeros(n), np.eye(n))
    centre: Array = np.linalg.lstsq(A.reshape(-1, n), -a.reshape(-1), rcond=1e-6)[0].astype(np.float64)
    if np.abs(A @ centre + a).max() > tolerance * size:
        return None
    if np.abs(A + A.transpose(0, 2, 1)).max() < 1e-9 * size:
        return Frame(centre, np.eye(n))
    form = _kept_form(A, tolerance * size)
    if form is None:
        return None
    return Frame(centre, np.real(scipy.linalg.sqrtm(form)))


def _kept_form(A: Array, tolerance: float) -> Array | None:
    """The positive form M nearest to 1 with ``A^T M + M A = 0`` for all A."""
    n = A.shape[1]
    upper = np.triu_indices(n)
    columns = []
    for i, j in zip(*upper, strict=True):
        E = np.zeros((n, n))
        E[i, j] = E[j, i] = 1.0 if i == j else 0.5**0.5
        columns.append(E)
    basis = np.array(columns)
    changed = np.einsum("dji,bjk->bdik", A, basis) + np.einsum("bij,djk->bdik", basis, A)
    sizes, vectors = np.linalg.eigh(np.einsum("bdik,cdik->bc", changed, changed))
    kept = vectors[:, sizes < (tolerance**2) * len(A)]
    one = np.einsum("bij,ij->b", basis, np.eye(n))
    form = np.einsum("b,bij->ij", kept @ (kept.T @ one), basis)
    least = float(np.linalg.eigvalsh(form)[0]) if kept.shape[1] else 0.0
    return np.asarray(form) if least > CONTINUOUS.positive_form else None


def whole_turns(inner: Array, outer: Array) -> tuple[Array, Array, int] | None:
    """The generator ``inner [n, n]``, ``outer [m, m]`` (antisymmetric) with whole frequencies, and the highest.

    None where the frequencies are not near whole multiples of one: their turns never come back.
    """
    parts = [np.linalg.eigh(1j * side) for side in (inner, outer)]
    sizes = np.concatenate([np.abs(values) for values, _ in parts])
    largest = float(sizes.max())
    moved = sizes[sizes > CONTINUOUS.still_frequency * largest]
    for most in range(1, _HIGHEST + 1):
        unit = largest / most
        whole = np.round(moved / unit)
        if np.abs(moved / unit - whole).max() < CONTINUOUS.whole_frequency and whole.min() > 0:
            unit = float((moved * whole).sum() / (whole**2).sum())
            sides_found = [
                np.real(-1j * (vectors * np.round(values / unit)) @ vectors.conj().T)
                for values, vectors in parts
            ]
            return sides_found[0], sides_found[1], most
    return None


def circle(inner: Array, outer: Array, highest: int) -> Circle:
    """Equal steps once around."""
    steps = _STEPS * max(1, (highest + 1) // 2)
    angles = 2 * np.pi * np.arange(steps) / steps
    return Circle(*(np.stack([scipy.linalg.expm(t * side) for t in angles]) for side in (inner, outer)))


def frames(fields: Array, n: int) -> tuple[Frame, Frame] | None:
    """Where the inputs, and where the outputs of pairs rotate."""
    found = [frame(side) for side in sides(fields, n)]
    return (found[0], found[1]) if found[0] is not None and found[1] is not None else None
