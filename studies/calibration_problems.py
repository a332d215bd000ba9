"""Small problems of every kind, drawn at random, whose true defects are known exactly."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from studies.simulators import Array
from studies.true_group import Element


@dataclass(frozen=True)
class Problem:
    """One family of tasks, its examples, and its true prior ``vec(W) = mean + U v``."""

    x: Array
    """``[tasks, examples, n]``"""
    y: Array
    """``[tasks, examples, m]``"""
    mean: Array
    """``[m, n]``"""
    U: Array
    """``[m n, k]``"""
    planted: str
    broken: float
    noise: float

    def defect(self, g: Element) -> float:
        """``sqrt(E|W - gW|^2 / E|W|^2)`` over all tasks that there could be."""
        whole = np.column_stack([self.mean.ravel(), self.U])
        cube = whole.reshape(*self.mean.shape, -1)
        signs = np.outer(g.output_signs, g.input_signs)[:, :, None]
        moved = cube[np.ix_(g.outputs, g.inputs)] * signs
        return float(np.linalg.norm(moved - cube) / np.linalg.norm(cube))


KINDS = ("none", "cyclic", "dihedral", "reflection", "swap", "symmetric", "signed")


def _generators(kind: str, n: int) -> list[Array]:
    identity = np.eye(n)
    shift, mirror = np.roll(identity, 1, axis=0), identity[::-1]
    swap = identity[[1, 0, *range(2, n)]]
    turned = shift.copy()
    turned[0] *= -1
    return {
        "none": [],
        "cyclic": [shift],
        "dihedral": [shift, mirror],
        "reflection": [mirror],
        "swap": [swap],
        "symmetric": [shift, swap],
        "signed": [turned],
    }[kind]


def planted_generators(kind: str, n: int) -> list[Element]:
    """The planted symmetry, acting alike on outputs and inputs."""
    found = []
    for g in _generators(kind, n):
        images = np.abs(g).argmax(0)
        signs = tuple(int(v) for v in g[images, np.arange(n)])
        points = tuple(int(v) for v in images)
        found.append(Element(points, points, signs, signs))
    return found


def _equivariant(generators: list[Array], n: int) -> Array:
    """An orthonormal basis ``[n n, d]`` of the maps that commute with all generators."""
    constraint = np.concatenate(
        [np.kron(g, np.eye(n)) - np.kron(np.eye(n), g.T) for g in generators] or [np.zeros((1, n * n))]
    )
    _, values, right = np.linalg.svd(constraint, full_matrices=True)
    rank = int((values > 1e-9).sum())
    return right[rank:].T


def problem(seed: int) -> Problem:
    """The problem of a seed: its size, symmetry, how far that is broken, noise, tasks and examples are drawn."""
    g = np.random.Generator(np.random.PCG64([seed, 18]))
    n = int(g.integers(4, 7))
    kind = str(g.choice(KINDS))
    broken = float(g.choice([0, 0, 0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3]))
    noise = float(g.choice([0, 0.01, 0.05, 0.2, 0.5]))
    tasks = int(g.choice([30, 60, 120, 300]))
    examples = int(g.choice([n + 2, 2 * n, 4 * n]))
    basis = _equivariant(_generators(kind, n), n)
    spread = np.geomspace(1, 1 / float(g.choice([1, 10, 100])), basis.shape[1])
    # Directions that mix the basis, so that their strengths are not those of single classes.
    rotation = np.linalg.qr(g.standard_normal((basis.shape[1],) * 2))[0]
    U = basis @ (rotation * spread[g.permutation(len(spread))])
    U /= np.linalg.norm(U)
    mean = (basis @ g.standard_normal(basis.shape[1])).reshape(n, n)
    mean *= float(g.choice([0, 0.5, 2])) / np.linalg.norm(mean)
    if broken:
        other = g.standard_normal((n * n, int(g.integers(1, n * n))))
        size = math.sqrt(float(np.linalg.norm(U) ** 2 + np.linalg.norm(mean) ** 2))
        U = np.column_stack([U, other * broken * size / np.linalg.norm(other)])
    weights = (mean.ravel() + g.standard_normal((tasks, U.shape[1])) @ U.T).reshape(tasks, n, n)
    x = g.standard_normal((tasks, examples, n))
    clean = x @ weights.transpose(0, 2, 1)
    y = clean + noise * np.sqrt(np.mean(clean**2)) * g.standard_normal(clean.shape)
    return Problem(x, y, mean, U, kind, broken, noise)
