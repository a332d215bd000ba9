"""Gaussian processes whose functions a finite group keeps: kernels averaged over it, and what may hide beside.

For a kernel k that every move keeps, ``K(x, x') = mean_g k(x, g x') g'`` (a matrix ``[m, m]``) is that of functions
with ``f(g x) = g' f(x)``. Where the group moves no output all outputs share one number instead of a matrix. The
posterior mean is the average over the group of a function of the plain kernel, with weights of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct, Sum

from metasym.certification.certificate_thresholds import NEGLIGIBLE_VIOLATION
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import LIKELIHOOD
from metasym.discovery.models.column_kernels import OnColumns
from metasym.discovery.models.gaussian_processes import LEAST_NOISE, Hyper, Posterior, squares
from metasym.discovery.models.kernel_evaluation import OfEachInput, Products, kernel_values, of_products
from metasym.discovery.models.noise_likelihood import DELTAS, best_noise, largest_likely, profile
from metasym.groups.signed_groups import SignedGroup

MOST_ROWS = 2400
"""Rows of the system that a fit solves: examples, times outputs where these move."""
MOST_LIKELY = 900
"""Rows that likelihoods are computed of: their cost grows with the cube, and they are asked for often."""
_BLOCK = 128
"""Rows of a kernel matrix that are made at once."""
_MOST_PRODUCTS = 4e8
"""Entries of kernels, over all elements of a group and outputs, that a matrix is made of."""
_CUBES = (0.01, 1.0)
"""Weights of a cubic part that are tried."""
_SHARPER = (0.5**0.5, 0.5, 0.125**0.5)
"""Parts of the plain kernel's length scale that are tried: their exponentials are powers of one another."""


MOST_ROUGH = 500
"""Inputs times elements up to which functions that are rough along one input are searched for."""


@dataclass(frozen=True)
class HiddenPart:
    """What the data allow in addition to the symmetry, as a part of the variance of y."""

    upper: float
    refutes: bool
    """Whether the likelihood asks for something that the group does not keep."""


@dataclass(frozen=True, eq=False)
class Equivariant:
    """Functions that ``group`` keeps, with the kernel ``hyper`` before it is averaged."""

    group: SignedGroup
    hyper: Hyper

    def rows(self, x: Array, y: Array, most: int) -> tuple[Array, Array]:
        """As many examples as make at most ``most`` rows."""
        count = most if self.group.keeps_outputs else most // y.shape[1]
        columns = 1 if self.group.keeps_outputs else y.shape[1]
        affordable = int((_MOST_PRODUCTS / len(self.group.elements) / columns) ** 0.5)
        count = min(count, affordable)
        return x[:count], y[:count]

    def matrix(self, kernel: Any, x: Array) -> Array:
        """The averaged kernel of the examples ``x``: a row for each, or for each of its outputs."""
        return averaged_matrix(self.group, kernel, x)

    def fit(self, x: Array, y: Array, most: int = MOST_ROWS) -> Posterior:
        """A function of the plain kernel whose average over the group is the posterior mean; ``y`` is centred."""
        x, y = self.rows(x, y, most)
        weights = _solve(self.matrix(self.hyper.kernel, x), self.hyper.noise, self._flat(y))
        return Posterior(self.hyper.kernel, x, weights.reshape(y.shape), np.zeros(y.shape[1]))

    def breaking(self, x: Array, y: Array, most: int = MOST_ROWS) -> Posterior:
        """What a flexible model adds to these functions, at least as strong as the noise: it is to be judged."""
        x, y = self.rows(x, y, most)
        n = x.shape[1]
        noise = max(self.hyper.noise, 1e-6)
        free = squares(n, noise, n**0.5, noise / float(np.mean((x**2).sum(1))) ** 2)
        whole = self.matrix(self.hyper.kernel, x) + self._free(free, x, y.shape[1])
        weights = _solve(whole, noise, self._flat(y)).reshape(y.shape)
        return Posterior(free, x, weights, np.zeros(y.shape[1]))

    def averaged(self, fit: Posterior, x: Array) -> Array:
        """``mean_g g'^-1 f(g x)``, ``[points, m]``."""
        total = np.zeros((len(x), fit.weights.shape[1]))
        for g in self.group.elements:
            total += g.inverse.on_outputs(
                kernel_values(fit.kernel, g.on_inputs(x), fit.inputs) @ fit.weights + fit.mean
            )
        return np.asarray(total / len(self.group.elements))

    def hidden_part(self, x: Array, y: Array, most: float = 1.0) -> HiddenPart:
        """The largest variance that functions which the group does not keep may have beside those that it keeps.

        A free kernel may be preferred only because it has another length scale: it counts as a refutation where it
        is preferred to its own average over the group. Parts of a millionth of the variance do not refute: that is
        how far a kernel's form reaches, with data that have no noise. What the data allow beyond ``most`` is not
        searched for.
        """
        x, y = self.rows(x, y, MOST_LIKELY)
        n, m = x.shape[1], y.shape[1]
        variance = float(np.mean(y**2))
        flat = self._flat(y)
        looked_for: list[Any] = [RBF(n**0.5), RBF(2 * n**0.5), DotProduct(1.0) ** 2, DotProduct(1.0) ** 3]
        if n * len(self.group.elements) <= MOST_ROUGH:
            # Rough in all inputs looks like noise, in one of them not.
            looked_for.append(OfEachInput(LIKELIHOOD.rough))
        base, *averages = averaged_matrices(self.group, [self.hyper.kernel, *looked_for], x)
        without = best_noise(base, flat)[0]
        worst = 0.0
        for kernel, kept in zip(looked_for, averages, strict=True):
            free = self._free(kernel, x, m)
            scale = variance / float(np.mean(np.diag(free)))
            likely = profile(_beside(base, scale * kept, flat), without)
            beside = base + DELTAS[int(np.argmax(likely))] * scale * kept
            with_it = _beside(beside, scale * free, flat)
            found = profile(with_it, float(likely.max()))
            likeliest = float(DELTAS[int(np.argmax(found))])
            if found.max() > found[0] + LIKELIHOOD.level and likeliest > 2 * NEGLIGIBLE_VIOLATION:
                return HiddenPart(likeliest, refutes=True)
            worst = max(worst, largest_likely(found, with_it, worst))
            if worst > most:
                break
        return HiddenPart(worst, refutes=False)

    def gain(self, x: Array, y: Array, rows: int, known: dict[tuple[bytes, ...], float]) -> float:
        """By how much some examples are likelier with the group than without, at amplitudes and noises that suit.

        ``known`` keeps what the likelihood is without: many groups share the units of their examples.
        """
        x, y = self.rows(x, y, rows)
        flat = self._flat(y)
        key = (x.tobytes(), flat.tobytes(), np.array(self.amplitudes).tobytes())
        if key not in known:
            free = self._free(self.hyper.kernel, x, y.shape[1])
            known[key] = best_noise(free, flat, self.amplitudes)[0]
        return best_noise(self.matrix(self.hyper.kernel, x), flat, self.amplitudes)[0] - known[key]

    @property
    def amplitudes(self) -> tuple[float, ...]:
        """By how much an average may be larger: it has as little variance as the kernel has elements, or less."""
        order = float(len(self.group.elements))
        return tuple(sorted({1.0, order**0.5, order, order**2}))

    def _free(self, kernel: Any, x: Array, m: int) -> Array:
        free = kernel_values(kernel, x, x)
        return free if self.group.keeps_outputs else np.asarray(np.kron(free, np.eye(m)), dtype=np.float64)

    def _flat(self, y: Array) -> Array:
        return y if self.group.keeps_outputs else y.reshape(-1, 1)


def _beside(matrix: Array, other: Array, y: Array) -> Callable[[float], float]:
    """The logarithm of the likelihood with so much of ``other`` beside ``matrix``."""
    return lambda delta: best_noise(matrix + delta * other, y)[0]


def averaged_matrix(group: SignedGroup, kernel: Any, x: Array) -> Array:
    """``mean_g k(x, g x') g'`` of the examples ``x``, made symmetric to rounding."""
    return averaged_matrices(group, [kernel], x)[0]


def averaged_matrices(group: SignedGroup, kernels: Sequence[Any], x: Array) -> list[Array]:
    """The same of several kernels: what they have in common is computed once."""
    count, m = len(x), group.shape[0]
    if group.keeps_outputs:
        totals = [np.zeros((count, count)) for _ in kernels]
        parts = [(first, first + _BLOCK) for first in range(0, count, _BLOCK)]
        for g in group.elements:
            moved = g.on_inputs(x)
            for first, last in parts:  # the sum is symmetric: what is below its diagonal is above it
                found = Products(x[first:last], moved[first:])
                for total, kernel in zip(totals, kernels, strict=True):
                    total[first:last, first:] += of_products(kernel, found)
        for total in totals:
            for first, last in parts:
                total[last:, first:last] = total[first:last, last:].T
    else:
        blocks = [np.zeros((m, m, count, count)) for _ in kernels]
        for g in group.elements:
            found = Products(x, g.on_inputs(x))
            for block, kernel in zip(blocks, kernels, strict=True):
                values = of_products(kernel, found)
                for k in range(m):  # (g' y)[outputs[k]] = sign y[k]
                    block[g.outputs[k], k] += g.output_signs[k] * values
        totals = [block.transpose(2, 0, 3, 1).reshape(count * m, count * m) for block in blocks]
    order = len(group.elements)
    return [np.asarray((total + total.T) / (2 * order)) for total in totals]


def equivariant(group: SignedGroup, plain: Hyper, x: Array, y: Array) -> Equivariant:
    """The kernel that suits functions which the group keeps: the plain one, sharper, or with polynomials of degree 3.

    A group takes so many functions away that those left may be richer than a plain fit can afford.
    """
    n = x.shape[1]
    some = Equivariant(group, plain)
    few, targets = some.rows(x, y, MOST_LIKELY)
    flat = targets if group.keeps_outputs else targets.reshape(-1, 1)
    size = float(np.mean((x**2).sum(1)))
    one = DotProduct(1.0) ** 3
    kernel = plain.kernel
    sharper = [_reshaped(kernel, 1.0, factor) for factor in _SHARPER]
    cubes, base, *matrices = averaged_matrices(group, [one, kernel, *sharper], few)
    cubes /= size**3
    best = best_noise(base, flat, some.amplitudes)
    for other, matrix in zip(sharper, matrices, strict=True):
        found = best_noise(matrix, flat, some.amplitudes)
        if found[0] > best[0] + LIKELIHOOD.worth:
            best, kernel, base = found, other, matrix
    chosen = 0.0
    for cube in _CUBES:
        found = best_noise(base + cube * cubes, flat, some.amplitudes)
        if found[0] > best[0] + LIKELIHOOD.worth:
            best, chosen = found, cube
    likelihood, noise, amplitude = best
    if chosen:
        kernel = kernel + OnColumns(ConstantKernel(chosen / size**3) * one, 0, n)
    return Equivariant(group, Hyper(_reshaped(kernel, amplitude, 1.0), noise, likelihood))


def _reshaped(kernel: Any, amplitude: float, factor: float) -> Any:
    """The sum of kernels with every part's amplitude, and the smooth one's length, multiplied."""
    if isinstance(kernel, Sum):
        return _reshaped(kernel.k1, amplitude, factor) + _reshaped(kernel.k2, amplitude, factor)
    inner = kernel.kernel
    shape = RBF(float(inner.k2.length_scale) * factor) if isinstance(inner.k2, RBF) else inner.k2
    larger = ConstantKernel(float(inner.k1.constant_value) * amplitude) * shape
    return OnColumns(larger, kernel.start, kernel.stop)


def _solve(matrix: Array, noise: float, y: Array) -> Array:
    noise = max(noise, LEAST_NOISE)
    for _ in range(8):
        try:
            return np.asarray(cho_solve(cho_factor(matrix + noise * np.eye(len(y)), lower=True), y))
        except LinAlgError:  # a smooth kernel in few dimensions is singular to rounding
            noise *= 10
    raise LinAlgError("a kernel matrix has no factor")
