"""Polynomials with few terms, one for every output: values, derivatives, least squares, as vectors of coefficients.

A monomial is a sorted tuple of inputs with repeats, ``(0, 0, 3)`` for ``x0^2 x3`` and ``()`` for 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement

import numpy as np

from metasym.discovery.algebra.vector_fields import Array, values

Monomial = tuple[int, ...]
_RANK = 1e-10
"""Singular values below this part of the largest are rounding."""


def all_monomials(n: int, degree: int) -> list[Monomial]:
    """Of n inputs, from 1 up to the degree; the constant first."""
    return [one for d in range(degree + 1) for one in combinations_with_replacement(range(n), d)]


def columns(x: Array, monomials: Sequence[Monomial]) -> Array:
    """``[points, monomials]``: their values at ``x [points, n]``."""
    found = np.ones((len(x), len(monomials)))
    for j, one in enumerate(monomials):
        for i in one:
            found[:, j] *= x[:, i]
    return found


def along(x: Array, monomials: Sequence[Monomial], moves: Array) -> Array:
    """``[points, monomials]``: the monomials' derivatives along ``moves [points, n]``."""
    found = np.zeros((len(x), len(monomials)))
    for j, one in enumerate(monomials):
        for k, i in enumerate(one):
            rest = moves[:, i].copy()
            for other in one[:k] + one[k + 1 :]:
                rest *= x[:, other]
            found[:, j] += rest
    return found


@dataclass(frozen=True, eq=False)
class Support:
    """Which monomials each output is made of. Coefficients are one vector, output after output."""

    monomials: tuple[tuple[Monomial, ...], ...]

    @property
    def size(self) -> int:
        """How many coefficients there are."""
        return sum(map(len, self.monomials))

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs that some term has."""
        return tuple(sorted({i for terms in self.monomials for one in terms for i in one}))

    def parts(self, coefficients: Array) -> list[Array]:
        """The coefficients of each output."""
        return np.split(coefficients, np.cumsum([len(terms) for terms in self.monomials])[:-1])

    def values(self, coefficients: Array, x: Array) -> Array:
        """``[points, m]``."""
        each = zip(self.monomials, self.parts(coefficients), strict=True)
        return np.stack([columns(x, terms) @ part for terms, part in each], axis=1)

    def jacobian(self, coefficients: Array, x: Array) -> Array:
        """``[points, m, n]``."""
        n = x.shape[1]
        found = np.zeros((len(x), len(self.monomials), n))
        for i in range(n):
            moves = np.zeros_like(x)
            moves[:, i] = 1
            for k, (terms, part) in enumerate(zip(self.monomials, self.parts(coefficients), strict=True)):
                has = [j for j, one in enumerate(terms) if i in one]
                found[:, k, i] = along(x, [terms[j] for j in has], moves) @ part[has]
        return found

    def fit(self, x: Array, y: Array) -> Array:
        """Least squares, each output separately."""
        found = []
        for k, terms in enumerate(self.monomials):
            design = columns(x, terms)
            size = np.sqrt((design**2).mean(0)) + 1e-300
            found.append(np.linalg.lstsq(design / size, y[:, k], rcond=_RANK)[0] / size)
        return np.concatenate(found)

    def errors(self, coefficients: Array, x: Array, y: Array) -> Array:
        """The coefficients' standard errors."""
        found = []
        for k, (terms, part) in enumerate(zip(self.monomials, self.parts(coefficients), strict=True)):
            design = columns(x, terms)
            size = np.sqrt((design**2).mean(0)) + 1e-300
            scaled = design / size
            left = float(((y[:, k] - design @ part) ** 2).sum()) / max(1, len(x) - len(terms))
            found.append(np.sqrt(left * np.diag(np.linalg.pinv(scaled.T @ scaled))) / size)
        return np.concatenate(found)

    def design(self, x: Array) -> Array:
        """``[points, m, coefficients]``: values are this times the coefficients."""
        found = np.zeros((len(x), len(self.monomials), self.size))
        start = 0
        for k, terms in enumerate(self.monomials):
            found[:, k, start : start + len(terms)] = columns(x, terms)
            start += len(terms)
        return found

    def broken(self, inner: Array, outer: Array, x: Array) -> tuple[Array, Array]:
        """How a pair changes the function: ``J_f (A x + a) - B f - b`` is ``first @ coefficients - second``.

        ``inner [n, n+1]``, ``outer [m, m+1]``; ``first [points, m, coefficients]``, ``second [m]``.
        """
        moves = values(inner[None], x)[:, 0]
        found = np.zeros((len(x), len(self.monomials), self.size))
        start = 0
        for k, terms in enumerate(self.monomials):
            stop = start + len(terms)
            found[:, k, start:stop] = along(x, terms, moves)
            if np.abs(outer[:, k]).max() > 0:
                found[:, :, start:stop] -= outer[None, :, k, None] * columns(x, terms)[:, None]
            start = stop
        return found, outer[:, -1]


@dataclass(frozen=True, eq=False)
class FittedPolynomial:
    """A polynomial with its coefficients, as a function."""

    support: Support
    coefficients: Array

    def __call__(self, x: Array) -> Array:
        """``[points, m]``."""
        return self.support.values(self.coefficients, x)

    def jacobian(self, x: Array) -> Array:
        """``[points, m, n]``."""
        return self.support.jacobian(self.coefficients, x)
