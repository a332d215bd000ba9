"""Groups too large to be written out: all permutations of some inputs, and products of such groups.

S_7 has 5,040 elements, but three of its subgroups S_6 say all, each of which keeps another input where it is; of
eight inputs four subgroups that permute them within two blocks. Averaging over a random one of them is a step of a
walk on S_k. The part of the variance that S_k does not keep is at most the mean of the parts that the subgroups do
not keep, divided by the walk's spectral gap. That is computed on all orders of up to eight inputs. For more, a
subgroup keeps no more than each of its swaps, and the gap of a walk by swaps is that of a walk of one input
(Caputo, Liggett and Richthammer 2010).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise, permutations

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.finite.movable_inputs import MovableInputs
from metasym.discovery.models.fitted_module import State, sorted_state, state_of
from metasym.discovery.models.function_models import ComparedBy
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, choose_kernel, posterior
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.claims import Claim

LARGEST_BLOCK = 6
"""Inputs all of whose permutations, 720, are averaged over at once."""
STABILISERS = 3
"""Subgroups of seven inputs: each keeps one of them where it is."""
COVERS = 4
"""Subgroups of eight inputs: permutations within two blocks of four."""
MOST_ORDERED = 8
"""Inputs whose orders are all written out for the spectral gap: 40,320."""


def interchangeable(group: SignedGroup) -> list[tuple[int, ...]] | None:
    """The sets of inputs all of whose permutations make up the group; None where it is another group."""
    if group.signed or not group.keeps_outputs:
        return None
    labels = group.point_orbits[1]
    orbits = [tuple(int(i) for i in np.flatnonzero(labels == k)) for k in np.unique(labels)]
    moved = [orbit for orbit in orbits if len(orbit) > 1]
    return moved if group.order == math.prod(math.factorial(len(orbit)) for orbit in moved) else None


def covers(members: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    """Partitions into blocks within which inputs are permuted; together they take every input to every other."""
    count = len(members)
    if count <= LARGEST_BLOCK:
        return [[members]]
    if count == LARGEST_BLOCK + 1:  # all but one
        return [[tuple(j for j in members if j != i)] for i in members[:STABILISERS]]
    sizes = [4, 4]
    draw = np.random.default_rng(count)
    found = []
    for i in range(COVERS if count <= MOST_ORDERED else count):
        mixed = np.array(members) if i == 0 else draw.permutation(members)
        parts = np.split(mixed, np.cumsum(sizes))[: len(sizes)]
        found.append([tuple(sorted(int(j) for j in part)) for part in parts])
    return found


@cache
def gap(count: int) -> float:
    """The spectral gap of averaging over a random one of the subgroups that cover so many inputs."""
    if count <= LARGEST_BLOCK:
        return 1.0
    cover = covers(tuple(range(count)))
    return _gap_of_swaps(cover, count) if count > MOST_ORDERED else _gap_of_orders(cover, count)


def _gap_of_swaps(cover: list[list[tuple[int, ...]]], count: int) -> float:
    """A lower limit, from the graph whose edges are the swaps in subgroups."""
    laplacian = np.zeros((count, count))
    for blocks in cover:
        pairs = [pair for block in blocks for pair in combinations(block, 2)]
        for a, b in pairs:
            edge = np.zeros(count)
            edge[a], edge[b] = 1, -1
            laplacian += np.outer(edge, edge) / (len(pairs) * len(cover))
    return float(np.linalg.eigvalsh(laplacian)[1] / 2)


def _gap_of_orders(cover: list[list[tuple[int, ...]]], count: int) -> float:
    """By functions on all orders of the inputs."""
    orders = np.array(list(permutations(range(count))), dtype=np.int64)
    place = count ** np.arange(count)
    keys = orders @ place
    sorted_by = np.argsort(keys)
    tables = {}
    for a, b in combinations(range(count), 2):
        other = orders.copy()
        other[:, [a, b]] = orders[:, [b, a]]
        tables[a, b] = sorted_by[np.searchsorted(keys, other @ place, sorter=sorted_by)]

    def step(f: Array) -> Array:
        total = np.zeros(len(orders))
        for blocks in cover:
            averaged = f.ravel() - f.mean()
            for block in blocks:
                for j in range(1, len(block)):  # over the permutations of its first j + 1 members
                    swapped = [averaged[tables[i, block[j]]] for i in block[:j]]
                    averaged = (averaged + np.sum(swapped, axis=0)) / (j + 1)
            total += averaged
        return total / len(cover)

    walk = LinearOperator((len(orders), len(orders)), matvec=step, dtype=np.float64)
    start = np.random.default_rng(0).normal(size=len(orders))
    largest = eigsh(walk, k=1, which="LA", tol=1e-6, v0=start, return_eigenvectors=False)
    return float(1 - largest[0]) * (1 - 1e-4)


def subgroups(orbit: tuple[int, ...], shape: tuple[int, int]) -> list[list[SignedPermutation]]:
    """Generators of the subgroups that cover an orbit."""
    return [[swap(pair, shape) for block in blocks for pair in pairwise(block)] for blocks in covers(orbit)]


def swap(pair: tuple[int, int], shape: tuple[int, int]) -> SignedPermutation:
    """The exchange of two inputs."""
    images = list(range(shape[1]))
    images[pair[0]], images[pair[1]] = pair[1], pair[0]
    return SignedPermutation.of(range(shape[0]), images)


@dataclass(frozen=True, eq=False)
class SortedModel:
    """Functions of inputs of which some may be interchanged: a process that sees these in ascending order."""

    sites: MovableInputs
    orbits: list[tuple[int, ...]]
    """Places among the sites."""
    group: SignedGroup
    hyper: Hyper
    symmetry: Claim
    compared_by: ComparedBy = ComparedBy.ERRORS
    evidence: float = math.nan

    def fit(self, x: Array, y: Array) -> Posterior:
        """The posterior mean."""
        return posterior(self.hyper, self._sorted(x), y)

    def predict(self, fit: Posterior, x: Array) -> Array:
        """``[points, m]``."""
        return fit(self._sorted(x))

    def state(self, fit: Posterior, shape: tuple[int, ...]) -> State:
        """What defines the module."""
        scaled = self.sites.units(self.group)
        prepared = self.sites.prepared
        units = type(scaled)(scaled.place, self.sites.inputs, prepared.offset, prepared.unit)
        inputs = self.sites.inputs
        return sorted_state(
            state_of(units, None, fit, shape), [[inputs[i] for i in orbit] for orbit in self.orbits]
        )

    def _sorted(self, x: Array) -> Array:
        return in_order(self.sites.units(self.group).place(self.sites.raw(x)), self.orbits)


def in_order(x: Array, orbits: list[tuple[int, ...]]) -> Array:
    """``x [points, n]`` with the inputs of each orbit in ascending order."""
    found = x.copy()
    for orbit in orbits:
        found[:, orbit] = np.sort(x[:, orbit], axis=1)
    return found


def sorted_model(sites: MovableInputs, claim: Claim, plain: Hyper, seed: int) -> SortedModel | None:
    """The model of a claim whose group is too large to average over; ``plain`` is a kernel on the sites."""
    moves = tuple(sites.restricted(g) for g in claim.moves)
    group = SignedGroup(moves, moves[0].shape)
    orbits = interchangeable(group)
    if orbits is None:
        return None
    x = in_order(sites.units(group).place(sites.train), orbits)
    y = sites.prepared.train[1]
    hyper = choose_kernel(x, y, [plain.kernel], max(plain.noise, 1e-6), np.random.default_rng([seed, 24]))
    return SortedModel(sites, orbits, group, hyper, claim)
