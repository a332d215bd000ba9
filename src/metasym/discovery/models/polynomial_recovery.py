"""Which few monomials a function is made of: a sparse solution among more monomials than examples.

``min sum log(c_i^2 + eps^2)`` subject to ``A c = y`` up to noise, by reweighted least squares with eps going down
(Chartrand and Yin): each step solves one system as large as the examples. Seventy-six of 4,845 monomials come out of
800 examples exactly. How many terms are kept, and at which noise they are searched for, is decided by the extended
Bayesian information criterion, which counts how many choices of terms there were.
"""

from __future__ import annotations

from math import comb
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import POLYNOMIAL
from metasym.discovery.models.polynomials import Monomial, Support, all_monomials, columns

MOST_FEATURES = 5000
"""Monomials examined at most."""
HIGHEST = 4
"""Their degree, at most."""
NOISES = (1e-2, 1e-4, 1e-6)
"""Parts of the variance that are treated as noise; with the right one, or any if there is none, few terms are
left."""
_STEPS = 60
"""Of the weights, at most."""
_SHRINK = 0.7
"""How much smaller the smoothing of small coefficients becomes in a step."""
_SMALLEST = 1e-7
"""The smoothing at which that ends."""
_GONE, _GONE_AT_LAST = 0.01, 0.1
"""Coefficients below these parts of the smoothing, on the way and at its end, are left out."""
_STANDS = 1e-3
"""Where no coefficient changes by more than this part of the smoothing, the search ends."""
_MOST_TERMS = 3
"""One term for so many examples at most."""


class Chosen(NamedTuple):
    """Columns, what they leave of the variance, and the criterion."""

    columns: npt.NDArray[np.int64]
    left: float
    criterion: float


def degree_for(n: int) -> int:
    """The highest degree whose monomials are few enough to be looked at."""
    return max((d for d in range(1, HIGHEST + 1) if comb(n + d, d) <= MOST_FEATURES), default=0)


def recover(x: Array, y: Array, enough: float) -> Support | None:
    """The monomials of each output of ``y [examples, m]``; None where more than ``enough`` of a variance is left."""
    degree = degree_for(x.shape[1])
    if degree == 0:
        return None
    monomials = all_monomials(x.shape[1], degree)
    whole = columns(x, monomials[1:])
    whole -= whole.mean(0)
    spread = whole.std(0)
    usable = np.flatnonzero(spread > 1e-9 * spread.max())
    whole = whole[:, usable] / spread[usable]
    found: list[tuple[Monomial, ...]] = []
    for k in range(y.shape[1]):
        centred = y[:, k] - y[:, k].mean()
        chosen = few_terms(whole, centred / centred.std())
        if chosen is None or chosen.left > enough:
            return None
        found.append(((), *(monomials[1 + usable[j]] for j in sorted(chosen.columns))))
    return Support(tuple(found))


def few_terms(design: Array, y: Array) -> Chosen | None:
    """Of standardised columns ``design [examples, features]`` the few that make ``y``; None where there are none."""
    best: Chosen | None = None
    for noise in NOISES:
        order = _ordered(design, y, noise)
        if not len(order):
            continue
        found = _best_size(design, y, order)
        if best is None or found.criterion < best.criterion:
            best = found
        if best.left < POLYNOMIAL.only_rounding:
            break
    return best


def _ordered(design: Array, y: Array, noise: float) -> npt.NDArray[np.int64]:
    """Columns by the size of their coefficients, without those that went to 0."""
    examples = len(y)
    index = np.arange(design.shape[1])
    weights = np.ones(len(index))
    least = max(0.3 * (noise / examples) ** 0.5, _SMALLEST)
    smooth, before = 0.0, np.zeros(0)
    coefficients = np.zeros(len(index))
    for step in range(_STEPS):
        part = design[:, index]
        matrix = (part * weights) @ part.T
        matrix.flat[:: examples + 1] += noise + 1e-12 * np.trace(matrix) / examples
        factor = scipy.linalg.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
        coefficients = weights * (part.T @ scipy.linalg.cho_solve(factor, y, check_finite=False))
        smooth = max(_SHRINK * (smooth or float(np.abs(coefficients).max())), least)
        if step > 5:  # what has become this small does not come back
            kept = np.abs(coefficients) > (_GONE * smooth if smooth > least else _GONE_AT_LAST * least)
            index, coefficients = index[kept], coefficients[kept]
        if not len(index):
            break
        if len(before) == len(coefficients) and np.abs(before - coefficients).max() < _STANDS * least:
            break
        weights, before = coefficients**2 + smooth**2, coefficients
    return np.asarray(index[np.argsort(-np.abs(coefficients))])


def _best_size(design: Array, y: Array, order: npt.NDArray[np.int64]) -> Chosen:
    """As many of the first columns as the extended criterion asks for."""
    examples, features = design.shape
    order = order[: max(1, examples // _MOST_TERMS)]
    basis = np.linalg.qr(design[:, order])[0]
    total = float(y @ y)
    left = np.maximum(total - np.cumsum((basis.T @ y) ** 2), POLYNOMIAL.only_rounding / 10 * total)
    sizes = np.arange(1, len(order) + 1)
    criteria = examples * np.log(left) + sizes * (np.log(examples) + 2 * np.log(features / sizes))
    best = int(np.argmin(criteria))
    return Chosen(order[: best + 1], float(left[best] / total), float(criteria[best]))
