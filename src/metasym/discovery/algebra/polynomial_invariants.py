"""Polynomials of degree 1 and 2 that an algebra keeps, the algebra that keeps given ones, and round numbers for them.

Functions that a symmetry keeps are functions of its invariants. By the first fundamental theorems those of degree 2
suffice for rotations, so(p, q) and any number of vectors, those of degree 1 for translations.
"""

from __future__ import annotations

import numpy as np

from metasym.discovery.algebra.vector_fields import Array, derivative, monomials, orthonormal

_EXACT = 1e-6
"""Rounding of products of fields whose entries are about 1; no verdict depends on it."""
_SAME_SIZE = 1e-3
"""Eigenvalues of forms that differ by less than this part of the largest are one: another basis, the same space."""


def moments(fields: Array) -> tuple[Array, Array, Array]:
    """Eigenvalues (ascending) of "how much do the fields change a polynomial", its eigenvectors, the basis."""
    basis = monomials(fields.shape[1])
    total = np.zeros((len(basis), len(basis)))
    for field in fields:
        changed = derivative(field[None], basis)[0]
        total += changed @ changed.T
    sizes, vectors = np.linalg.eigh(total)
    return sizes, vectors, basis


def invariants(fields: Array) -> Array:
    """Polynomials ``[k, n, n+1]`` that all fields keep, none a product of others: linear ones, then quadratic."""
    sizes, vectors, basis = moments(fields)
    kept = vectors[:, sizes < _EXACT].T
    n = fields.shape[1]
    quadratic = len(basis) - n
    # Linear combinations without a quadratic part are the linear invariants.
    linear = _null(kept[:, :quadratic].T) @ kept if len(kept) else kept
    products = []
    for i, p in enumerate(linear):
        for q in linear[i:]:
            Q = np.outer(p[quadratic:], q[quadratic:])
            products.append(np.einsum("bij,ij->b", basis[:, :, :n], (Q + Q.T) / 2))
    known = [linear, np.array(products).reshape(-1, len(basis))]
    rest = _without(kept, np.concatenate(known))
    return np.asarray(np.einsum("kb,bij->kij", np.concatenate([linear, rest]), basis))


def lengths(polynomials: Array) -> Array:
    """Another basis of the quadratic forms that rotations keep, where all of these commute: lengths, each its own.

    The forms of so(a) + so(b) are spanned by |r|^2 and |s|^2, which a basis may mix. Where forms commute, those that
    project on their common eigenspaces are such lengths. Elsewhere the basis stays as it is.
    """
    n = polynomials.shape[1]
    if not len(polynomials) or np.abs(polynomials[:, :, n]).max() > _EXACT:
        return polynomials
    forms = polynomials[:, :, :n]
    weights = np.sqrt(np.arange(2, 2 + len(forms)))  # no two sums of eigenvalues agree by chance
    sizes, vectors = np.linalg.eigh(np.einsum("k,kij->ij", weights / np.linalg.norm(weights), forms))
    cuts = np.flatnonzero(np.diff(sizes) > _SAME_SIZE * np.abs(sizes).max()) + 1
    parts = [v @ v.T / v.shape[1] ** 0.5 for v in np.split(vectors, cuts, axis=1)]
    found = np.array([np.c_[p, np.zeros(n)] for p in parts]).reshape(len(parts), -1)
    span = orthonormal(polynomials).reshape(len(polynomials), -1)
    kept = np.linalg.norm(found - found @ span.T @ span, axis=1) < _EXACT
    if int(kept.sum()) != len(polynomials):
        return polynomials
    return np.asarray(found[kept].reshape(-1, n, n + 1))


def separated(polynomials: Array, before: Array) -> Array:
    """Another basis of the quadratic forms that rotations keep: lengths near those of ``before``, then the rest.

    Of so(n) acting on two vectors a basis of invariants may be any three combinations of |a|^2, |b|^2 and a.b. An
    algebra that was found before, and that holds this one, says which vectors are meant. A form that rotations keep
    commutes with them, and so does the projection on its large eigenvalues: a length again.
    """
    n = polynomials.shape[1]
    if np.abs(polynomials[:, :, n]).max() > _EXACT or np.abs(before[:, :, n]).max() > _EXACT:
        return polynomials
    span = orthonormal(polynomials).reshape(-1, n * (n + 1))
    free, lengths = np.eye(n), []
    for old in before.reshape(len(before), -1):
        form = free @ (old @ span.T @ span).reshape(n, n + 1)[:, :n] @ free
        sizes, vectors = np.linalg.eigh(form * np.sign(np.trace(form)))
        large = vectors[:, sizes > 0.5 * sizes[-1]]
        if sizes[-1] < _EXACT or sizes[0] < -0.5 * sizes[-1]:
            return polynomials
        lengths.append(np.c_[large @ large.T / large.shape[1] ** 0.5, np.zeros(n)])
        free = free - large @ large.T
    known = np.array(lengths).reshape(len(lengths), -1)
    left = np.linalg.norm(known - known @ span.T @ span)
    if left > _EXACT or len(known) > len(span):
        return polynomials
    rest = _without(span, known)
    return np.asarray(np.concatenate([known, rest]).reshape(-1, n, n + 1))


def stabiliser(polynomials: Array, ambient: Array) -> Array:
    """The fields of the space ``ambient [D, n, n+1]`` that keep all polynomials: an algebra if ambient is one."""
    if not len(polynomials):
        return ambient
    changed = derivative(ambient, polynomials).reshape(len(ambient), -1)
    combinations = _null(changed.T, _EXACT)
    return orthonormal(np.einsum("kd,dij->kij", combinations, ambient))


def evaluate(polynomials: Array, x: Array) -> Array:
    """``[points, k]``."""
    n = x.shape[1]
    Q, c = polynomials[:, :, :n], polynomials[:, :, n]
    return np.asarray(np.einsum("pi,kij,pj->pk", x, Q, x, optimize=True) + x @ c.T)


def moved_polynomials(polynomials: Array, matrix: Array) -> Array:
    """The polynomials of ``matrix (x, 1)``, without their constants; ``matrix [n+1, n+1]`` is affine."""
    n = polynomials.shape[1]
    A, a = matrix[:n, :n], matrix[:n, n]
    Q, c = polynomials[:, :, :n], polynomials[:, :, n]
    quadratic = np.einsum("ji,kjl,lm->kim", A, Q, A)
    linear = c @ A + 2 * np.einsum("ji,kjl,l->ki", A, Q, a)
    return np.concatenate([quadratic, linear[:, :, None]], axis=2)


def rounded(polynomials: Array) -> Array:
    """Polynomials with round coefficients near the span of ``polynomials``: its reduced echelon form, rounded.

    Coordinates that users choose usually mean something: |x|^2 is likelier than x^T Q x with Q nearly 1.
    """
    basis = monomials(polynomials.shape[1])
    n = polynomials.shape[1]
    plain = np.array([p / np.abs(p).max() for p in basis])  # whole coefficients of x_i x_j, of x_i
    rows = np.einsum("kij,bij->kb", polynomials, basis) @ np.diag([np.abs(b).max() for b in basis])
    pivots: list[int] = []
    for r in range(len(rows)):
        sizes = np.abs(rows[r:]).copy()
        sizes[:, pivots] = 0
        i, j = np.unravel_index(int(np.argmax(sizes)), sizes.shape)
        rows[[r, r + i]] = rows[[r + i, r]]
        rows[r] /= rows[r, j]
        others = np.arange(len(rows)) != r
        rows[others] -= np.outer(rows[others, j], rows[r])
        pivots.append(int(j))
    found = np.einsum("kb,bij->kij", np.round(rows), plain)
    norms = np.linalg.norm(found.reshape(len(found), -1), axis=1)
    return np.asarray(found / np.where(norms > 0, norms, 1)[:, None, None]).reshape(-1, n, n + 1)


def _null(matrix: Array, tolerance: float = 1e-8) -> Array:
    """Orthonormal rows that span the null space of ``matrix``."""
    if 0 in matrix.shape:
        return np.eye(matrix.shape[1])
    _, sizes, rows = np.linalg.svd(matrix, full_matrices=True)
    rank = int((sizes > tolerance).sum())
    return np.asarray(rows[rank:])


def _without(rows: Array, known: Array) -> Array:
    """An orthonormal basis of the part of the row space of ``rows`` that is orthogonal to that of ``known``."""
    left = rows
    if len(known):
        span = orthonormal(known[:, None, :])[:, 0]
        left = rows - rows @ span.T @ span
    if not len(left):
        return left
    _, sizes, basis = np.linalg.svd(left, full_matrices=False)
    return np.asarray(basis[sizes > 1e-6])
