"""Kernels that are functions of inner products and lengths, evaluated from these: one product of matrices serves all.

Signed permutations change no length, so that averages over a group need the products alone. This is several times
faster than scikit-learn's general way, which computes every distance anew for every part of a kernel.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Exponentiation, Product, Sum

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.models.column_kernels import OnColumns


class OfEachInput:
    """The kernel of sums of functions of one input each, as rough as ``length`` says."""

    def __init__(self, length: float) -> None:
        self.length = length

    def __call__(self, x: Array, other: Array) -> Array:
        """``[points, others]``."""
        total = np.zeros((len(x), len(other)))
        for one, there in zip(x.T, other.T, strict=True):
            total += np.exp(-0.5 * ((one[:, None] - there) / self.length) ** 2)
        return total / x.shape[1]


class Products:
    """Inner products of points and others, their lengths, and what kernels of these have in common.

    An exponential of distances serves every length whose square is 2, 4 or 8 times smaller, or larger.
    """

    def __init__(self, x: Array, other: Array) -> None:
        self.x, self.other = x, other
        self.inner = x @ other.T
        self._near: dict[float, Array] = {}

    def near(self, length: float) -> Array:
        """``exp(-|x - x'|^2 / 2 length^2)``; not to be changed."""
        if length not in self._near:
            self._near[length] = self._computed(length)
        return self._near[length]

    def _computed(self, length: float) -> Array:
        for known, values in self._near.items():
            power = 2 * np.log2(known / length)
            if abs(power - round(power)) < 1e-9 and abs(round(power)) <= 3:
                for _ in range(abs(round(power))):
                    values = values * values if power > 0 else np.sqrt(values)
                return values
        exponent = 2 * self.inner
        exponent -= (self.x**2).sum(1)[:, None]
        exponent -= (self.other**2).sum(1)
        np.minimum(exponent, 0.0, out=exponent)
        exponent *= 0.5 / length**2
        return np.asarray(np.exp(exponent, out=exponent))


def kernel_values(kernel: Any, x: Array, other: Array) -> Array:
    """``kernel(x, other)`` for ``x [points, n]`` and ``other [others, n]``; parts look at all n columns."""
    if isinstance(kernel, OfEachInput):
        return kernel(x, other)
    return of_products(kernel, Products(x, other))


def of_products(kernel: Any, found: Products) -> Array:
    """The same from products that are known."""
    n = found.x.shape[1]
    if isinstance(kernel, OfEachInput):
        return kernel(found.x, found.other)
    if isinstance(kernel, Sum):
        first = of_products(kernel.k1, found)
        first += of_products(kernel.k2, found)
        return first
    if isinstance(kernel, OnColumns):
        if (kernel.start, kernel.stop) != (0, n):
            raise TypeError(f"no value of a kernel of the columns {kernel.start} to {kernel.stop} of {n}")
        return of_products(kernel.kernel, found)
    if isinstance(kernel, Product) and isinstance(kernel.k1, ConstantKernel):
        return np.asarray(of_products(kernel.k2, found) * float(kernel.k1.constant_value))
    if type(kernel) is RBF:  # Matern is one, too
        return found.near(float(kernel.length_scale)).copy()
    if isinstance(kernel, Exponentiation) and isinstance(kernel.kernel, DotProduct):
        base = found.inner + float(kernel.kernel.sigma_0) ** 2
        power = base.copy()
        for _ in range(int(kernel.exponent) - 1):
            power *= base
        return power
    raise TypeError(f"no value of {type(kernel).__name__}")
