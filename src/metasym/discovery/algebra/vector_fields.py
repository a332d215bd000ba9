"""Affine vector fields ``x -> A x + a``: linear spaces of them, brackets, and what they do to polynomials.

A field is ``[n, n+1]``, the matrix A with the column a beside it; a space of fields is an array ``[d, n, n+1]``
whose members are orthonormal. A polynomial ``x^T Q x + c x`` is ``[n, n+1]`` too, Q (symmetric) with c beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def rotations(n: int, centre: Array | None = None, scale: Array | None = None) -> Array:
    """so(n): the rotations of ``(x - centre) / scale``, each ``[n]``; ``[n (n-1) / 2, n, n+1]``."""
    middle = np.zeros(n) if centre is None else centre
    size = np.ones(n) if scale is None else scale
    found = []
    for i in range(n):
        for j in range(i):
            A = np.zeros((n, n))
            A[i, j], A[j, i] = size[i] / size[j], -size[j] / size[i]
            found.append(np.c_[A, -A @ middle])
    return orthonormal(np.array(found).reshape(-1, n, n + 1))


def shifts_and_scalings(n: int, centre: Array) -> Array:
    """Translations of every input, and scalings about ``centre``: ``[2 n, n, n+1]``."""
    found = np.zeros((2 * n, n, n + 1))
    for i in range(n):
        found[i, i, n] = 1
        found[n + i, i, i], found[n + i, i, n] = 1, -centre[i]
    return orthonormal(found)


def affine(n: int) -> Array:
    """All affine fields: ``[n (n+1), n, n+1]``."""
    return np.eye(n * (n + 1)).reshape(-1, n, n + 1)


def beside(inner: Array, outer: Array) -> Array:
    """Fields on n inputs and fields on m outputs as pairs, each with nothing on the other side."""
    n, m = (space.shape[1] for space in (inner, outer))
    found = np.zeros((len(inner) + len(outer), n + m, n + m + 1))
    found[: len(inner), :n, :n], found[: len(inner), :n, -1] = inner[:, :, :-1], inner[:, :, -1]
    found[len(inner) :, n:, n:] = outer
    return found


def sides(fields: Array, n: int) -> tuple[Array, Array]:
    """The fields on inputs and those on outputs of pairs, in the same order."""
    return np.concatenate([fields[:, :n, :n], fields[:, :n, -1:]], axis=2), fields[:, n:, n:]


def orthonormal(fields: Array, tolerance: float = 1e-9) -> Array:
    """An orthonormal basis of the span."""
    if not len(fields):
        return fields
    flat = fields.reshape(len(fields), -1)
    _, sizes, basis = np.linalg.svd(flat, full_matrices=False)
    rank = int((sizes > tolerance * max(sizes[0], 1e-300)).sum())
    return np.asarray(basis[:rank].reshape(rank, *fields.shape[1:]))


def values(fields: Array, x: Array) -> Array:
    """``[points, d, n]``: where the fields take ``x [points, n]``."""
    extended = np.c_[x, np.ones(len(x))]
    return np.asarray(np.einsum("dij,pj->pdi", fields, extended))


def squared(fields: Array) -> Array:
    """The fields as matrices ``[d, n+1, n+1]`` that act on ``(x, 1)``: commutators are brackets of fields."""
    d, n, _ = fields.shape
    return np.concatenate([fields, np.zeros((d, 1, n + 1))], axis=1)


def moved_by(fields: Array, matrix: Array) -> Array:
    """The fields in other coordinates: those whose flows are ``matrix^-1 g matrix``, ``matrix [n+1, n+1]``."""
    return orthonormal(conjugated(fields, matrix))


def conjugated(fields: Array, matrix: Array) -> Array:
    """The same, each field separately."""
    return np.asarray((np.linalg.inv(matrix) @ squared(fields) @ matrix)[:, :-1])


def parts_of_largest(fields: Array, units: Array) -> Array:
    """The sizes of entries of fields, measured in ``units [n]`` so that they compare; the largest of a field is 1."""
    found = np.abs(fields) / units[:, None]
    found[:, :, :-1] *= units
    return np.asarray(found / np.maximum(found.max(axis=(1, 2), keepdims=True), 1e-300))


def moved_inputs(fields: Array, units: Array, tolerance: float = 1e-6) -> tuple[int, ...]:
    """The inputs that some field changes."""
    sizes = parts_of_largest(fields, units).max(axis=(0, 2))
    return tuple(int(i) for i in np.flatnonzero(sizes > tolerance))


def written(fields: Array, units: Array) -> list[Any]:
    """Nine digits of every entry that is not 0, whatever the units: beside kilometres millimetres are not 0."""
    clear = np.where(parts_of_largest(fields, units) > 1e-9, fields, 0.0)
    return [[[float(f"{entry:.9g}") for entry in row] for row in field] for field in clear]


def derivative(fields: Array, polynomials: Array) -> Array:
    """The derivatives of polynomials ``[k, n, n+1]`` along fields ``[d, n, n+1]``: ``[d, k, n n + n + 1]``."""
    n = fields.shape[1]
    A, a = fields[:, :, :n], fields[:, :, n]
    Q, c = polynomials[:, :, :n], polynomials[:, :, n]
    product = np.einsum("kij,djl->dkil", Q, A)
    quadratic = product + product.swapaxes(2, 3)
    linear = 2 * np.einsum("kij,dj->dki", Q, a) + np.einsum("dji,kj->dki", A, c)
    constant = np.einsum("ki,di->dk", c, a)
    d, k = len(fields), len(polynomials)
    return np.concatenate([quadratic.reshape(d, k, n * n), linear, constant[:, :, None]], axis=2)


def monomials(n: int) -> Array:
    """An orthonormal basis of the polynomials of degree 1 and 2: ``[n (n+1) / 2 + n, n, n+1]``."""
    found = []
    for i in range(n):
        for j in range(i, n):
            p = np.zeros((n, n + 1))
            p[i, j] = p[j, i] = 1.0 if i == j else np.sqrt(0.5)
            found.append(p)
    for i in range(n):
        p = np.zeros((n, n + 1))
        p[i, n] = 1
        found.append(p)
    return np.array(found)


def angle(inner: Array, outer: Array) -> float:
    """The largest principal angle, in degrees, from the space ``inner`` to the space ``outer``."""
    if not len(inner):
        return 0.0
    if not len(outer):
        return 90.0
    products = orthonormal(inner).reshape(-1, inner[0].size) @ orthonormal(outer).reshape(-1, inner[0].size).T
    sizes = np.linalg.svd(products, compute_uv=False)
    least = float(sizes.min()) if len(inner) <= len(outer) else 0.0
    return float(np.degrees(np.arccos(min(1.0, least))))
