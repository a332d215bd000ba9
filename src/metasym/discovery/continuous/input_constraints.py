"""Equations that the inputs fulfil: a field that leads away from them says nothing about the data.

Points on a sphere, fractions that sum to 1, or an input that is 0, 1 or 2 leave a function open elsewhere: to
``f`` any multiple of the equation may be added. What changes with that choice is no symmetry of the data.
"""

from __future__ import annotations

import numpy as np

from metasym.discovery.algebra.vector_fields import Array, values
from metasym.discovery.models.polynomial_recovery import HIGHEST
from metasym.discovery.models.polynomials import Monomial, all_monomials, along, columns

FEWEST = HIGHEST + 2
"""An input with fewer values than this fulfils an equation that a polynomial may have as a factor, or nearly."""
_FULFILLED = 1e-6
"""The size, as a part of the largest, of what is 0."""
_LEADS_AWAY = 1e-2
"""The part of a field that may point away from an equation by rounding."""


def leads_away(fields: Array, x: Array) -> str:
    """Why fields ``[d, n, n+1]`` lead away from where the inputs ``x [examples, n]`` can be; empty if they do not."""
    if not len(fields):
        return ""
    moves = values(fields, x)
    size = float(np.sqrt((moves**2).mean()))
    for i in range(x.shape[1]):
        count = len(np.unique(x[:, i]))
        if count < FEWEST and np.abs(moves[:, :, i]).max() > _LEADS_AWAY * size:
            return f"moves an input that has only {count} values"
    monomials, equations = equations_of(x)
    if not len(equations):
        return ""
    # The same change in every direction, for comparison: an equation that is steep is left faster.
    slopes = np.zeros((len(x), x.shape[1], len(equations)))
    for i in range(x.shape[1]):
        step = np.zeros_like(x)
        step[:, i] = 1
        slopes[:, i] = along(x, monomials, step) @ equations.T
    change = np.einsum("pdi,pik->pdk", moves, slopes)
    steepest = np.sqrt((slopes**2).sum(1))[:, None] * np.sqrt((moves**2).sum(2))[:, :, None]
    if np.sqrt((change**2).mean(0)).max() <= _LEADS_AWAY * float(np.sqrt((steepest**2).mean(0)).max()):
        return ""
    return "leads away from an equation that the inputs fulfil"


def equations_of(x: Array) -> tuple[list[Monomial], Array]:
    """Polynomials of degree 2 (or 1, with many inputs) that are 0 on all examples: ``[k, monomials]``.

    None where there are too few examples to tell.
    """
    n = x.shape[1]
    for degree in (2, 1):
        monomials = all_monomials(n, degree)
        if 2 * len(monomials) > len(x):
            continue
        design = columns(x, monomials)
        scale = np.sqrt((design**2).mean(0)) + 1e-300
        _, sizes, basis = np.linalg.svd(design / scale, full_matrices=False)
        return monomials, basis[sizes < _FULFILLED * sizes[0]] / scale
    return [], np.zeros((0, 0))
