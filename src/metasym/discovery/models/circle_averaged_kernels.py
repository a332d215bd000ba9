"""Gaussian processes whose functions turn with their inputs: kernels averaged over a circle, and what may hide.

For a kernel k that the turns keep, ``K(x, x') = mean_g k(x, g x') g'`` (a matrix ``[m, m]``) is that of the functions
with ``f(g x) = g' f(x)``. Its posterior mean is one of k itself, on the turned examples with turned weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.gaussian_process.kernels import RBF, DotProduct

from metasym.certification.certificate_thresholds import NEGLIGIBLE_VIOLATION
from metasym.discovery.algebra.compact_algebras import Circle
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import LIKELIHOOD
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, squares
from metasym.discovery.models.group_averaged_kernels import HiddenPart

MOST_JOINT = 4000
"""Examples times outputs that functions which turn are fitted to."""
MOST_ROWS = 640
"""Examples times outputs that likelihoods are computed of: their cost grows with the cube."""
_DELTAS = np.concatenate([[0.0], np.logspace(-7, 0, 15)])
_NOISES = np.logspace(-8, 0, 17)


def circle_kernel(kernel: Any, circle: Circle, x: Array, other: Array) -> Array:
    """``[points, m, others, m]``: the kernel of functions that turn."""
    steps, m = circle.outer.shape[:2]
    near = np.stack([kernel(x, other @ inner.T).reshape(-1) for inner in circle.inner])
    total = near.T @ circle.outer.reshape(steps, m * m) / steps
    return np.ascontiguousarray(total.reshape(len(x), len(other), m, m).transpose(0, 2, 1, 3))


def _square(matrix: Array) -> Array:
    size = matrix.shape[0] * matrix.shape[1]
    flat = matrix.reshape(size, size)
    return np.asarray((flat + flat.T) / 2)


def circle_posterior(hyper: Hyper, circle: Circle, x: Array, y: Array) -> Posterior:
    """The posterior mean of functions that turn, as one of the plain kernel on turned examples."""
    matrix = _square(circle_kernel(hyper.kernel, circle, x, x))
    weights = _solved(matrix, max(hyper.noise, 1e-7), y)
    steps = len(circle.inner)
    inputs = np.concatenate([x @ inner.T for inner in circle.inner])
    turned = np.concatenate([weights @ outer.T for outer in circle.outer]) / steps
    return Posterior(hyper.kernel, inputs, turned, np.zeros(y.shape[1]))


def averaged(fit: Posterior, circle: Circle, x: Array) -> Array:
    """``mean_g g'^-1 f(g x)``, ``[points, m]``."""
    turns = zip(circle.inner, circle.outer, strict=True)
    return np.asarray(np.mean([fit(x @ inner.T) @ outer for inner, outer in turns], axis=0))


def breaking_part(hyper: Hyper, circle: Circle, x: Array, y: Array) -> Posterior:
    """What a flexible model adds to the functions that turn, at least as strong as the noise: it is to be judged."""
    n, m = x.shape[1], y.shape[1]
    noise = max(hyper.noise, 1e-6)
    size = float(np.mean((x**2).sum(1)))
    kernel = squares(n, noise, n**0.5, noise / size**2)
    matrix = _square(circle_kernel(hyper.kernel, circle, x, x)) + np.kron(kernel(x, x), np.eye(m))
    return Posterior(kernel, x, _solved(matrix, noise, y), np.zeros(m))


def _solved(matrix: Array, noise: float, y: Array) -> Array:
    """``(matrix + noise)^-1 y``, shaped as y; the matrix is overwritten."""
    matrix.flat[:: len(matrix) + 1] += noise
    try:
        found = scipy.linalg.solve(matrix, y.reshape(-1), assume_a="pos")
    except scipy.linalg.LinAlgError:  # singular to rounding
        found = np.linalg.lstsq(matrix, y.reshape(-1), rcond=None)[0]
    return np.asarray(found).reshape(y.shape)


def averaged_posterior(fit: Posterior, circles: Sequence[Circle], elements: int = 60) -> Posterior:
    """A plain fit averaged over the group that several circles generate, by random products of their turns."""
    draw = np.random.default_rng(0)
    n, m = fit.inputs.shape[1], fit.weights.shape[1]
    inputs, weights, mean = [], [], np.zeros(m)
    for _ in range(elements):
        inner, outer = np.eye(n), np.eye(m)
        for one in [circles[i] for i in draw.integers(len(circles), size=8 * len(circles))]:
            step = int(draw.integers(len(one.inner)))
            inner, outer = one.inner[step] @ inner, one.outer[step] @ outer
        inputs.append(fit.inputs @ inner.T)
        weights.append(fit.weights @ outer.T / elements)
        mean += outer @ fit.mean / elements
    return Posterior(fit.kernel, np.concatenate(inputs), np.concatenate(weights), mean)


def first_rows(x: Array, y: Array, most: int = MOST_ROWS) -> tuple[Array, Array]:
    """The first examples, as many as make ``most`` rows."""
    count = max(20, most // y.shape[1])
    return x[:count], y[:count]


def circle_evidence(hyper: Hyper, circle: Circle, x: Array, y: Array) -> float:
    """The likelihood of functions that turn, at the noise that suits them."""
    x, y = first_rows(x, y)
    return _best(_square(circle_kernel(hyper.kernel, circle, x, x)), y)


def hidden_beside_circle(hyper: Hyper, circle: Circle, x: Array, y: Array) -> HiddenPart:
    """The largest variance that functions which do not turn may have beside those that do.

    A kernel that does not turn may only be preferred because it has another length scale: it counts as a refutation
    where it is preferred to its own average over the circle. Parts of a millionth of the variance do not refute:
    that is how far a kernel's form reaches, with data that have no noise. What is rough in all inputs together looks
    like noise; what is rough in one of them does not, and the search covers it.
    """
    x, y = first_rows(x, y)
    n, m = x.shape[1], y.shape[1]
    base = _square(circle_kernel(hyper.kernel, circle, x, x))
    variance = float(np.mean(y**2))
    worst, refuted = 0.0, False
    alone = [(kernel, kernel(x, x)) for kernel in (RBF(n**0.5), RBF(2 * n**0.5), DotProduct(1.0) ** 2)]
    for kernel, matrix in [*alone, (RBF(LIKELIHOOD.rough), _of_each_input(RBF(LIKELIHOOD.rough), x))]:
        free = np.kron(matrix, np.eye(m))
        scale = variance / float(np.mean(np.diag(free)))
        turning = _square(circle_kernel(kernel, circle, x, x))
        likely = np.array([_best(base + delta * scale * turning, y) for delta in _DELTAS])
        best = int(np.argmax(likely))
        beside = base + _DELTAS[best] * scale * turning
        profile = np.array([_best(beside + delta * scale * free, y) for delta in _DELTAS])
        asked = (
            profile.max() > profile[0] + LIKELIHOOD.level
            and _DELTAS[int(np.argmax(profile))] > 2 * NEGLIGIBLE_VIOLATION
        )
        refuted = refuted or bool(asked)
        last = int(np.flatnonzero(profile > profile.max() - LIKELIHOOD.level)[-1])
        worst = max(worst, float(_DELTAS[min(last + 1, len(_DELTAS) - 1)]))
    return HiddenPart(worst, refuted)


def _of_each_input(kernel: Any, x: Array) -> Array:
    """The kernel of sums of functions of one input each."""
    return np.asarray(np.mean([kernel(x[:, [i]]) for i in range(x.shape[1])], axis=0))


def _best(matrix: Array, y: Array) -> float:
    """The largest likelihood over noises."""
    sizes, vectors = np.linalg.eigh(matrix)
    powers = (vectors.T @ y.reshape(-1)) ** 2
    sizes = np.maximum(sizes, 0.0)
    each = [-0.5 * float((powers / (sizes + s) + np.log(sizes + s)).sum()) for s in _NOISES]
    return max(each)
