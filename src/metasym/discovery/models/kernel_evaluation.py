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


def kernel_values(kernel: Any, x: Array, other: Array) -> Array:
    """``kernel(x, other)`` for ``x [points, n]`` and ``other [others, n]``; parts look at all n columns."""
    if isinstance(kernel, OfEachInput):
        return kernel(x, other)
    return _values(kernel, x @ other.T, (x**2).sum(1)[:, None], (other**2).sum(1), x.shape[1])


def _values(kernel: Any, inner: Array, sizes: Array, others: Array, n: int) -> Array:
    if isinstance(kernel, Sum):
        first = _values(kernel.k1, inner, sizes, others, n)
        first += _values(kernel.k2, inner, sizes, others, n)
        return first
    if isinstance(kernel, OnColumns):
        if (kernel.start, kernel.stop) != (0, n):
            raise TypeError(f"no value of a kernel of the columns {kernel.start} to {kernel.stop} of {n}")
        return _values(kernel.kernel, inner, sizes, others, n)
    if isinstance(kernel, Product) and isinstance(kernel.k1, ConstantKernel):
        found = _values(kernel.k2, inner, sizes, others, n)
        found *= float(kernel.k1.constant_value)
        return found
    if type(kernel) is RBF:  # Matern is one, too
        squared = float(kernel.length_scale) ** 2
        exponent = 2 * inner
        exponent -= sizes
        exponent -= others
        np.minimum(exponent, 0.0, out=exponent)
        exponent *= 0.5 / squared
        return np.asarray(np.exp(exponent, out=exponent))
    if isinstance(kernel, Exponentiation) and isinstance(kernel.kernel, DotProduct):
        base = inner + float(kernel.kernel.sigma_0) ** 2
        power = base.copy()
        for _ in range(int(kernel.exponent) - 1):
            power *= base
        return power
    raise TypeError(f"no value of {type(kernel).__name__}")
