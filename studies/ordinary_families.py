"""Twenty ordinary families (graphs, grids, molecules, rings, products, signed), and what ``ms.learn`` says of them.

    python -m studies.ordinary_families --seeds 0:3 --out results/attacks/ordinary-before.jsonl

Ordinary: linear tasks, inputs and noise independent, of one size. The true group of the maps comes from a search over
all signed permutations (:mod:`studies.true_group`). A line of JSON a run; runs that are there are not run again.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from studies.judged_runs import Array, Made, by_assumptions, examples_of, rows, run_all, table

Draw = Callable[[np.random.Generator, int], Array]


def graph(edges: list[tuple[int, int]], points: int, powers: int = 3) -> Draw:
    """Filters of a graph: polynomials of its Laplacian with coefficients drawn for every task."""
    adjacency = np.zeros((points, points))
    for a, b in edges:
        adjacency[a, b] = adjacency[b, a] = 1
    laplacian = np.diag(adjacency.sum(1)) - adjacency
    laplacian /= np.linalg.norm(laplacian, 2)
    basis = [np.linalg.matrix_power(laplacian, k) for k in range(powers + 1)]
    return combinations(basis)


def combinations(basis: list[Array]) -> Draw:
    """Random combinations of fixed matrices, each of length 1."""
    scaled = np.array([b / np.linalg.norm(b) for b in basis])

    def draw(generator: np.random.Generator, tasks: int) -> Array:
        return np.einsum("tk,kij->tij", generator.standard_normal((tasks, len(scaled))), scaled)

    return draw


def tied(images: list[tuple[tuple[int, ...], tuple[int, ...], Array | None]], m: int, n: int) -> Draw:
    """All maps that some permutations of outputs and inputs (and signs) keep, by averaging random ones."""
    group = {(tuple(range(m)), tuple(range(n)), (1.0,) * (m + n))}
    steps = [(o, i, tuple(s) if s is not None else (1.0,) * (m + n)) for o, i, s in images]
    frontier = list(group)
    while frontier:
        o, i, s = frontier.pop()
        for p, q, t in steps:
            new = (
                tuple(p[a] for a in o),
                tuple(q[a] for a in i),
                tuple(s[k] * (t[o[k]] if k < m else t[m + i[k - m]]) for k in range(m + n)),
            )
            if new not in group:
                group.add(new)
                frontier.append(new)

    def draw(generator: np.random.Generator, tasks: int) -> Array:
        W = generator.standard_normal((tasks, m, n))
        found = np.zeros_like(W)
        for o, i, s in group:
            signs = np.outer(s[:m], s[m:])
            moved = np.zeros_like(W)
            moved[:, np.array(o)[:, None], np.array(i)[None, :]] = W * signs
            found += moved
        return found / np.sqrt(len(group))

    return draw


def ring(n: int) -> list[tuple[int, int]]:
    """The edges of a ring."""
    return [(i, (i + 1) % n) for i in range(n)]


def _grid(rows: int, columns: int) -> list[tuple[int, int]]:
    at = {p: k for k, p in enumerate(itertools.product(range(rows), range(columns)))}
    return [
        (k, at[r + a, c + b]) for (r, c), k in at.items() for a, b in ((0, 1), (1, 0)) if (r + a, c + b) in at
    ]


_CUBE = [(a, a ^ bit) for a in range(8) for bit in (1, 2, 4) if a < a ^ bit]
_SHIFT = [tuple((i + 1) % 7 for i in range(7))] * 2
_INCIDENCE = [np.roll(np.eye(5), k, 1) - np.roll(np.eye(5), 1 - k, 1) for k in (1, 2)]
_SWAPS = [
    ((1, 0, 2, 3, 4, 5),) * 2,
    ((0, 2, 1, 3, 4, 5),) * 2,
    ((0, 1, 2, 4, 3, 5),) * 2,
    ((0, 1, 2, 3, 5, 4),) * 2,
]
_TORUS = [((1, 2, 0, 4, 5, 3),) * 2, ((3, 4, 5, 0, 1, 2),) * 2]

FAMILIES: dict[str, Draw] = {
    "ring6": graph(ring(6), 6),
    "ring8": graph(ring(8), 8, 4),
    "directed7": tied([(*_SHIFT, None)], 7, 7),
    "path5": graph([(0, 1), (1, 2), (2, 3), (3, 4)], 5),
    "grid2x3": graph(_grid(2, 3), 6),
    "grid3x3": graph(_grid(3, 3), 9),
    "complete5": graph(list(itertools.combinations(range(5), 2)), 5, 1),
    "star5": graph([(0, i) for i in range(1, 5)], 5, 2),
    "cube": graph(_CUBE, 8),
    "prism": graph([(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (0, 3), (1, 4), (2, 5)], 6, 4),
    "bipartite33": graph([(a, b) for a in range(3) for b in range(3, 6)], 6, 2),
    "water": graph([(0, 1), (0, 2)], 3, 2),
    "ethane": graph([(0, 1), *((0, i) for i in (2, 3, 4)), *((1, i) for i in (5, 6, 7))], 8, 4),
    "butane-carbons": graph([(0, 1), (1, 2), (2, 3)], 4, 3),
    "ring-differences": combinations(_INCIDENCE),
    "two-trios": tied([(*s, None) for s in _SWAPS], 6, 6),
    "torus2x3": tied([(*s, None) for s in _TORUS], 6, 6),
    "mirror-signed": tied(
        [((1, 0, 3, 2), (1, 0, 2, 4, 3), np.array([1, 1, -1, -1, 1, 1, -1, 1, 1.0]))], 4, 5
    ),
    "tree-without": graph([(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (2, 6)], 7, 6),
    "random-without": combinations(list(np.random.default_rng(5).standard_normal((4, 5, 6)))),
}
NOISE = (0.02, 0.05, 0.1)
TASKS = (60, 100, 160)


def make(name: str, seed: int) -> Made:
    """The tasks of a family; the seed sets noise and number of tasks too."""
    generator = np.random.default_rng([sum(name.encode()), seed])
    tasks, noise = TASKS[seed % 3], NOISE[(seed // 3 + seed) % 3]
    maps = FAMILIES[name](generator, tasks)
    return examples_of(maps, generator, examples=2 * maps.shape[2] + 6, noise=noise)


@lru_cache(maxsize=8)
def maps_of(name: str) -> Array:
    """Many maps of a family, for its true group."""
    return FAMILIES[name](np.random.default_rng(0), 30)


def main() -> None:
    """Run what is asked for and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:3")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    low, high = map(int, given.seeds.split(":"))
    names = [n for n in FAMILIES if given.only in n]
    run_all([(n, s) for s in range(low, high) for n in names], make, given.out)
    print(table(given.out))
    print(by_assumptions(rows(given.out), lambda _: True))


if __name__ == "__main__":
    main()
