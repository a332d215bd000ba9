"""Functions whose groups of signed permutations are known, by theory or from the automorphisms of a graph."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from metasym.groups.graph_automorphisms import graph_automorphisms

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
    options: dict[str, Any] = field(default_factory=dict)
    """Of ``ms.discover``."""
    without_noise: Callable[[Any], Any] | None = None
    """Of a function with noise: what claims are checked on."""

    def draw(self, count: int, generator: np.random.Generator) -> Any:
        """``count`` standard normal inputs."""
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


def graphs(seed: int) -> dict[str, Array]:
    """Graphs with few and with many automorphisms."""
    draw = np.random.default_rng(seed)
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


def pendulums(k: int, ring: bool, off: float = 0.0, rest: Array = 0.0) -> Callable[[Array], Array]:
    """Coupled pendulums with friction: angles, then velocities. One may be longer; angles may have an origin."""
    weight = np.ones(k)
    weight[0] += off

    def f(x: Array) -> Array:
        q, p = x[:, :k] - rest, x[:, k:]
        pull = np.sin(np.roll(q, 1, 1) - q), np.sin(np.roll(q, -1, 1) - q)
        if not ring:
            pull[0][:, 0], pull[1][:, -1] = 0, 0
        return np.c_[p, -1.3 * weight * np.sin(q) + 0.7 * (pull[0] + pull[1]) - 0.1 * p]

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


def reaction(h: int, w: int, off: float = 0.0) -> Callable[[Array], Array]:
    """A reaction with diffusion on a torus; it may be stronger in one cell."""
    force = np.ones((h, w))
    force[0, 0] += off

    def f(x: Array) -> Array:
        u = x.reshape(len(x), h, w)
        near = sum(np.roll(u, s, a) for s in (1, -1) for a in (1, 2))
        return (near - 4 * u + force * (u - u**3)).reshape(len(x), -1)

    return f


def burgers(n: int, off: float = 0.0) -> Callable[[Array], Array]:
    """Burgers' equation on a ring; one place may be more viscous."""
    viscosity = np.full(n, 0.3)
    viscosity[0] *= 1 + off

    def f(x: Array) -> Array:
        right, left = np.roll(x, -1, 1), np.roll(x, 1, 1)
        return np.asarray(viscosity * (right - 2 * x + left) - x * (right - left) / 2)

    return f


def determinant(n: int, off: float = 0.0) -> Callable[[Array], Array]:
    """Of matrices; the first entry may weigh more."""
    weights = np.ones((n, n))
    weights[0, 0] += off
    return lambda x: np.linalg.det(x.reshape(-1, n, n) * weights)


def eigenvalues(off: float = 0.0) -> Callable[[Array], Array]:
    """Of symmetric matrices 4 x 4, by their upper triangles; the entry of row 0 and column 1 may weigh more."""
    weights = np.ones(10)
    weights[1] += off

    def f(x: Array) -> Array:
        a = np.zeros((len(x), 4, 4))
        i, j = np.triu_indices(4)
        a[:, i, j] = a[:, j, i] = x * weights
        return np.linalg.eigvalsh(a)

    return f


def arms(count: int, off: float = 0.0) -> Callable[[Array], Array]:
    """The inertia matrix of arms with two joints each on one turning base, ``[points, 1 + 2 count, 1 + 2 count]``.

    The arms' angles are relative to the base, which is the first joint; one lower arm may be heavier.
    """
    heavy = np.ones(count)
    heavy[0] += off

    def f(x: Array) -> Array:
        n = 1 + 2 * count
        found = np.zeros((len(x), n, n))
        found[:, 0, 0] = 5.0
        for k in range(count):
            # Planar arm: links of length 1, point masses 1 and heavy at their ends, on the base's axis.
            bend, m = np.cos(x[:, 2 + 2 * k]), heavy[k]
            upper, lower = 1 + m * (2 + 2 * bend), np.full(len(x), m)
            both = m * (1 + bend)
            i, j = 1 + 2 * k, 2 + 2 * k
            found[:, 0, 0] += upper
            for a, b, value in ((0, i, upper), (0, j, both), (i, i, upper), (i, j, both), (j, j, lower)):
                found[:, a, b] = found[:, b, a] = value
        return found

    return f


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

    def __init__(self, kind: str, seed: int, off: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.places = torch.ones(8, 8)
        self.places[0, 0] += off
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
        return self.last(h.flatten(1) if self.kind == "none" else (h * self.places).mean((2, 3)))


class Tokens(nn.Module):
    """One layer of attention over 8 tokens of 4 numbers."""

    def __init__(self, positions: bool, seed: int, off: float = 0.0) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.weights = torch.ones(8, 1)
        self.weights[0] += off
        self.layer = nn.TransformerEncoderLayer(4, 1, 16, dropout=0.0, batch_first=True)
        self.positions = nn.Parameter(0.5 * torch.randn(8, 4)) if positions else None

    def forward(self, x: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = x * self.weights
        return self.layer(x if self.positions is None else x + self.positions)


def noisy(f: Callable[[Array], Array], deviation: float, seed: int) -> Callable[[Array], Array]:
    """The function as an instrument gives it: other noise in every call."""
    draw = np.random.default_rng(seed)

    def measured(x: Array) -> Array:
        y = f(x)
        return y + deviation * y.std() * draw.normal(size=y.shape)

    return measured


def cases(seed: int) -> list[Case]:
    """All of them, with the negative controls."""
    fact = math.factorial
    rest = np.random.default_rng(seed).uniform(-0.4, 0.4, 4)
    found = [
        Case("gravity, 3 bodies in space", gravity([1.0] * 3, 3), (9,), 6 * 48),
        Case("gravity, 5 bodies in space", gravity([1.0] * 5, 3), (15,), 120 * 48),
        Case("gravity, 6 bodies in the plane", gravity([1.0] * 6, 2), (12,), 720 * 8),
        Case("gravity, two kinds", gravity([1.0, 1.0, 2.0, 2.0], 3), (12,), 4 * 48),
        Case("energy of 4 bodies", energy([1.0] * 4, 3), (12,), 24 * 48),
        Case("energy of 10 bodies in space", energy([1.0] * 10, 3), (30,), fact(10) * 48),
        Case("three tops", tops([(1, 2, 3.5), (1.5, 2.2, 4), (0.7, 1.9, 2.4)]), (9,), 512),
        Case("three equal tops", tops([(1, 2, 3.5)] * 3), (9,), 512 * 6),
        Case("chain of 8 pendulums", pendulums(8, ring=False), (16,), 4),
        Case("ring of 8 pendulums", pendulums(8, ring=True), (16,), 32),
        Case("ring of 4 pendulums about a rest pose", pendulums(4, ring=True, rest=rest), (8,), 16),
        Case("inertia of 4 arms on a base", arms(4), (9,), 24 * 2, options={"matrix_output": True}),
        Case("field 5 x 5", reaction(5, 5), (25,), 400),
        Case("field 6 x 4", reaction(6, 4), (24,), 2 * 6 * 2 * 8),
        Case("field 8 x 8", reaction(8, 8), (64,), 1024),
        Case("Burgers on 16 points", burgers(16), (16,), 32),
        Case("Burgers on 48 points", burgers(48), (48,), 96),
        Case("determinant 3 x 3", determinant(3), (9,), 2304),
        Case("determinant 4 x 4", determinant(4), (16,), 147456),
        Case("eigenvalues of 4 x 4", eigenvalues(), (10,), 384),
        Case("deep set of 8", deep_set(8, seed), (8,), fact(8)),
        Case(
            "deep set of 8, noise of 1 %",
            noisy(deep_set(8, seed), 0.01, seed),
            (8,),
            fact(8),
            without_noise=deep_set(8, seed),
        ),
        Case("deep set of 20", deep_set(20, seed + 1), (20,), fact(20)),
        Case("deep set of 48", deep_set(48, seed + 2), (48,), fact(48)),
        Case(
            "two deep sets of 8",
            lambda x: deep_set(8, seed + 3)(x[:, :8]) * deep_set(8, seed + 4)(x[:, 8:]),
            (16,),
            fact(8) ** 2,
        ),
        Case("network of 8 inputs", mlp(8, seed, 1.0), (8,), 1),
        Case("network of 32 inputs", mlp(32, seed, 1.0), (32,), 1),
        Case("odd network of 16 inputs", mlp(16, seed, 0.0), (16,), 2),
        Case("images, shifts", Classifier("shifts", seed), (1, 8, 8), 64, tensors=True),
        Case("images, turns", Classifier("turns", seed), (1, 8, 8), 8, tensors=True),
        Case("images, shifts and turns", Classifier("shifts and turns", seed), (1, 8, 8), 512, tensors=True),
        Case("images, none", Classifier("none", seed), (1, 8, 8), 1, tensors=True),
        Case("tokens without positions", Tokens(False, seed), (8, 4), fact(8), tensors=True),
        Case("tokens with positions", Tokens(True, seed), (8, 4), 1, tensors=True),
    ]
    known = graphs(seed)
    found += [
        Case(f"springs, {name}", springs(w), (len(w),), 2 * automorphisms(w)) for name, w in known.items()
    ]
    for name in ("Petersen", "cycle of 24", "tree of 14"):
        w = known[name]
        network = GraphNetwork(w, seed)
        found.append(Case(f"graph network, {name}", network, (len(w),), automorphisms(w), tensors=True))
    return found + [case for off in (0.3, 0.05, 0.01) for case in controls(known, off, seed)]


def controls(known: dict[str, Array], off: float, seed: int) -> list[Case]:
    """One coefficient off: what is left is the part of the group that keeps its place."""
    fact = math.factorial
    ring, petersen = known["cycle of 10"].copy(), known["Petersen"].copy()
    ring[0, 1] = ring[1, 0] = petersen[0, 1] = petersen[1, 0] = 1 + off
    found = [
        Case("springs, cycle of 10", springs(ring), (10,), 2 * automorphisms(ring)),
        Case("deep set of 8", deep_set(8, seed, off), (8,), fact(7)),
        Case("gravity, 4 bodies", gravity([1, 1, 1, 1 + off], 3), (12,), 6 * 48),
        Case("energy of 5 bodies", energy([1, 1, 1, 1, 1 + off], 2), (10,), 24 * 8),
        Case("three equal tops", tops([(1 + off, 2, 3.5), (1, 2, 3.5), (1, 2, 3.5)]), (9,), 512 * 2),
        Case("ring of 8 pendulums", pendulums(8, ring=True, off=off), (16,), 4),
        Case("inertia of 4 arms", arms(4, off), (9,), 6 * 2, options={"matrix_output": True}),
        Case("field 5 x 5", reaction(5, 5, off), (25,), 16),
        Case("Burgers on 16 points", burgers(16, off), (16,), 2),
        Case("determinant 3 x 3", determinant(3, off), (9,), 256),
        Case("eigenvalues of 4 x 4", eigenvalues(off), (10,), 64),
        Case("graph network, Petersen", GraphNetwork(petersen, seed), (10,), automorphisms(petersen)),
        Case("images, shifts and turns", Classifier("shifts and turns", seed, off), (1, 8, 8), 8),
        Case("tokens without positions", Tokens(False, seed, off), (8, 4), fact(7)),
    ]
    for case in found:
        case.control = off
        case.tensors = isinstance(case.f, nn.Module)
    return found
