"""Symmetries of functions that are called: what ``ms.discover(f, x)`` claims, beside what is known.

``python -m studies.callables [--data]`` writes results/callables/*.json. Orders are known by theory or from the
automorphisms of a graph; every claim is checked again here, at other points and by other code: exact ones to
rounding, near ones against their bound. ``wrong`` is a claim that fails this check; ``subgroup`` one that is smaller
than what is known.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import metasym as ms
from metasym.groups.graph_automorphisms import graph_automorphisms

OUT = Path(__file__).parent.parent / "results" / "callables"
SEED = 7100
Array = Any


@dataclass
class Case:
    """A function, the shape of one input, and the order of its group of signed permutations."""

    name: str
    f: Callable[[Any], Any]
    shape: tuple[int, ...]
    order: int
    tensors: bool = False
    control: float | None = None
    """Of a negative control: by how much one coefficient is off."""

    def draw(self, count: int, generator: np.random.Generator) -> Any:
        """Standard normal inputs."""
        """``count`` points."""
        x = generator.normal(size=(count, *self.shape))
        return torch.tensor(x, dtype=torch.float32) if self.tensors else x


def gravity(masses: list[float], d: int) -> Callable[[Array], Array]:
    """Accelerations of bodies in d dimensions."""
    m = np.array(masses)

    def f(x: Array) -> Array:
        r = x.reshape(len(x), len(m), d)
        apart = r[:, :, None] - r[:, None]
        return (
            (apart / ((apart**2).sum(-1, keepdims=True) + 0.3) ** 1.5 * m[:, None, None])
            .sum(1)
            .reshape(len(x), -1)
        )

    return f


def energy(masses: list[float], d: int) -> Callable[[Array], Array]:
    """The energy of bodies that repel each other."""
    m = np.array(masses)

    def f(x: Array) -> Array:
        r = x.reshape(len(x), len(m), d)
        apart = ((r[:, :, None] - r[:, None]) ** 2).sum(-1) + 0.3
        return (np.outer(m, m) / np.sqrt(apart)).sum((1, 2))

    return f


def springs(weights: Array) -> Callable[[Array], Array]:
    """Forces of springs between points on a line, stiffer where they are stretched."""

    def f(x: Array) -> Array:
        stretch = x[:, None, :] - x[:, :, None]
        return ((stretch + 0.4 * stretch**3) * weights).sum(2)

    return f


def automorphisms(weights: Array) -> int:
    """The order of the group that keeps a weighted graph, by nauty: a vertex for every edge."""
    n = len(weights)
    adjacency: dict[int, list[int]] = {}
    colours: dict[float, set[int]] = {-1.0: set(range(n))}
    following = n
    for i, j in itertools.combinations(range(n), 2):
        if weights[i, j]:
            adjacency[following] = [i, j]
            colours.setdefault(float(weights[i, j]), set()).add(following)
            following += 1
    found = graph_automorphisms(following, adjacency, list(colours.values()))
    return round(found.mantissa * 10**found.exponent)


def graph(n: int, edges: list[tuple[int, int]]) -> Array:
    """The weights of a graph, all 1."""
    found = np.zeros((n, n))
    for i, j in edges:
        found[i, j] = found[j, i] = 1.0
    return found


def graphs() -> dict[str, Array]:
    """Graphs with few and with many automorphisms."""
    draw = np.random.default_rng(SEED)
    petersen = [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)]
    petersen += [(5 + i, 5 + (i + 2) % 5) for i in range(5)]
    cube = [(a, b) for a, b in itertools.combinations(range(8), 2) if bin(a ^ b).count("1") == 1]
    grid = [(4 * i + j, 4 * i + j + 1) for i in range(3) for j in range(3)]
    grid += [(4 * i + j, 4 * i + j + 4) for i in range(2) for j in range(4)]
    return {
        "cycle of 10": graph(10, [(i, (i + 1) % 10) for i in range(10)]),
        "cycle of 24": graph(24, [(i, (i + 1) % 24) for i in range(24)]),
        "path of 9": graph(9, [(i, i + 1) for i in range(8)]),
        "Petersen": graph(10, petersen),
        "cube": graph(8, cube),
        "star of 8": graph(8, [(0, i) for i in range(1, 8)]),
        "K_4,4": graph(8, [(i, 4 + j) for i in range(4) for j in range(4)]),
        "grid 3 x 4": graph(12, grid),
        "tree of 14": graph(14, [(int(draw.integers(i)), i) for i in range(1, 14)]),
    }


def pendulums(k: int, ring: bool) -> Callable[[Array], Array]:
    """Coupled pendulums with friction: angles, then velocities."""

    def f(x: Array) -> Array:
        q, p = x[:, :k], x[:, k:]
        pull = np.sin(np.roll(q, 1, 1) - q), np.sin(np.roll(q, -1, 1) - q)
        if not ring:
            pull[0][:, 0], pull[1][:, -1] = 0, 0
        return np.c_[p, -1.3 * np.sin(q) + 0.7 * (pull[0] + pull[1]) - 0.1 * p]

    return f


def tops(inertias: list[tuple[float, float, float]]) -> Callable[[Array], Array]:
    """Euler's equations of free rigid bodies."""

    def f(x: Array) -> Array:
        parts = []
        for i, (a, b, c) in enumerate(inertias):
            u, v, w = x[:, 3 * i : 3 * i + 3].T
            parts += [(b - c) / a * v * w, (c - a) / b * w * u, (a - b) / c * u * v]
        return np.stack(parts, 1)

    return f


def field(h: int, w: int, force: float = 1.0) -> Callable[[Array], Array]:
    """A reaction with diffusion on a torus."""

    def f(x: Array) -> Array:
        u = x.reshape(len(x), h, w)
        near = sum(np.roll(u, s, a) for s in (1, -1) for a in (1, 2))
        return (near - 4 * u + force * (u - u**3)).reshape(len(x), -1)

    return f


def burgers(x: Array) -> Array:
    """Burgers' equation on a ring."""
    right, left = np.roll(x, -1, 1), np.roll(x, 1, 1)
    return np.asarray(0.3 * (right - 2 * x + left) - x * (right - left) / 2)


def eigenvalues(x: Array) -> Array:
    """Of symmetric matrices, by their upper triangles."""
    a = np.zeros((len(x), 4, 4))
    i, j = np.triu_indices(4)
    a[:, i, j] = a[:, j, i] = x
    return np.linalg.eigvalsh(a)


def deep_set(n: int, seed: int, off: float = 0.0) -> Callable[[Array], Array]:
    """A function of a set; one member may weigh more."""
    draw = np.random.default_rng(seed)
    a, b, c = draw.normal(size=(1, 12)), draw.normal(size=12), draw.normal(size=(12, 2)) / 3
    weights = np.ones(n)
    weights[2] += off

    def f(x: Array) -> Array:
        return np.tanh((np.tanh(x[:, :, None] * a + b) * weights[:, None]).sum(1) / math.sqrt(n) @ c)

    return f


def mlp(n: int, seed: int, bias: float) -> Callable[[Array], Array]:
    """A network with one hidden layer."""
    draw = np.random.default_rng(seed)
    a, b, c = draw.normal(size=(n, 16)) / math.sqrt(n), bias * draw.normal(size=16), draw.normal(size=(16, 3))
    return lambda x: np.tanh(1.5 * x @ a + b) @ c


class GraphNetwork(nn.Module):
    """Two rounds of messages between neighbours."""

    def __init__(self, weights: Array, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.edges = torch.tensor(weights, dtype=torch.float32)
        self.first, self.second, self.last = nn.Linear(2, 8), nn.Linear(16, 8), nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        h = torch.tanh(self.first(torch.stack([x, x @ self.edges], -1)))
        h = torch.tanh(self.second(torch.cat([h, torch.einsum("ij,pjk->pik", self.edges, h)], -1)))
        return self.last(h)[..., 0]


class Classifier(nn.Module):
    """A small network of images 8 x 8."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        mode = "circular" if kind in ("shifts", "shifts and turns") else "zeros"
        self.first = nn.Conv2d(1, 6, 3, padding=1, padding_mode=mode)
        self.second = nn.Conv2d(6, 6, 3, padding=1, padding_mode=mode)
        self.last = nn.Linear(6 if kind != "none" else 6 * 64, 4)
        self.kind = kind
        if "turns" in kind:
            for layer in (self.first, self.second):
                w = layer.weight.data
                turned = [torch.rot90(v, k, (2, 3)) for v in (w, w.flip(3)) for k in range(4)]
                layer.weight.data = torch.stack(turned).mean(0) * 2.5

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        h = torch.relu(self.second(torch.relu(self.first(x))))
        return self.last(h.flatten(1) if self.kind == "none" else h.mean((2, 3)))


class Tokens(nn.Module):
    """One layer of attention over 8 tokens of 4 numbers."""

    def __init__(self, positions: bool, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.layer = nn.TransformerEncoderLayer(4, 1, 16, dropout=0.0, batch_first=True)
        self.positions = nn.Parameter(0.5 * torch.randn(8, 4)) if positions else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.layer(x if self.positions is None else x + self.positions)


def cases() -> list[Case]:
    """All of them."""
    found = [
        Case("gravity, 3 bodies in space", gravity([1.0] * 3, 3), (9,), 6 * 48),
        Case("gravity, 5 bodies in space", gravity([1.0] * 5, 3), (15,), 120 * 48),
        Case("gravity, 6 bodies in the plane", gravity([1.0] * 6, 2), (12,), 720 * 8),
        Case("gravity, two kinds", gravity([1.0, 1.0, 2.0, 2.0], 3), (12,), 4 * 48),
        Case("energy of 4 bodies", energy([1.0] * 4, 3), (12,), 24 * 48),
        Case("energy of 10 bodies in space", energy([1.0] * 10, 3), (30,), math.factorial(10) * 48),
        Case("three tops", tops([(1, 2, 3.5), (1.5, 2.2, 4), (0.7, 1.9, 2.4)]), (9,), 512),
        Case("three equal tops", tops([(1, 2, 3.5)] * 3), (9,), 512 * 6),
        Case("chain of 8 pendulums", pendulums(8, ring=False), (16,), 4),
        Case("ring of 8 pendulums", pendulums(8, ring=True), (16,), 32),
        Case("field 5 x 5", field(5, 5), (25,), 400),
        Case("field 6 x 4", field(6, 4), (24,), 2 * 6 * 2 * 8),
        Case("field 8 x 8", field(8, 8), (64,), 1024),
        Case("Burgers on 16 points", burgers, (16,), 32),
        Case("Burgers on 48 points", burgers, (48,), 96),
        Case("determinant 3 x 3", lambda x: np.linalg.det(x.reshape(-1, 3, 3)), (9,), 2304),
        Case("determinant 4 x 4", lambda x: np.linalg.det(x.reshape(-1, 4, 4)), (16,), 147456),
        Case("eigenvalues of 4 x 4", eigenvalues, (10,), 384),
        Case("deep set of 8", deep_set(8, SEED), (8,), math.factorial(8)),
        Case("deep set of 20", deep_set(20, SEED + 1), (20,), math.factorial(20)),
        Case("deep set of 48", deep_set(48, SEED + 2), (48,), math.factorial(48)),
        Case(
            "two deep sets of 8",
            lambda x: deep_set(8, SEED + 3)(x[:, :8]) * deep_set(8, SEED + 4)(x[:, 8:]),
            (16,),
            math.factorial(8) ** 2,
        ),
        Case("network of 8 inputs", mlp(8, SEED, 1.0), (8,), 1),
        Case("network of 32 inputs", mlp(32, SEED, 1.0), (32,), 1),
        Case("odd network of 16 inputs", mlp(16, SEED, 0.0), (16,), 2),
        Case("images, shifts", Classifier("shifts", SEED), (1, 8, 8), 64, tensors=True),
        Case("images, turns", Classifier("turns", SEED), (1, 8, 8), 8, tensors=True),
        Case("images, shifts and turns", Classifier("shifts and turns", SEED), (1, 8, 8), 512, tensors=True),
        Case("images, none", Classifier("none", SEED), (1, 8, 8), 1, tensors=True),
        Case("tokens without positions", Tokens(False, SEED), (8, 4), math.factorial(8), tensors=True),
        Case("tokens with positions", Tokens(True, SEED), (8, 4), 1, tensors=True),
    ]
    known = graphs()
    found += [
        Case(f"springs, {name}", springs(w), (len(w),), 2 * automorphisms(w)) for name, w in known.items()
    ]
    for name in ("Petersen", "cycle of 24", "tree of 14"):
        w = known[name]
        network = GraphNetwork(w, SEED)
        found.append(Case(f"graph network, {name}", network, (len(w),), automorphisms(w), tensors=True))
    for off in (0.3, 0.05, 0.01):
        w = known["cycle of 10"].copy()
        w[0, 1] = w[1, 0] = 1 + off
        found += [
            Case("springs, cycle of 10", springs(w), (10,), 2 * automorphisms(w), control=off),
            Case("deep set of 8", deep_set(8, SEED, off), (8,), math.factorial(7), control=off),
            Case("gravity, 4 bodies", gravity([1, 1, 1, 1 + off], 3), (12,), 6 * 48, control=off),
            Case("energy of 5 bodies", energy([1, 1, 1, 1, 1 + off], 2), (10,), 24 * 8, control=off),
        ]
    return found


def numbers(case: Case, x: Array) -> Array:
    """Outputs ``[points, m]``."""
    given = x.reshape(len(x), *case.shape)
    if not case.tensors:
        return np.asarray(case.f(given)).reshape(len(x), -1)
    with torch.no_grad():
        return case.f(torch.tensor(given, dtype=torch.float32)).double().numpy().reshape(len(x), -1)


def checked(case: Case, claim: Any, draw: np.random.Generator) -> dict[str, Any]:
    """A claim's worst defect at points of our own, of generators and random products; and whether its bound holds."""
    x, other = (draw.normal(size=(2000, math.prod(case.shape))) for _ in range(2))
    y = numbers(case, x)
    elements = list(claim.moves)
    for _ in range(8):
        g = elements[0]
        for i in draw.integers(len(claim.moves), size=12):
            g = g @ claim.moves[i]
        elements.append(g)
    worst = 0.0
    for g in elements:
        moved = list(g.moved_inputs)
        if not moved:
            continue
        replaced = x.copy()
        replaced[:, moved] = other[:, moved]
        carried = ((y - numbers(case, replaced)) ** 2).sum(1).mean() / 2
        apart = ((numbers(case, g.on_inputs(x)) - g.on_outputs(y)) ** 2).sum(1).mean()
        worst = max(worst, math.sqrt(apart / carried))
    bound = math.sqrt(claim.violation_upper)
    exact = claim.defect < 1e-5
    return {
        "group": claim.name,
        "order": str(claim.size),
        "exact": exact,
        "defect": claim.defect,
        "bound": bound,
        "defect_here": worst,
        "holds": worst < 1e-4 if exact else worst <= bound,
    }


def study() -> None:
    """Every case once."""
    OUT.mkdir(parents=True, exist_ok=True)
    rows: list[dict[str, Any]] = []
    torch.set_num_threads(1)
    for index, case in enumerate(cases()):
        began, used = time.perf_counter(), time.process_time()
        run = ms.discover(case.f, case.draw, continuous=False, seed=SEED + index)
        seconds, cpu = time.perf_counter() - began, time.process_time() - used
        claims = [checked(case, c, np.random.default_rng([SEED, index])) for c in run.verdict.claims]
        order = max(
            (c.size for c, row in zip(run.verdict.claims, claims, strict=True) if row["exact"]), default=1
        )
        wrong = not all(row["holds"] for row in claims)
        said = (
            "wrong"
            if wrong
            else "right"
            if order == case.order
            else "subgroup"
            if order < case.order
            else "more"
        )
        row = {
            "name": case.name,
            "inputs": math.prod(case.shape),
            "control": case.control,
            "known": str(case.order),
        }
        row |= {"found": str(order), "said": said, "claims": claims, "seconds": seconds, "cpu_seconds": cpu}
        row |= {"points": int(run.notes[-1].split()[2]), "refused": [one["words"] for one in run.refused]}
        rows.append(row)
        near = [
            f"near {c['group']} {c['defect_here']:.3g} <= {c['bound']:.3g}" for c in claims if not c["exact"]
        ]
        print(
            f"{said:9} {case.name} {case.control or ''}: {order} of {case.order} {near} {cpu:.1f} s",
            flush=True,
        )
        _write("functions.json", rows)


def data_study() -> None:
    """The same function as a data set of 300 points."""
    rows = []
    wanted = (
        "gravity, 3 bodies in space",
        "springs, cycle of 10",
        "deep set of 8",
        "odd network of 16 inputs",
    )
    for case in [c for c in cases() if c.name in wanted and c.control is None]:
        x = np.random.default_rng(SEED).normal(size=(300, *case.shape))
        used = time.process_time()
        run = ms.discover(x, numbers(case, x), continuous=False, seed=SEED)
        order = max((c.size for c in run.verdict.claims), default=1)
        rows.append(
            {"name": case.name, "known": str(case.order), "found": str(order), "said": str(run.verdict)}
        )
        rows[-1]["cpu_seconds"] = time.process_time() - used
        print(rows[-1], flush=True)
        _write("data_of_300_points.json", rows)


def _write(name: str, rows: list[dict[str, Any]]) -> None:
    counts = {
        said: sum(row.get("said") == said for row in rows) for said in ("right", "subgroup", "wrong", "more")
    }
    (OUT / name).write_text(json.dumps({"counts": counts, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    if "--seed" in sys.argv[1:]:
        SEED = int(sys.argv[sys.argv.index("--seed") + 1])
    data_study() if "--data" in sys.argv[1:] else study()
