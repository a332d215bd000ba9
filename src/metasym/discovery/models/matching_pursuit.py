"""A polynomial with few terms for every output: what it is made of shows which permutations may be symmetries.

Wherever the law of the inputs and the function have a symmetry, its best polynomial of low degree has it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb, log, sqrt

import numpy as np
import numpy.typing as npt

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import POLYNOMIAL

MOST_FEATURES = 4000
"""Monomials examined at most."""
HIGHEST = 3
"""Their degree, at most."""


@dataclass(frozen=True)
class Term:
    """``value * product of inputs`` in one output, with the standard error of its value."""

    output: int
    inputs: tuple[int, ...]
    """With repeats, in order: (0, 0, 3) stands for x0^2 x3."""
    value: float
    error: float


def degree_for(n: int) -> int:
    """The highest degree whose monomials are few enough to be looked at."""
    return max((d for d in range(1, HIGHEST + 1) if comb(n + d, d) - 1 <= MOST_FEATURES), default=0)


def sparse_polynomial(x: Array, y: Array) -> list[Term]:
    """Terms of ``y [examples, m]`` in the inputs ``x [examples, n]``, one after the other while they matter."""
    n = x.shape[1]
    found: list[Term] = []
    monomials = [
        one for d in range(1, degree_for(n) + 1) for one in combinations_with_replacement(range(n), d)
    ]
    if not monomials:
        return found
    columns = np.stack([x[:, list(one)].prod(1) for one in monomials], axis=1)
    columns -= columns.mean(0)
    lengths = np.sqrt((columns**2).sum(0))
    usable = lengths > 1e-9 * lengths.max()
    columns[:, usable] /= lengths[usable]
    columns[:, ~usable] = 0.0
    for k in range(y.shape[1]):
        chosen, values, errors = _chosen(columns, y[:, k] - y[:, k].mean())
        found += [
            Term(k, monomials[j], float(v / lengths[j]), float(e / lengths[j]))
            for j, v, e in zip(chosen, values, errors, strict=True)
        ]
    return found


def _chosen(columns: Array, y: Array) -> tuple[list[int], Array, Array]:
    """Orthogonal matching pursuit: which columns, their coefficients and the errors of these."""
    examples, features = columns.shape
    total = float(y @ y)
    least = sqrt(2 * log(features)) + 1.0  # the largest of so many correlations with noise stays below
    chosen: list[int] = []
    basis = np.zeros((examples, 0))
    left = y.copy()
    while total > 0 and len(chosen) < examples // 4:
        along = columns.T @ left
        along[chosen] = 0.0
        best = int(np.argmax(np.abs(along)))
        deviation = sqrt(float(left @ left) / (examples - len(chosen) - 1))
        if abs(float(along[best])) < least * deviation or float(left @ left) < POLYNOMIAL.exact * total:
            break
        new = columns[:, best] - basis @ (basis.T @ columns[:, best])
        new -= basis @ (basis.T @ new)
        size = float(np.linalg.norm(new))
        if size < 1e-6:
            break
        chosen.append(best)
        basis = np.c_[basis, new / size]
        left = left - basis[:, -1] * float(basis[:, -1] @ left)
    none: npt.NDArray[np.float64] = np.zeros(0)
    if not chosen:
        return chosen, none, none
    design = columns[:, chosen]
    values = np.linalg.lstsq(design, y, rcond=None)[0]
    variance = float(left @ left) / max(1, examples - len(chosen) - 1)
    errors = np.sqrt(variance * np.diag(np.linalg.pinv(design.T @ design)))
    real = (np.abs(values) > POLYNOMIAL.real_term * errors) & (values**2 > POLYNOMIAL.negligible * total)
    return [j for j, ok in zip(chosen, real, strict=True) if ok], values[real], errors[real]
