"""Lorentz and the inertia tensor, with controls: functions whose whole affine algebra is computed, not looked up.

These functions have more symmetries than the group that is known of them: EMLP's invariant of so(1,3) also allows one
pair of vectors to grow while the other shrinks, and moments of inertia turn with all of gl(3), not so(3) alone. What
is claimed has to lie in the whole algebra, the null space of ``J_f(x) (A x + a) = B f(x) + b``, derivatives exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from studies.known_functions import Array, Truth, rotations_of

Function = Callable[[npt.NDArray[Any]], npt.NDArray[Any]]
NOISES = {"noise-1": 0.01, "noise-10": 0.1, "near-3-noise-1": 0.01}
NEAR = {"near-1": 0.01, "near-3": 0.03, "near-3-noise-1": 0.03}
"""By how much one coefficient (or those of one product) is off."""


def true_algebra(function: Function, n: int, seed: int = 0) -> Array:
    """``[d, n+m, n+m+1]``: all pairs that a function keeps, derivatives by a complex step.

    One output stays; of several those that are no linear function of others count, the first of them.
    """
    draw = np.random.default_rng([seed, 23])
    x = draw.normal(size=(1500, n))
    y = function(x)
    kept = independent(y)
    m = len(kept)
    slopes = np.empty((len(x), m, n))
    for i in range(n):
        step = x.astype(np.complex128)
        step[:, i] += 1e-30j
        slopes[:, :, i] = function(step)[:, kept].imag / 1e-30
    rows = np.einsum("pmi,pj->pmij", slopes, np.c_[x, np.ones(len(x))]).reshape(len(x) * m, -1)
    if m > 1:
        values = np.c_[y[:, kept], np.ones(len(x))]
        outer = np.einsum("ka,pj->pkaj", np.eye(m), values).reshape(len(x) * m, -1)
        rows = np.concatenate([rows, -outer], axis=1)
    sizes = np.sqrt((rows**2).mean(0)) + 1e-300
    _, signals, basis = np.linalg.svd(rows / sizes, full_matrices=False)
    null = basis[signals < 1e-10 * signals[0]] / sizes
    found = np.zeros((len(null), n + m, n + m + 1))
    found[:, :n, [*range(n), n + m]] = null[:, : n * (n + 1)].reshape(-1, n, n + 1)
    if m > 1:
        found[:, n:, n:] = null[:, n * (n + 1) :].reshape(-1, m, m + 1)
    return found


def independent(y: Array) -> list[int]:
    """Outputs that are no linear function of those before them."""
    found: list[int] = []
    for k in range(y.shape[1]):
        rest = y[:, k] - y[:, found] @ np.linalg.lstsq(y[:, found], y[:, k], rcond=None)[0]
        if np.linalg.norm(rest) > 1e-9 * np.linalg.norm(y[:, k]):
            found.append(k)
    return found


def on_independent(inner: Array, outer: Array, y: Array) -> Array:
    """Generators of inputs and of all outputs as pairs ``[d, n+m, n+m+1]`` on those outputs that say their own."""
    kept = independent(y)
    n, m = inner.shape[1], len(kept)
    lift = np.linalg.lstsq(y[:, kept], y, rcond=None)[0]  # [kept, all]
    found = np.zeros((len(inner), n + m, n + m + 1))
    found[:, :n, [*range(n), n + m]] = inner
    found[:, n:, n:-1] = outer[:, kept, :-1] @ lift.T
    found[:, n:, -1] = outer[:, kept, -1]
    return found


def lorentz_function(kind: str) -> Function:
    """Four four-vectors to EMLP's invariant of so(1,3), of degree 4; ``kind`` breaks it.

    ``masses`` adds a larger part of degree 2.
    """
    masses, kind = kind.startswith("masses"), kind.removeprefix("masses").removeprefix("-")
    metric = np.array([1.0, -1, -1, -1])
    last = 1 + NEAR.get(kind, 0.0)
    other = {"metric": np.array([1.0, -1, -1, -0.5]), "euclid": np.ones(4)}.get(
        kind, np.array([1.0, -1, -1, -last])
    )

    def function(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        p = x.reshape(-1, 4, 4)
        dot = np.einsum("pai,i,pbi->pab", p, metric, p)
        dot[:, 0, 2] = np.einsum("pi,i,pi->p", p[:, 0], other, p[:, 2])
        first, second = (dot[:, i, 2 + i] - dot[:, i, i] for i in range(2))
        y = 4 * (
            dot[:, 0, 1] * dot[:, 2, 3] - second * dot[:, 0, 2] - first * dot[:, 1, 3] + 4 * first * second
        )
        if masses:
            y = y + 4 * (dot[:, 0, 2] + dot[:, 0, 1] + dot[:, 1, 3] + dot[:, 2, 3])
        if kind == "linear":
            y = y + p[:, 0, 0]
        if kind == "cube":
            y = y + p[:, 0, 1] * p[:, 1, 2] * p[:, 3, 3]
        if kind == "wave":
            y = y + 0.3 * np.sin(8 * p[:, 0, 1])
        return np.asarray(y[:, None])

    return function


def lorentz(kind: str = "", count: int = 1000) -> Callable[[int], Truth]:
    """EMLP's data: vectors from N(0, 1/16), no noise unless ``kind`` says so."""

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 13])
        x = draw.normal(size=(count + 2000, 16)) / 4
        function = lorentz_function(kind)
        y = function(x)[:, 0]
        y = y + NOISES.get(kind, 0.0) * y.std() * draw.normal(size=len(y)) * (np.arange(len(y)) < count)
        blocks = [list(range(4 * i, 4 * i + 4)) for i in range(4)]
        fields, name = rotations_of(blocks, 16, [1, -1, -1, -1]), "so(1,3)"
        if kind.endswith("metric") or kind in NEAR:
            fields, name = rotations_of([b[:3] for b in blocks], 16, [1, -1, -1]), "so(1,2)"
        if kind.endswith(("linear", "euclid")):
            fields, name = rotations_of([b[1:] for b in blocks], 16), "so(3)"
        if kind == "wave":
            fields, name = rotations_of([[b[0], *b[2:]] for b in blocks], 16, [1, -1, -1]), "so(1,2)"
        whole = np.zeros((0, 17, 18)) if kind == "shuffled" else true_algebra(function, 16)
        if kind == "shuffled":
            y = draw.permutation(y)
        if kind in ("shuffled", "cube"):
            fields, name = fields[:0], ""
        return Truth(x[:count], y[:count], x[count:], y[count:], name, fields, algebra=whole)

    return make


def inertia_function(kind: str, bodies: int = 5) -> Function:
    """Masses and places of bodies to nine moments; ``kind`` breaks the group."""

    def function(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        mass, place = x[:, :bodies], x[:, bodies:].reshape(-1, bodies, 3)
        seen = place * (np.array([1.0, 1.0, 1.2]) if kind == "axis" else np.ones(3))
        y = np.einsum("pb,pbk,ij->pij", mass, seen**2, np.eye(3))
        y = y - np.einsum("pb,pbi,pbj->pij", mass, place, place)
        y[:, 2, 2] += NEAR.get(kind, 0.0) * mass[:, 0] * place[:, 0, 0] ** 2
        if kind == "wind":
            y[:, 2, 2] += place[:, 0, 0] * place[:, 1, 1]
        if kind == "pull":
            y[:, 0, 0] += 0.5 * place[:, 0, 0]
        if kind == "wave":
            y[:, 0, 1] += 0.2 * np.sin(3 * place[:, 0, 0])
        return np.asarray(y.reshape(len(x), 9))

    return function


def inertia(kind: str = "", count: int = 1000, bodies: int = 5) -> Callable[[int], Truth]:
    """EMLP's inertia tensor: nine numbers that turn as a matrix does.

    ``axis`` is no control: what is left is a linear function of ``sum m r r^T``, which turns with gl(3) all the same.
    """

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 19])
        n = 4 * bodies
        x = draw.normal(size=(count + 500, n))
        x[:, :bodies] = np.log1p(np.exp(x[:, :bodies]))
        function = inertia_function(kind, bodies)
        clean = y = function(x)
        noise = draw.normal(size=(len(y), 3, 3))
        noise = ((noise + noise.transpose(0, 2, 1)) / 2**0.5).reshape(-1, 9)  # a symmetric matrix is measured
        y = y + NOISES.get(kind, 0.0) * y.std(0) * noise * (np.arange(len(y)) < count)[:, None]
        whole = np.zeros((0, n + 6, n + 7)) if kind == "shuffled" else true_algebra(function, n)
        if kind == "shuffled":
            y = draw.permutation(y)
        fields, outputs = np.zeros((3, n, n + 1)), np.zeros((3, 9, 10))
        for k, (i, j) in enumerate(((0, 1), (1, 2), (2, 0))):
            turn = np.zeros((3, 3))
            turn[j, i], turn[i, j] = 1, -1
            fields[k, bodies:, bodies:n] = np.kron(np.eye(bodies), turn)
            outputs[k, :, :9] = np.kron(turn, np.eye(3)) + np.kron(np.eye(3), turn)
        pairs = on_independent(fields, outputs, clean)
        several = 3 if kind in ("", "noise-1", "noise-10") else 0
        name = "so(3)" if several else ""
        return Truth(
            x[:count],
            y[:count],
            x[count:],
            y[count:],
            name,
            fields[:several],
            outputs[:several],
            algebra=whole,
            targets=pairs[:several],
        )

    return make


POLYNOMIALS: dict[str, Callable[[int], Truth]] = {
    **{
        f"lorentz{'-' * bool(kind)}{kind}": lorentz(kind)
        for kind in (
            *("", "metric", "euclid", "linear", "cube", "wave", "shuffled", *NEAR, *NOISES),
            *("masses", "masses-metric", "masses-euclid", "masses-linear"),
        )
    },
    **{
        f"inertia{'-' * bool(kind)}{kind}": inertia(kind)
        for kind in ("", "axis", "wind", "pull", "wave", "shuffled", *NEAR, *NOISES)
    },
}
