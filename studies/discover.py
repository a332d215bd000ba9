"""What ``metasym discover`` says about functions whose symmetries are known, and about the same with them broken.

    python -m studies.discover --problems o5 o5-turned --seeds 100-109 --out results/discover

Each run is one JSON file; a run that is there is not made again. ``--table`` counts them: *right* (named as it is),
*part* (a smaller symmetry that the function has too), *refused* (nothing claimed), *wrong* (anything
else).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import metasym as ms
from metasym.discovery.fields import angle, orthonormal
from metasym.storage.json_files import write_json

Array = npt.NDArray[np.float64]
DEGREES = 3.0
"""A generator that is farther than this from the true algebra is wrong."""


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


def _rotations_of(blocks: list[list[int]], n: int, signs: list[int] | None = None) -> Array:
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


def o5(count: int, kind: str = "") -> Callable[[int], Truth]:
    """The O(5) regression of EMLP; ``kind`` breaks it or turns its coordinates."""

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
        fields = _rotations_of([kept, [5 + i for i in kept]], 10) if kept else np.zeros((0, 10, 11))
        turn = np.linalg.qr(draw.normal(size=(10, 10)))[0] if kind == "turned" else np.eye(10)
        fields[:, :, :10] = turn.T @ fields[:, :, :10] @ turn
        x = x @ turn
        name = f"so({dimensions})" if dimensions else ""
        return Truth(x[:count], y[:count], x[count:], y[count:], name, fields)

    return make


def lorentz(kind: str = "", count: int = 1000) -> Callable[[int], Truth]:
    """Four four-vectors and an invariant of so(1,3), the squared matrix element of electron-muon scattering."""

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 13])
        x = draw.normal(size=(count + 2000, 16)) / 4
        p = x.reshape(-1, 4, 4)
        metric = np.array([1.0, -1, -1, -1])
        if kind == "metric":
            metric = np.array([1.0, -1, -1, -0.7])
        dot = np.einsum("pai,i,pbi->pab", p, metric, p)
        y = 4 * (
            dot[:, 0, 2] * dot[:, 1, 3] + dot[:, 0, 3] * dot[:, 1, 2] - dot[:, 0, 1] * dot[:, 2, 3]
        ) + 4 * (dot[:, 0, 1] + dot[:, 2, 3])
        if kind == "linear":
            y = y + 0.2 * y.std() * p[:, 0, 0]
        blocks = [list(range(4 * i, 4 * i + 4)) for i in range(4)]
        fields = _rotations_of(blocks, 16, [1, -1, -1, -1])
        name = "so(1,3)"
        if kind == "metric":
            fields, name = _rotations_of([b[:3] for b in blocks], 16, [1, -1, -1]), "so(1,2)"
        if kind == "linear":
            fields, name = _rotations_of([b[1:] for b in blocks], 16), "so(3)"
        return Truth(x[:count], y[:count], x[count:], y[count:], name, fields)

    return make


def two_body(kind: str = "", count: int = 1000, ahead: float = 1.0) -> Callable[[int], Truth]:
    """Two equal masses that attract each other, seen from their centre: the state now, and that ahead.

    Orbits are nearly circular, and seen anywhere along them. The second body's state is the first one's with the
    other sign. Rotations of the plane turn positions and momenta, before and after.
    """

    def flow(q: Array, p: Array, time: Any, steps: int = 400) -> tuple[Array, Array]:
        stretch = np.array([1.0, 1.3]) if kind == "oval" else np.ones(2)
        pull = np.array([0.1, 0.0]) if kind == "pull" else np.zeros(2)

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

    def make(seed: int) -> Truth:
        draw = np.random.default_rng([seed, 2])
        total = count + 500
        radius, angle_now = draw.uniform(0.7, 1.5, (total, 1)), draw.uniform(0, 2 * np.pi, total)
        out = np.c_[np.cos(angle_now), np.sin(angle_now)]
        around = np.c_[-np.sin(angle_now), np.cos(angle_now)]
        momentum = around / (2 * radius**0.5) * (1 + 0.05 * draw.normal(size=(total, 1)))
        q, p = flow(radius * out, momentum, draw.uniform(0, 5, (total, 1)))
        later = np.concatenate(flow(q, p, ahead), axis=1)
        if kind == "gain":
            later = later * np.array([1.0, 1.05, 1.0, 1.0])
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
    "o5-turned": o5(1000, "turned"),
    "o5-dot": o5(300, "dot"),
    "o5-linear": o5(300, "linear"),
    "o5-product": o5(300, "product"),
    "o5-ellipsoid": o5(300, "ellipsoid"),
    "o5-shuffled": o5(300, "shuffled"),
    "lorentz": lorentz(),
    "lorentz-metric": lorentz("metric"),
    "lorentz-linear": lorentz("linear"),
    "two-body": two_body(),
    "two-body-oval": two_body("oval"),
    "two-body-pull": two_body("pull"),
    "two-body-gain": two_body("gain"),
    "20-examples": edge("20-examples"),
    "constant": edge("constant"),
    "repeated": edge("repeated"),
    "500-inputs": edge("500-inputs"),
}


POINTS = 8


def convolutions(
    kind: str, tasks: int = 200, examples: int = 40
) -> Callable[[int], tuple[Array, Array, str]]:
    """Convolution, tanh, convolution on 8 points, filters of each task's own; with the name of the group."""

    def circular(weights: Array) -> Array:
        found = np.zeros((POINTS, POINTS))
        for i in range(POINTS):
            for d, weight in enumerate(weights):
                found[i, (i + d - 1) % POINTS] = weight
        return found

    def make(seed: int) -> tuple[Array, Array, str]:
        draw = np.random.default_rng([seed, 8])
        x = draw.normal(size=(tasks, examples, POINTS))
        y = np.empty_like(x)
        gain = 1 + {"gain": 0.2, "gain-5": 0.05}.get(kind, 0.0) * draw.normal(size=POINTS)
        bend = (0.3 if kind == "bend" else 0.0) * draw.normal(size=POINTS)
        near = circular(np.ones(3))
        for t in range(tasks):
            if kind == "dense":
                a, b = draw.normal(size=(2, POINTS, POINTS)) / 2
            elif kind == "unshared":
                a, b = near * draw.normal(size=(2, POINTS, POINTS))
            elif kind == "D_8":
                a, b = (circular(draw.normal(size=2)[[1, 0, 1]]) for _ in range(2))
            else:
                a, b = (circular(draw.normal(size=3)) for _ in range(2))
            y[t] = np.tanh(x[t] @ a.T) @ b.T * gain + bend * (x[t] ** 2 - 1)
        return x, y, kind if kind in ("Z_8", "D_8") else ""

    return make


FAMILIES = {
    f"points-{kind}": convolutions(kind)
    for kind in ("Z_8", "D_8", "unshared", "dense", "gain", "gain-5", "bend")
}


def run_family(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run on a family, or what it found when it was made."""
    path = folder / f"{name}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    x, y, truth = FAMILIES[name](seed)
    began = time.perf_counter()
    found = ms.discover(x, y, seed=seed)
    claimed = [one["name"] for one in found.symmetries]
    best = found.symmetric or found.plain
    result = {
        "problem": name,
        "seed": seed,
        "verdict": "refused" if not claimed else "right" if claimed == [truth] else "wrong",
        "claimed": claimed,
        "violation_upper": [one["violation_upper"] for one in found.symmetries],
        "refused": [one["reason"] for one in found.refused],
        "test_mse": best.error,
        "test_relative": best.relative,
        "plain_relative": found.plain.relative,
        "symmetric_relative": None if found.symmetric is None else found.symmetric.relative,
        "seconds": time.perf_counter() - began,
        "command": f"python -m studies.discover --problems {name} --seeds {seed}",
        "commit": _commit(),
    }
    write_json(path, result)
    return result


REAL = ("diabetes", "linnerud", "iris", "wine", "breast_cancer", "digits")
"""The data sets that scikit-learn ships: measurements without a known symmetry."""


def run_real(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """What is claimed of measurements; nothing absurd is hoped for."""
    import sklearn.datasets

    path = folder / f"{name}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    data = getattr(sklearn.datasets, f"load_{name}")()
    x = data.images if name == "digits" else data.data
    began = time.perf_counter()
    found = ms.discover(x, data.target, seed=seed, labels=None if data.target.ndim == 1 else False)
    claimed = [one["name"] for one in found.symmetries]
    best = found.symmetric or found.plain
    result = {
        "problem": name,
        "seed": seed,
        "verdict": "claimed" if claimed else "refused",
        "claimed": claimed,
        "refused": [one["reason"] for one in found.refused],
        "metric": found.metric,
        "test_mse": best.error,
        "test_relative": best.relative,
        "seconds": time.perf_counter() - began,
        "command": f"python -m studies.discover --problems {name} --seeds {seed}",
        "commit": _commit(),
    }
    write_json(path, result)
    return result


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def judged(truth: Truth, found: ms.Discovered) -> tuple[str, float | None]:
    """right, part, refused or wrong; and the angle of what is claimed to what is true, in degrees."""
    claims = [one for one in found.symmetries if one["kind"] == "continuous"]
    if not claims:
        return "refused", None
    if not len(truth.fields):
        return "wrong", None
    fields = orthonormal(_with_outputs(claims[0]["generators"], claims[0].get("output_generators"), truth))
    degrees = angle(fields, _with_outputs(truth.fields, truth.outputs, truth))
    if len(fields) > len(truth.fields) or degrees > DEGREES:
        return "wrong", degrees
    return ("right" if claims[0]["name"] == truth.name else "part"), degrees


def _with_outputs(inner: Any, outer: Any, truth: Truth) -> Array:
    """``[d, 1, ...]``: generators of inputs and of outputs as one vector each."""
    m = 1 if truth.y.ndim == 1 else truth.y.shape[1]
    flat = np.array(inner).reshape(len(inner), -1)
    moved = np.zeros((len(flat), m * (m + 1))) if outer is None else np.array(outer).reshape(len(flat), -1)
    return np.c_[flat, moved][:, None]


def run(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run, or what it found when it was made."""
    path = folder / f"{name}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    truth = PROBLEMS[name](seed)
    began = time.perf_counter()
    found = ms.discover(truth.x, truth.y, seed=seed, finite=False)
    seconds = time.perf_counter() - began
    with torch.no_grad():
        error = float(np.mean((found.model(torch.tensor(truth.x_test)).numpy() - truth.y_test) ** 2))
    verdict, degrees = judged(truth, found)
    result = {
        "problem": name,
        "seed": seed,
        "verdict": verdict,
        "claimed": [one["name"] for one in found.symmetries],
        "degrees": degrees,
        "violation_upper": [one["violation_upper"] for one in found.symmetries],
        "refused": [one["reason"] for one in found.refused],
        "test_mse": error,
        "test_relative": error / float(truth.y_test.var()),
        "plain_relative": found.plain.relative,
        "symmetric_relative": None if found.symmetric is None else found.symmetric.relative,
        "seconds": seconds,
        "command": f"python -m studies.discover --problems {name} --seeds {seed}",
        "commit": _commit(),
    }
    write_json(path, result)
    return result


def table(folder: Path) -> str:
    """Counts of verdicts by problem, with the median error."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.glob("*.json")):
        one = json.loads(path.read_text())
        if "verdict" in one:
            rows.setdefault(one["problem"], []).append(one)
    lines = [
        "| problem | runs | right | part | refused | wrong | median test MSE | relative |",
        "|---" * 8 + "|",
    ]
    for name, runs in rows.items():
        counts = Counter(one["verdict"] for one in runs)
        error = np.median([one["test_mse"] for one in runs])
        relative = np.median([one["test_relative"] for one in runs])
        cells = [name, len(runs), *(counts[v] for v in ("right", "part", "refused", "wrong"))]
        lines.append("| " + " | ".join(map(str, cells)) + f" | {error:.3g} | {relative:.2g} |")
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems", nargs="*", default=[*PROBLEMS, *FAMILIES, *REAL], choices=[*PROBLEMS, *FAMILIES, *REAL]
    )
    parser.add_argument("--seeds", default="100-109", help="such as 100-109")
    parser.add_argument("--out", type=Path, default=Path("results/discover"))
    parser.add_argument("--table", action="store_true", help="count what is there")
    options = parser.parse_args()
    if options.table:
        print(table(options.out))
        return
    first, _, last = options.seeds.partition("-")
    for seed in range(int(first), int(last or first) + 1):
        for name in options.problems:
            kind = run_family if name in FAMILIES else run_real if name in REAL else run
            one = kind(name, seed, options.out)
            print(name, seed, one["verdict"], one["claimed"], f"{one['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
