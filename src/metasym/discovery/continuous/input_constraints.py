"""Equations that the inputs fulfil: a field that leads away from them says nothing about the data.

Points on a sphere, fractions that sum to 1, or an input that is 0, 1 or 2 leave a function open elsewhere: to
``f`` any multiple of the equation may be added. What changes with that choice is no symmetry of the data.
"""

from __future__ import annotations

import numpy as np

from metasym.discovery.algebra.vector_fields import Array, values
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.models.polynomial_recovery import HIGHEST
from metasym.discovery.models.polynomials import Monomial, all_monomials, along, columns
from metasym.verdicts.discovery_reasons import FewValues, LeavesInputs

FEWEST = HIGHEST + 2
"""An input with fewer values than this fulfils an equation that a polynomial may have as a factor, or nearly."""


def constraint_left(name: str, fields: Array, x: Array) -> FewValues | LeavesInputs | None:
    """Why fields ``[d, n, n+1]`` lead away from where the inputs ``x [examples, n]`` can be; None if they do not."""
    if not len(fields):
        return None
    moves = values(fields, x)
    size = float(np.sqrt((moves**2).mean()))
    for i in range(x.shape[1]):
        count = len(np.unique(x[:, i]))
        if count < FEWEST and np.abs(moves[:, :, i]).max() > CONTINUOUS.leads_away * size:
            return FewValues(name, count)
    monomials, equations = equations_of(x)
    if not len(equations):
        return None
    # The same change in every direction, for comparison: an equation that is steep is left faster.
    slopes = np.zeros((len(x), x.shape[1], len(equations)))
    for i in range(x.shape[1]):
        step = np.zeros_like(x)
        step[:, i] = 1
        slopes[:, i] = along(x, monomials, step) @ equations.T
    change = np.einsum("pdi,pik->pdk", moves, slopes)
    steepest = np.sqrt((slopes**2).sum(1))[:, None] * np.sqrt((moves**2).sum(2))[:, :, None]
    if np.sqrt((change**2).mean(0)).max() <= CONTINUOUS.leads_away * float(
        np.sqrt((steepest**2).mean(0)).max()
    ):
        return None
    return LeavesInputs(name)


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
        return monomials, basis[sizes < CONTINUOUS.fulfilled * sizes[0]] / scale
    return [], np.zeros((0, 0))
