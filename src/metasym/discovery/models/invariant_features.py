"""Functions of an algebra's invariants, fitted: the model with the symmetry built in."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from metasym.discovery.algebra.polynomial_invariants import evaluate
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.models.gaussian_processes import (
    Hyper,
    Posterior,
    choose_kernel,
    on_features,
    posterior,
    squares,
)

KINDS = ("plain", "roots", "cosines")
_ZERO = 1e-9
"""Entries of forms, whose squares sum to 1, that count as none."""


@dataclass(frozen=True, eq=False)
class Features:
    """Numbers made of invariants: the polynomials themselves, or lengths and angles where they are squares."""

    polynomials: Array
    kind: str
    middle: Array
    spread: Array

    def __call__(self, x: Array) -> Array:
        """``[points, k]``, scaled."""
        return np.asarray((raw_features(self.polynomials, self.kind, x) - self.middle) / self.spread)


def raw_features(polynomials: Array, kind: str, x: Array) -> Array:
    """``[points, k]``: ``roots`` takes the root of definite forms, ``cosines`` also divides the products by them."""
    found = evaluate(polynomials, x)
    if kind == "plain":
        return found
    lengths = definite(polynomials)
    roots = found.copy()
    for i in lengths:
        roots[:, i] = np.sqrt(np.abs(found[:, i]))
    if kind == "cosines":
        for i, (a, b) in products(polynomials, lengths).items():
            roots[:, i] = found[:, i] / np.maximum(roots[:, a] * roots[:, b], 1e-12)
    return roots


def definite(polynomials: Array) -> list[int]:
    """Which polynomials are definite quadratic forms without a linear part."""
    n = polynomials.shape[1]
    found = []
    for i, p in enumerate(polynomials):
        sizes = np.linalg.eigvalsh(p[:, :n])
        one_sign = sizes[0] > -_ZERO or sizes[-1] < _ZERO
        if one_sign and np.abs(p[:, n]).max() < _ZERO and np.abs(sizes).max() > _ZERO:
            found.append(i)
    return found


def products(polynomials: Array, lengths: list[int]) -> dict[int, tuple[int, int]]:
    """For each form that is no length: the two lengths whose inputs it multiplies, where there are such."""
    n = polynomials.shape[1]
    onto = {i: _onto(polynomials[i, :, :n]) for i in lengths}
    found = {}
    for i in range(len(polynomials)):
        if i in lengths or np.abs(polynomials[i, :, n]).max() > _ZERO:
            continue
        form = polynomials[i, :, :n]
        for a, b in combinations(lengths, 2):
            across = onto[a] @ form @ onto[b]
            if np.abs(onto[a] @ onto[b]).max() < _ZERO and np.abs(across + across.T - form).max() < _ZERO:
                found[i] = (a, b)
    return found


def _onto(form: Array) -> Array:
    """The projection on the inputs, or combinations of them, that a form looks at."""
    sizes, vectors = np.linalg.eigh(form)
    seen = vectors[:, np.abs(sizes) > _ZERO]
    return np.asarray(seen @ seen.T)


def features_of(polynomials: Array, kind: str, x: Array) -> Features:
    """Features scaled to mean 0 and deviation 1 on ``x``."""
    raw = raw_features(polynomials, kind, x)
    spread = raw.std(0)
    return Features(polynomials, kind, raw.mean(0), np.where(spread > 0, spread, 1.0))


@dataclass(frozen=True, eq=False)
class SymmetricFit:
    """A Gaussian process on features that a symmetry keeps."""

    features: Features
    hyper: Hyper

    def inputs(self, x: Array) -> Array:
        """``[points, n + k]``: the coordinates and the features."""
        return np.concatenate([x, self.features(x)], axis=1)

    def fit(self, x: Array, y: Array) -> Posterior:
        """The posterior mean given ``x [examples, n]`` and ``y [examples, outputs]``."""
        return posterior(self.hyper, self.inputs(x), y)


def symmetric_fit(
    polynomials: Array, x: Array, y: Array, generator: np.random.Generator, kinds: tuple[str, ...] = KINDS
) -> SymmetricFit:
    """The kind of features and the hyperparameters with the largest marginal likelihood."""
    seed = int(generator.integers(2**31))
    best: SymmetricFit | None = None
    lengths = definite(polynomials)
    for kind in kinds:
        if (kind == "roots" and not lengths) or (kind == "cosines" and not products(polynomials, lengths)):
            continue
        features = features_of(polynomials, kind, x)
        inputs = np.concatenate([x, features(x)], axis=1)
        start = on_features(x.shape[1], np.full(len(polynomials), 3.0), 10.0)
        hyper = choose_kernel(inputs, y, [start], 1e-2, np.random.default_rng(seed))
        if best is None or hyper.evidence > best.hyper.evidence:
            best = SymmetricFit(features, hyper)
    assert best is not None
    return best


def with_rest(
    fit: SymmetricFit, x: Array, y: Array, generator: np.random.Generator, starts: int = 2
) -> Hyper:
    """The symmetric kernel with one on the raw coordinates beside it: what the symmetry does not explain."""
    n = x.shape[1]
    noise = fit.hyper.noise
    size = float(np.mean((x**2).sum(1)))
    options = [
        (noise / 2, n**0.5, noise / 2 / size**2),
        (noise / 50, 3 * n**0.5, noise / size**2),
    ]
    kernels = [_copy(fit.hyper.kernel) + squares(n, *option) for option in options[:starts]]
    return choose_kernel(fit.inputs(x), y, kernels, noise / 3, generator)


def _copy(kernel: Any) -> Any:
    return kernel.clone_with_theta(kernel.theta)
