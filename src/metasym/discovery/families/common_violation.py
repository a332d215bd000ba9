"""What all tasks of a family share and a group does not keep, such as a curvature that depends on the place.

The functions of single tasks are too uncertain to show it. What averaged functions leave, pooled over tasks, shows
it: a polynomial that is fitted to some tasks' remainders must not predict those of others, but for the part that the
group keeps. Intervals are somewhat narrow, because folds share tasks: only the bound is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import Array
from metasym.groups.signed_permutations import SignedPermutation

MOST_FEATURES = 200
"""Monomials that all tasks share, at most: the cost grows with their cube."""
HIGHEST = 3
"""Degree of the monomials, at most."""
FOLDS = 4
"""Of tasks, in cross-validation."""


def shared_breaking(
    x: Array, left: Array, elements: Sequence[SignedPermutation], variance: float, draw: np.random.Generator
) -> Beta:
    """Beta of what tasks share: ``x [tasks, examples, n]``, and ``left``, what averaged functions leave of y.

    ``variance`` is that of one example over all outputs.
    """
    tasks, examples, n = x.shape
    m = left.shape[2]
    breaking = np.zeros_like(left)
    features = _features(n)
    for part in np.array_split(draw.permutation(tasks), FOLDS):
        kept = np.setdiff1d(np.arange(tasks), part)
        weights = _fitted(features(x[kept].reshape(-1, n)), left[kept].reshape(-1, m))
        points = x[part].reshape(-1, n)
        plain = features(points) @ weights
        average = np.zeros_like(plain)
        for g in elements:
            average += g.inverse.on_outputs(features(g.on_inputs(points)) @ weights) / len(elements)
        breaking[part] = (plain - average).reshape(len(part), examples, m)
    return beta(left.reshape(tasks, -1), breaking.reshape(tasks, -1), variance * examples)


def _features(n: int) -> Callable[[Array], Array]:
    """Monomials of the highest degree that leaves few enough; squares at least."""
    degree = max((d for d in range(1, HIGHEST + 1) if comb(n + d, d) <= MOST_FEATURES), default=1)
    chosen = [c for d in range(1, degree + 1) for c in combinations_with_replacement(range(n), d)]
    if degree == 1:
        chosen += [(i, i) for i in range(n)]
    factors = np.array([[*one, *[n] * (max(2, degree) - len(one))] for one in chosen])

    def features(x: Array) -> Array:
        whole = np.concatenate([x, np.ones((len(x), 1))], axis=1)
        return np.concatenate([np.ones((len(x), 1)), whole[:, factors].prod(2)], axis=1)

    return features


def _fitted(design: Array, y: Array) -> Array:
    """Ridge regression; the penalty of each output is the one at which its coefficients are likeliest."""
    mean, spread = design.mean(0), np.maximum(design.std(0), 1e-9)
    spread[0], mean[0] = 1.0, 0.0
    scaled = (design - mean) / spread
    vectors, sizes, right = np.linalg.svd(scaled, full_matrices=False)
    along = vectors.T @ y
    rest = np.maximum((y**2).sum(0) - (along**2).sum(0), 0.0)
    found = np.zeros((design.shape[1], y.shape[1]))
    for k in range(y.shape[1]):
        best = max((_evidence(sizes, along[:, k], rest[k], len(y), p), p) for p in np.logspace(-6, 1, 22))[1]
        found[:, k] = right.T @ (along[:, k] * sizes / (sizes**2 + 1 / best))
    found /= spread[:, None]
    found[0] -= mean @ found
    return found


def _evidence(sizes: Array, along: Array, rest: float, count: int, prior: float) -> float:
    """The logarithm of the likelihood at a variance of coefficients in units of the noise, whose size is free."""
    spread = 1 + prior * sizes**2
    power = float((along**2 / spread).sum()) + rest
    return float(-0.5 * np.log(spread).sum() - 0.5 * count * np.log(max(power, 1e-300)))
