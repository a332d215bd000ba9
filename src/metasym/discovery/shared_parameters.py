"""Which coefficients of one linear model are equal, opposite or zero: by marginal likelihood over partitions.

Sorted by size, coefficients that share a value are neighbours, so that dynamic programming over cuts of the sorted
list finds the best partition for every number of groups; with inputs that depend on each other it proposes, and moves
of single coefficients, judged by the exact likelihood, improve it. A coefficient may be a vector, such as the values
of one position's function: the list is then sorted along the direction in which the vectors are largest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln

from metasym.argument_types import checked
from metasym.types import MetasymError

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]
_ROUNDS = 20
"""Over all coefficients, at most; it ends when nothing changes."""
_CONCENTRATION = 0.1
"""How likely a group of its own is before data are seen: with 1 every hundredth partition had one by chance."""


@dataclass(frozen=True, eq=False)
class SharedParameters:
    """A partition of coefficients; ``weights = signs * values[labels]``, 0 where the label is 0."""

    labels: Labels
    """``[n]``: 0 for coefficients that are zero; equal numbers share their size."""
    signs: Labels
    """``[n]`` of 1 and -1."""
    values: Array
    """``[groups + 1]``, of vectors ``[groups + 1, p]``: the shared size of each label; the first is 0."""
    noise: float
    """The standard deviation of y that is left."""
    evidence: float
    """The logarithm of the marginal likelihood with the prior of the partition."""

    def __repr__(self) -> str:
        many = len(self.labels)
        return f"SharedParameters({many} coefficients in {len(self.groups)} groups, noise {self.noise:.3g})"

    @property
    def weights(self) -> Array:
        """``[n]``, of vectors ``[n, p]``: the coefficients."""
        return np.asarray((self.signs * self.values[self.labels].T).T)

    @property
    def groups(self) -> list[list[int]]:
        """The coefficients that share a size, group by group; those that are zero last."""
        order = [*range(1, len(self.values)), 0]
        found = [np.flatnonzero(self.labels == label).tolist() for label in order]
        return [group for group in found if group]


@checked
def shared_parameters(x: Any, y: Any, *, zeros: bool = True, opposite: bool = True) -> SharedParameters:
    """Find which coefficients of ``y = x w + noise`` share their value.

    Args:
        x: Inputs ``[examples, n]``, or ``[examples, n, p]`` where each of the n coefficients is a vector of p numbers
            (p features of each of n inputs, for functions that are not linear); more examples than numbers.
        y: Outputs ``[examples]``.
        zeros: Whether coefficients may be zero.
        opposite: Whether coefficients may differ in sign alone.

    Returns:
        A :class:`SharedParameters`: the classes of equal coefficients, their signs and values, the noise.
    """
    inputs, targets = _checked(x, y)
    shape = inputs.shape[1:]
    inputs = inputs.reshape(len(inputs), -1)
    count, n = inputs.shape
    estimate = np.asarray(np.linalg.lstsq(inputs, targets, rcond=None)[0], dtype=np.float64)
    noise = float(((targets - inputs @ estimate) ** 2).sum() / (count - n))
    noise = max(noise, 1e-12 * float((targets**2).mean()), 1e-300)
    precision = inputs.T @ inputs / noise
    if np.linalg.matrix_rank(precision) < n:
        raise MetasymError(
            f"expected inputs that do not depend on each other, found {n} that do", about="x", found=n
        )
    return shared_estimates(
        estimate.reshape(shape), precision, zeros=zeros, opposite=opposite, noise=noise**0.5
    )


def shared_estimates(
    estimate: Array, precision: Array, *, zeros: bool = True, opposite: bool = True, noise: float = 1.0
) -> SharedParameters:
    """The same from estimates ``[n]`` or ``[n, p]`` and the precision (inverse covariance) of all their numbers."""
    n = len(estimate)
    vectors = estimate.reshape(n, -1)
    p = vectors.shape[1]
    along = np.linalg.svd(vectors, full_matrices=False)[2][0] if p > 1 else np.ones(1)
    sizes: Array = np.asarray(vectors @ along, dtype=np.float64)
    signs = np.where(sizes < 0, -1, 1) if opposite else np.ones(n, dtype=np.int64)
    blocks = precision.reshape(n, p, n, p)
    precisions = np.einsum("ikil,k,l->i", blocks, along, along)
    prior = max(float((estimate**2).mean()), 1e-300)
    judge = _Judge(vectors, precision, prior)
    best = max(_proposals(sizes * signs, precisions, prior, zeros), key=lambda cut: judge(cut, signs))
    labels, evidence = _improved(best, signs, judge, zeros)
    labels = _renumbered(labels)
    values = np.concatenate([np.zeros((1, p)), judge.values(labels, signs)])
    values = values.reshape(-1, *estimate.shape[1:])
    return SharedParameters(labels, signs.astype(np.int64), values, noise, evidence)


class _Judge:
    """The exact marginal likelihood of a partition of vectors ``[n, p]``: N(0, prior) values for each group."""

    def __init__(self, vectors: Array, precision: Array, prior: float) -> None:
        self.precision, self.prior, self.numbers = precision, prior, vectors.shape[1]
        self.pull = precision @ vectors.reshape(-1)

    def _solved(self, labels: Labels, signs: Labels) -> tuple[Array, Array, Array]:
        count = int(labels.max())
        share: Array = np.zeros((len(labels), count))
        nonzero = labels > 0
        share[np.flatnonzero(nonzero), labels[nonzero] - 1] = signs[nonzero]
        share = np.asarray(np.kron(share, np.eye(self.numbers)), dtype=np.float64)
        inner = share.T @ self.precision @ share + np.eye(share.shape[1]) / self.prior
        pull = share.T @ self.pull
        solved = np.linalg.solve(inner, pull) if count else pull
        return inner, pull, np.asarray(solved, dtype=np.float64)

    def __call__(self, labels: Labels, signs: Labels) -> float:
        labels = _renumbered(labels)
        inner, pull, solved = self._solved(labels, signs)
        count = len(pull)
        determinant = np.linalg.slogdet(inner)[1] if count else 0.0
        fit = 0.5 * float(pull @ solved) - 0.5 * float(determinant) - 0.5 * count * np.log(self.prior)
        return float(fit + _partition_prior(labels))

    def values(self, labels: Labels, signs: Labels) -> Array:
        return self._solved(labels, signs)[2].reshape(-1, self.numbers)


def _partition_prior(labels: Labels) -> float:
    """A Chinese restaurant's prior of the partition: few groups unless the data ask for them."""
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    whole = gammaln(_CONCENTRATION) - gammaln(len(labels) + _CONCENTRATION)
    return float(gammaln(sizes).sum() + len(sizes) * np.log(_CONCENTRATION) + whole)


def _proposals(sizes: Array, precisions: Array, prior: float, zeros: bool) -> list[Labels]:
    """The best cut of the sorted sizes into k groups, for every k; with and without a group of zeros."""
    order = np.argsort(sizes)
    s, p = sizes[order], precisions[order]
    n = len(s)
    weight, pull = np.concatenate([[0], np.cumsum(p)]), np.concatenate([[0], np.cumsum(p * s)])
    first, last = np.meshgrid(np.arange(n + 1), np.arange(n + 1), indexing="ij")
    inner = weight[last] - weight[first] + 1 / prior
    gain = np.full((n + 1, n + 1), -np.inf)
    valid = last > first
    total = pull[last] - pull[first]
    length = np.where(valid, last - first, 1)
    score = 0.5 * total**2 / np.where(valid, inner, 1) - 0.5 * np.log(np.where(valid, inner, 1) * prior)
    gain[valid] = (score + gammaln(length))[valid]
    best = np.full((n + 1, n + 1), -np.inf)
    back = np.zeros((n + 1, n + 1), dtype=np.int64)
    best[0, 0] = 0.0
    for k in range(1, n + 1):
        options = best[k - 1][:, None] + gain
        best[k], back[k] = options.max(0), options.argmax(0)
    found: list[Labels] = []
    for k in range(1, n + 1):
        cuts, end = [], n
        for j in range(k, 0, -1):
            start = int(back[j, end])
            cuts.append((start, end))
            end = start
        labels: Labels = np.zeros(n, dtype=np.int64)
        for number, (start, stop) in enumerate(reversed(cuts), start=1):
            labels[order[start:stop]] = number
        found.append(labels)
        if zeros:
            middles = [float(np.abs(sizes[labels == g]).mean()) for g in range(1, k + 1)]
            smallest = int(np.argmin(middles)) + 1
            found.append(np.where(labels == smallest, 0, labels))
    return found


def _improved(labels: Labels, signs: Labels, judge: _Judge, zeros: bool) -> tuple[Labels, float]:
    """Move single coefficients, and join groups, while the likelihood grows."""
    best, value = labels, judge(labels, signs)
    for _ in range(_ROUNDS):
        before = value
        for i in range(len(best)):
            for label in range(0 if zeros else 1, int(best.max()) + 2):
                other = best.copy()
                other[i] = label
                if (found := judge(other, signs)) > value + 1e-9:
                    best, value = _renumbered(other), found
        for a in range(1, int(best.max()) + 1):
            for b in range(0 if zeros else 1, a):
                other = np.where(best == a, b, best)
                if (found := judge(other, signs)) > value + 1e-9:
                    best, value = _renumbered(other), found
        if value <= before + 1e-9:
            break
    return best, value


def _renumbered(labels: Labels) -> Labels:
    """0 stays, the others become 1, 2, ... in the order of their numbers."""
    numbers = np.unique(labels[labels > 0])
    place = np.zeros(int(labels.max()) + 1, dtype=np.int64)
    place[numbers] = np.arange(1, len(numbers) + 1)
    return np.asarray(place[labels])


def _numbers(name: str, value: Any) -> Array:
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise MetasymError(
            f"expected {name} to be an array of numbers, found {error}",
            about=name,
            found=type(value).__name__,
        ) from None


def _checked(x: Any, y: Any) -> tuple[Array, Array]:
    inputs, targets = _numbers("x", x), _numbers("y", y)
    if inputs.ndim not in (2, 3) or targets.shape != inputs.shape[:1]:
        raise MetasymError(
            "expected x [examples, n] or [examples, n, p] and y [examples], "
            f"found {list(inputs.shape)} and {list(targets.shape)}",
            about="x, y",
            found=(tuple(inputs.shape), tuple(targets.shape)),
        )
    if len(inputs) <= np.prod(inputs.shape[1:]):
        raise MetasymError(
            f"expected more examples than coefficients, found {len(inputs)} and {np.prod(inputs.shape[1:])}",
            about="x",
            found=tuple(inputs.shape),
        )
    if not (np.isfinite(inputs).all() and np.isfinite(targets).all()):
        raise MetasymError(
            "expected finite numbers, found NaN or infinity", about="x, y", found="NaN or infinity"
        )
    return inputs, targets
