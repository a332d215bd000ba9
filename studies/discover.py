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
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.stats import beta

import metasym as ms
from metasym.discovery.algebra.vector_fields import angle, orthonormal
from metasym.storage.json_files import write_json
from studies.discover_finite import FINITE, run_finite
from studies.known_functions import PROBLEMS as FUNCTIONS
from studies.known_functions import Truth
from studies.known_polynomials import POLYNOMIALS, on_independent

Array = npt.NDArray[np.float64]
PROBLEMS = {**FUNCTIONS, **POLYNOMIALS}
DEGREES = 3.0
"""A generator that is farther than this from the true algebra is wrong."""


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
        "refused": [one["words"] for one in found.refused],
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
        "refused": [one["words"] for one in found.refused],
        "metric": found.metric,
        "test_mse": best.error,
        "test_relative": best.relative,
        "seconds": time.perf_counter() - began,
        "command": f"python -m studies.discover --problems {name} --seeds {seed}",
        "commit": _commit(),
    }
    write_json(path, result)
    return result


def run_known(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run on a function whose finite symmetries are known, or what it found when it was made."""
    path = folder / f"{name}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    began = time.perf_counter()
    result = {
        **run_finite(name, seed),
        "seconds": time.perf_counter() - began,
        "command": f"python -m studies.discover --problems {name} --seeds {seed}",
        "commit": _commit(),
    }
    write_json(path, result)
    return result


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def judged(truth: Truth, found: ms.DiscoveredRun) -> tuple[str, float | None]:
    """right, part, refused or wrong; and the angle of what is claimed to what is true, in degrees.

    All that is claimed has to be true; right is what contains the symmetry that should be named.
    """
    claims = [one for one in found.symmetries if one["kind"] == "continuous"]
    if not claims:
        return "refused", None
    whole, wanted, fields = _compared(truth, claims)
    if not len(whole):
        return "wrong", None
    space = orthonormal(fields, 1e-6)  # generators are stored with nine digits
    degrees = max(angle(space, whole), *(angle(one[None], whole) for one in fields))
    if len(space) > len(whole) or degrees > DEGREES:
        return "wrong", degrees
    right = len(wanted) > 0 and angle(wanted, space) < DEGREES
    return ("right" if right else "part"), degrees


def _compared(truth: Truth, claims: list[dict[str, Any]]) -> tuple[Array, Array, Array]:
    """What is true, what should be named, and what is claimed: generators ``[d, 1, ...]`` as vectors."""
    if truth.algebra is None:
        fields = np.concatenate(
            [_with_outputs(one["generators"], one.get("output_generators"), truth) for one in claims]
        )
        whole = _with_outputs(truth.fields, truth.outputs, truth)
        return whole, whole, fields
    y = truth.y_test.reshape(len(truth.y_test), -1)  # without noise
    m = y.shape[1]
    pairs = []
    for one in claims:
        inner = np.array(one["generators"])
        outer = np.array(one.get("output_generators", np.zeros((len(inner), m, m + 1))))
        pairs.append(on_independent(inner, outer, y))
    wanted = truth.targets
    if wanted is None:
        wanted = on_independent(truth.fields, np.zeros((len(truth.fields), m, m + 1)), y)
    spaces = truth.algebra, wanted, np.concatenate(pairs)
    flat = [space.reshape(len(space), 1, space[0].size if len(space) else 0) for space in spaces]
    return flat[0], flat[1], flat[2]


def _with_outputs(inner: Any, outer: Any, truth: Truth) -> Array:
    """``[d, 1, ...]``: generators of inputs and of outputs as one vector each."""
    m = 1 if truth.y.ndim == 1 else truth.y.shape[1]
    flat = np.array(inner).reshape(len(inner), -1)
    moved = np.zeros((len(flat), m * (m + 1))) if outer is None else np.array(outer).reshape(len(flat), -1)
    return np.c_[flat, moved][:, None]


def looked_at(truth: Truth, seed: int) -> dict[str, Any]:
    """What ``discover`` says of a data set, held against what is true of it, and the errors of its models."""
    began = time.perf_counter()
    found = ms.discover(truth.x, truth.y, seed=seed, finite=False)
    seconds = time.perf_counter() - began
    with torch.no_grad():
        error = float(np.mean((found.model(torch.tensor(truth.x_test)).numpy() - truth.y_test) ** 2))
    verdict, degrees = judged(truth, found)
    return {
        "verdict": verdict,
        "claimed": [one["name"] for one in found.symmetries],
        "degrees": degrees,
        "cosine": None if degrees is None else float(np.cos(np.radians(degrees))),
        "violation_upper": [one["violation_upper"] for one in found.symmetries],
        "refused": [one["words"] for one in found.refused],
        "test_mse": error,
        "test_relative": error / float(truth.y_test.var()),
        "plain_relative": found.plain.relative,
        "symmetric_relative": None if found.symmetric is None else found.symmetric.relative,
        "seconds": seconds,
    }


def run(name: str, seed: int, folder: Path) -> dict[str, Any]:
    """One run, or what it found when it was made."""
    path = folder / f"{name}-{seed}.json"
    if path.exists():
        return dict(json.loads(path.read_text()))
    result = {
        "problem": name,
        "seed": seed,
        **looked_at(PROBLEMS[name](seed), seed),
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
    every = [one for runs in rows.values() for one in runs]
    wrong = Counter(one["verdict"] for one in every)["wrong"]
    most = 100 * float(beta.ppf(0.95, wrong + 1, len(every) - wrong)) if len(every) > wrong else 100.0
    lines += ["", f"{wrong} wrong in {len(every)} runs: at most {most:.1f} % with 95 % confidence"]
    return "\n".join(lines)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--problems",
        nargs="*",
        default=[*PROBLEMS, *FAMILIES, *REAL, *FINITE],
        choices=[*PROBLEMS, *FAMILIES, *REAL, *FINITE],
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
            kind = run_known if name in FINITE else kind
            one = kind(name, seed, options.out)
            print(name, seed, one["verdict"], one["claimed"], f"{one['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
