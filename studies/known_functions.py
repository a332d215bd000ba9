"""Functions whose continuous symmetries are known, and the same with them broken: what ``studies.discover`` runs on.

A control breaks the symmetry for every choice of linear coordinates of inputs and outputs. To stretch an output is
no control: what turned on a circle then turns on an ellipse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Truth:
    """A data set with what is true of it."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array
    name: str
    """The name of its continuous symmetry; empty where it has none."""
    fields: Array
    """``[d, n, n+1]``: its generators."""
    outputs: Array | None = None
    """``[d, m, m+1]``: what they do to the outputs; None where these stay."""
    algebra: Array | None = None
    """``[d, n+m, n+m+1]``: all pairs that the function keeps, where they are known, on outputs of their own."""
    targets: Array | None = None
    """The fields that should be named as such pairs, where outputs move."""


def rotations_of(blocks: list[list[int]], n: int, signs: list[int] | None = None) -> Array:
    """so(k) (or so(p, q) by signs) acting on all blocks of k inputs at once."""
    k = len(blocks[0])
    metric = signs or [1] * k
    found = []
    for i in range(k):
        for j in range(i):
            A = np.zeros((n, n))
            for block in blocks:
                A[block[i], block[j]], A[block[j], block[i]] = 1, -metric[i] * metric[j]
            found.append(np.c_[A, np.zeros(n)])
    return np.array(found).reshape(-1, n, n + 1)


def o5(count: int, kind: str = "", turned: bool = False) -> Callable[[int], Truth]:
    """The O(5) regression of EMLP; ``kind`` breaks it, ``turned`` multiplies x by an orthogonal matrix."""

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 5])
        x = draw.normal(size=(count + 2000, 10))
        a, b = x[:, :5], x[:, 5:]
        weights = np.array([1, 1, 1, 1, 0.5]) if kind == "dot" else np.ones(5)
        stretch = np.array([1, 1, 1, 1, 1.15]) if kind == "ellipsoid" else np.ones(5)
        length_a, length_b = np.linalg.norm(a, axis=1), np.linalg.norm(b * stretch, axis=1)
        y = np.sin(length_a) - 0.5 * length_b**3 + (a * b * weights).sum(1) / length_a / length_b
        if kind == "linear":
            y = y + 0.3 * a[:, 0]
        if kind == "product":
            y = y + 0.3 * a[:, 0] * b[:, 1]
        if kind == "shuffled":
            y = draw.permutation(y)
        dimensions = {"dot": 4, "ellipsoid": 4, "linear": 4, "product": 3, "shuffled": 0}.get(kind, 5)
        first = {"linear": 1, "product": 2}.get(kind, 0)
        kept = list(range(first, first + dimensions)) if dimensions else []
        fields = rotations_of([kept, [5 + i for i in kept]], 10) if kept else np.zeros((0, 10, 11))
        turn = np.linalg.qr(draw.normal(size=(10, 10)))[0] if turned else np.eye(10)
        fields[:, :, :10] = turn.T @ fields[:, :, :10] @ turn
        x = x @ turn
        name = f"so({dimensions})" if dimensions else ""
        return Truth(x[:count], y[:count], x[count:], y[count:], name, fields)

    return make


def swirl(kind: str = "", count: int = 300) -> Callable[[int], Truth]:
    """Points of the plane turned by an angle that depends on their length; so are the outputs."""

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 3])
        x = draw.normal(size=(count + 500, 2))
        seen = x * np.array([1.0, 1.2]) if kind == "oval" else x - np.array([0.3 * (kind == "centre"), 0.0])
        angle = np.linalg.norm(seen, axis=1)
        y = np.c_[
            np.cos(angle) * x[:, 0] - np.sin(angle) * x[:, 1],
            np.sin(angle) * x[:, 0] + np.cos(angle) * x[:, 1],
        ]
        if kind == "wind":
            y[:, 1] += 0.2 * np.tanh(x[:, 0])
        if kind == "shuffled":
            y = draw.permutation(y)
        stretch = np.diag([1.0, 1.2]) if kind == "stretched" else np.eye(2)
        turn = np.array([[0.0, -1.0], [1.0, 0.0]])
        fields, outputs = np.zeros((1, 2, 3)), np.zeros((1, 2, 3))
        fields[0, :, :2], outputs[0, :, :2] = turn, stretch @ turn @ np.linalg.inv(stretch)
        y = y @ stretch
        if kind in ("oval", "centre", "wind", "shuffled"):
            return Truth(x[:count], y[:count], x[count:], y[count:], "", fields[:0], outputs[:0])
        return Truth(x[:count], y[:count], x[count:], y[count:], "so(2)", fields, outputs)

    return make


def kepler_flow(
    q: Array, p: Array, time: Any, steps: int = 400, *, stretch: Any = 1.0, pull: Any = 0.0
) -> tuple[Array, Array]:
    """Place and momentum of one of two equal masses ``time`` ahead, seen from their centre."""

    def force(place: Array) -> Array:
        distance = np.linalg.norm(place * stretch, axis=1)[:, None]
        return np.asarray(-place * stretch**2 / (4 * distance**3) + pull)

    first = 1 / (2 - 2 ** (1 / 3))  # three leapfrog steps make one of fourth order
    for _ in range(steps):
        for part in (first, 1 - 2 * first, first):
            step = part * time / steps
            p = p + 0.5 * step * force(q)
            q = q + step * p
            p = p + 0.5 * step * force(q)
    return q, p


def two_body(kind: str = "", count: int = 1000, ahead: float = 1.0) -> Callable[[int], Truth]:
    """Two equal masses that attract each other, seen from their centre: the state now, and that ahead.

    Orbits are nearly circular, and seen anywhere along them. The second body's state is the first one's with the
    other sign. Rotations of the plane turn positions and momenta, before and after. Broken: an oval force, a constant
    pull, a clock that depends on the place, outputs of other examples.
    """
    stretch = np.array([1.0, 1.3]) if kind == "oval" else np.ones(2)
    pull = np.array([0.1, 0.0]) if kind == "pull" else np.zeros(2)

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 2])
        total = count + 500
        radius, angle_now = draw.uniform(0.7, 1.5, (total, 1)), draw.uniform(0, 2 * np.pi, total)
        out = np.c_[np.cos(angle_now), np.sin(angle_now)]
        around = np.c_[-np.sin(angle_now), np.cos(angle_now)]
        momentum = around / (2 * radius**0.5) * (1 + 0.05 * draw.normal(size=(total, 1)))
        q, p = kepler_flow(radius * out, momentum, draw.uniform(0, 5, (total, 1)), stretch=stretch, pull=pull)
        more = 0.2 * np.tanh(q[:, :1]) if kind == "clock" else 0.0
        later = np.concatenate(kepler_flow(q, p, ahead + more, stretch=stretch, pull=pull), axis=1)
        if kind == "shuffled":
            later = draw.permutation(later)
        x, y = np.c_[q, p, -q, -p], np.c_[later, -later]
        turn = np.zeros((4, 4))
        turn[1, 0], turn[0, 1], turn[3, 2], turn[2, 3] = 1, -1, 1, -1
        # On the inputs that are used, each once; outputs follow with their sign.
        fields, outputs = np.zeros((1, 8, 9)), np.zeros((1, 8, 9))
        fields[0, :4, :4], outputs[0, :4, :4], outputs[0, 4:, :4] = turn, turn, -turn
        if kind:
            fields, outputs = fields[:0], outputs[:0]
        return Truth(x[:count], y[:count], x[count:], y[count:], "" if kind else "so(2)", fields, outputs)

    return make


def edge(kind: str) -> Callable[[int], Truth]:
    """Few examples, inputs that are constant or repeated, more inputs than examples; no symmetry of any kind."""

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 17])
        count, n = {"20-examples": (20, 3), "500-inputs": (120, 500)}.get(kind, (120, 3))
        x = draw.normal(size=(count + 500, n))
        y = (
            np.exp(x @ draw.uniform(0.5, 1.0, n) / n)
            + np.tanh(x[:, 0] + x[:, 1] ** 3)
            + x[:, 1] * x[:, 2] ** 2
        )
        if kind == "constant":
            x = np.c_[x, np.ones(len(x))]
        if kind == "repeated":
            x = np.c_[x, x[:, 0], -x[:, 1]]
        columns = x.shape[1]
        return Truth(x[:count], y[:count], x[count:], y[count:], "", np.zeros((0, columns, columns + 1)))

    return make


PROBLEMS: dict[str, Callable[[int], Truth]] = {
    "o5": o5(300),
    "o5-100": o5(100),
    "o5-turned": o5(1000, turned=True),
    "o5-turned-dot": o5(1000, "dot", turned=True),
    "o5-turned-ellipsoid": o5(1000, "ellipsoid", turned=True),
    "o5-turned-linear": o5(1000, "linear", turned=True),
    "o5-dot": o5(300, "dot"),
    "o5-linear": o5(300, "linear"),
    "o5-product": o5(300, "product"),
    "o5-ellipsoid": o5(300, "ellipsoid"),
    "o5-shuffled": o5(300, "shuffled"),
    "swirl": swirl(),
    "swirl-stretched": swirl("stretched"),
    "swirl-oval": swirl("oval"),
    "swirl-centre": swirl("centre"),
    "swirl-wind": swirl("wind"),
    "swirl-shuffled": swirl("shuffled"),
    "two-body": two_body(),
    "two-body-oval": two_body("oval"),
    "two-body-pull": two_body("pull"),
    "two-body-clock": two_body("clock"),
    "two-body-shuffled": two_body("shuffled"),
    "20-examples": edge("20-examples"),
    "constant": edge("constant"),
    "repeated": edge("repeated"),
    "500-inputs": edge("500-inputs"),
}
