"""Likely hypotheses, asked directly: inputs that are vectors or points of a few numbers each.

Twelve inputs may be three vectors of four numbers. A model that knows nothing of that sees too little of the function
for a spectrum of fields to show a gap. Functions of the vectors' lengths and products are fitted instead, a grouping
at a time, and compared by evidence. The likeliest is judged on held-out examples as every other candidate is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.optimize
from sklearn.gaussian_process.kernels import WhiteKernel

from metasym.discovery.algebra.polynomial_invariants import moved_polynomials, stabiliser
from metasym.discovery.algebra.vector_fields import Array, conjugated, orthonormal, rotations
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.invariance_search import MOST_AFFINE, Candidate
from metasym.discovery.models.gaussian_processes import LEAST_NOISE, Hyper, on_features
from metasym.discovery.models.invariant_features import SymmetricFit, features_of, symmetric_fit, with_rest
from metasym.discovery.models.marginal_likelihood import negative_likelihood
from metasym.discovery.models.preprocessing import Prepared
from metasym.discovery.models.shared_units import Coordinates

VECTORS = "vectors"
"""What this space of candidates is called."""
MOST_INVARIANTS = 24
"""Features of a function: a length scale is learned for each."""
MOST_INPUTS = 40
"""With more there are too many groupings."""
_ROWS = 200
"""Examples that groupings are ranked on."""
_STEPS = 20
"""Of the search for hyperparameters, while groupings are ranked."""
_FINALISTS = 3
"""Groupings that are fitted to all training examples, at most."""
_CLOSE = 20.0
"""Logarithms of evidence, of so few examples, below the best with which a grouping is fitted to all."""
_LONG = 20.0
"""Length scales, in standard deviations of a feature, from which on it may be left out."""


@dataclass(frozen=True)
class Grouping:
    """Inputs as vectors of equally many numbers; the inputs that are in none stay as they are."""

    vectors: tuple[tuple[int, ...], ...]
    metric: tuple[int, ...]
    """Signs of the squares of components: all 1 for lengths, one of another sign for space and time."""
    points: bool = False
    """Whether only differences of the vectors count."""
    about: tuple[float, ...] = ()
    """The point ``[n]``, in the units of the data, that is 0 for the vectors; the data's own 0 where it is empty."""

    @property
    def words(self) -> str:
        """``3 vectors of 4 inputs``."""
        what = "points" if self.points else "vectors"
        return f"{len(self.vectors)} {what} of {len(self.metric)} inputs" + (
            "" if min(self.metric) > 0 else ", one of them a time"
        )

    def polynomials(self, n: int) -> Array:
        """``[k, n, n+1]``: products of all pairs (of points: squared distances), then the inputs in no vector."""
        found = []
        count = len(self.vectors)
        for a in range(count):
            for b in range(a + self.points, count):
                p = np.zeros((n, n + 1))
                for i, j, sign in zip(self.vectors[a], self.vectors[b], self.metric, strict=True):
                    if self.points:
                        p[i, i], p[j, j] = sign, sign
                        p[i, j] = p[j, i] = -sign
                    elif i == j:
                        p[i, i] = sign
                    else:
                        p[i, j] = p[j, i] = sign / 2
                found.append(p)
        for i in sorted(set(range(n)) - {i for one in self.vectors for i in one}):
            p = np.zeros((n, n + 1))
            p[i, n] = 1
            found.append(p)
        return np.array(found)

    def fields(self, n: int) -> Array:
        """``[d, n, n+1]``: the same rotation of all vectors; for points also the same translation."""
        found = []
        size = len(self.metric)
        for a in range(size):
            for b in range(a):
                A = np.zeros((n, n + 1))
                for one in self.vectors:
                    A[one[a], one[b]] = 1
                    A[one[b], one[a]] = -self.metric[a] * self.metric[b]
                found.append(A)
        for a in range(size if self.points else 0):
            A = np.zeros((n, n + 1))
            A[[one[a] for one in self.vectors], n] = 1
            found.append(A)
        return np.array(found).reshape(-1, n, n + 1)


def groupings(n: int, middle: Array) -> list[Grouping]:
    """What is asked of ``n`` inputs, whose ``middle [n]`` is 0 where it counts as 0."""
    found: list[Grouping] = []
    for size in range(2, n + 1):
        plus = (1,) * size
        for count in range(n // size, 0, -1):
            left = n - size * count
            if 2 * size * count < n or count * (count + 1) // 2 + left > MOST_INVARIANTS:
                continue
            for vectors in _placed(n, size, count):
                found.append(Grouping(vectors, plus))
                if size in (2, 3) and count > 1 and not left:
                    found.append(Grouping(vectors, plus, points=True))
            if size <= 4 and not left:
                vectors = next(_placed(n, size, count))
                found += [Grouping(vectors, one) for one in ((-1, *plus[1:]), (*plus[1:], -1))]
    if middle.any():
        shifted = [g for g in found if not g.points and middle[[i for v in g.vectors for i in v]].any()]
        found += [Grouping(g.vectors, g.metric, about=tuple(middle.tolist())) for g in shifted]
    return found


def _placed(n: int, size: int, count: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """One vector after the other, from the first input or up to the last; or component after component."""
    left = n - size * count
    for start in {0, left}:
        yield tuple(tuple(range(start + size * k, start + size * (k + 1))) for k in range(count))
    if not left and count > 1:
        yield tuple(tuple(range(k, n, count)) for k in range(count))


def likely_vectors(prepared: Prepared, plain: Hyper, generator: np.random.Generator) -> Candidate | None:
    """The grouping whose functions explain the training examples best; None where a plain model does as well."""
    x, y = prepared.train
    n = x.shape[1]
    if not 2 <= n <= MOST_INPUTS:
        return None
    asked = groupings(n, prepared.place.centre)
    likely = [_quick(_moved(one, prepared.place, n), x, y) for one in asked]
    ranked = sorted(zip(likely, range(len(asked)), strict=True), reverse=True)[:_FINALISTS]
    seed = int(generator.integers(2**31))
    fits = [
        (asked[i], symmetric_fit(_moved(asked[i], prepared.place, n), x, y, np.random.default_rng(seed)))
        for value, i in ranked
        if value >= ranked[0][0] - _CLOSE
    ]
    best, fit = max(fits, key=lambda one: one[1].hyper.evidence)
    if fit.hyper.evidence < plain.evidence + CONTINUOUS.evidence:
        return None
    fit = _without_idle(fit, x, y, seed)
    fields = _kept(best, fit, prepared.place, n)
    rest = with_rest(fit, x, y, np.random.default_rng(seed), starts=1)
    return Candidate(VECTORS, fields, fit.features.polynomials, fit, rest, asked=True)


def _moved(grouping: Grouping, place: Coordinates, n: int) -> Array:
    """The invariants in the coordinates of the search, each of length 1."""
    found = moved_polynomials(grouping.polynomials(n), _to_data(grouping, place))
    return np.asarray(found / np.linalg.norm(found, axis=(1, 2), keepdims=True))


def _to_data(grouping: Grouping, place: Coordinates) -> Array:
    """``[n+1, n+1]``: from the coordinates of the search to those that the vectors are in."""
    matrix: Array = np.linalg.inv(place.matrix).astype(np.float64)
    if grouping.about:
        matrix[:-1, -1] -= np.array(grouping.about)
    return matrix


def _kept(grouping: Grouping, fit: SymmetricFit, place: Coordinates, n: int) -> Array:
    """The algebra of the invariants that are left, at least that of the grouping."""
    to_data = _to_data(grouping, place)
    own = orthonormal(conjugated(grouping.fields(n), to_data))
    if n > MOST_AFFINE or min(grouping.metric) < 0 or grouping.points:
        return own
    every = orthonormal(conjugated(rotations(n), to_data))
    return stabiliser(fit.features.polynomials, every)


def _without_idle(fit: SymmetricFit, x: Array, y: Array, seed: int) -> SymmetricFit:
    """Without the invariants that the function hardly depends on: what is left has the larger algebra."""
    scales = np.broadcast_to(fit.hyper.kernel.kernel.k2.length_scale, len(fit.features.polynomials))
    kept = np.flatnonzero(scales < _LONG)
    if not len(kept) or len(kept) == len(scales):
        return fit
    other = symmetric_fit(fit.features.polynomials[kept], x, y, np.random.default_rng(seed))
    return other if other.hyper.evidence > fit.hyper.evidence - CONTINUOUS.evidence else fit


def _quick(polynomials: Array, x: Array, y: Array) -> float:
    """The evidence of some examples after few steps: enough to rank."""
    x, y = x[:_ROWS], y[:_ROWS] - y[:_ROWS].mean(0)
    inputs = features_of(polynomials, "plain", x)(x)
    start = on_features(0, np.full(len(polynomials), 3.0), 10.0) + WhiteKernel(1e-2, (LEAST_NOISE, 10.0))
    found = scipy.optimize.minimize(
        lambda theta: negative_likelihood(start, inputs, y, theta),
        start.theta,
        jac=True,
        method="L-BFGS-B",
        bounds=start.bounds,
        options={"maxiter": _STEPS},
    )
    return -float(found.fun)
