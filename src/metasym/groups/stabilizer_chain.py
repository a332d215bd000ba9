"""A permutation group by its chain of stabilizers: order, membership and random elements without listing it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Points = npt.NDArray[np.int64]
_SURE = 24
"""Random products that have to sift to the identity in a row: each misses a larger group with at most a half."""
_MOST_PROVEN = 5_000
"""Schreier's generators up to which a chain is proven to be complete: some hundred milliseconds."""
_MIXED = 12
"""Permutations that random products are made of."""


class StabilizerChain:
    """The group of the permutations that were added, by random Schreier-Sims.

    >>> chain = StabilizerChain(4)
    >>> chain.add([1, 0, 2, 3]), chain.add([1, 2, 3, 0]), chain.add([0, 1, 3, 2]), chain.order
    (True, True, False, 24)
    """

    def __init__(self, degree: int, seed: int = 0, base: Sequence[int] = ()) -> None:
        self.degree = degree
        self.generators: list[Points] = []
        self._draw = np.random.default_rng([seed, degree])
        self._identity = np.arange(degree)
        self._base = list(base)
        """Points that the chain fixes one after the other; those that are given come first."""
        self._strong: list[list[Points]] = [[] for _ in base]
        self._reach = [{point: self._identity} for point in base]
        self._mixed: list[Points] = []
        self._walked: Points = self._identity

    @property
    def order(self) -> int:
        """The number of elements."""
        return math.prod(len(reach) for reach in self._reach)

    def keeping(self, points: int) -> list[Points]:
        """Generators of the elements that keep the first ``points`` points of the base."""
        return list(self._strong[points]) if points < len(self._strong) else []

    def __contains__(self, permutation: npt.ArrayLike) -> bool:
        residue, _ = self._sift(np.asarray(permutation, dtype=np.int64))
        return bool((residue == self._identity).all())

    def add(self, permutation: npt.ArrayLike) -> bool:
        """Make the group larger by one generator; False where it was in it."""
        new = np.asarray(permutation, dtype=np.int64)
        if new in self:
            return False
        self.generators.append(new)
        self._mixed = [
            self.generators[i % len(self.generators)] for i in range(max(_MIXED, len(self.generators)))
        ]
        self._walked = self._identity
        for _ in range(8 * len(self._mixed)):
            self._random()
        self._insert(new)
        passed = 0
        while passed < _SURE:
            passed = 0 if self._insert(self._random()) else passed + 1
        while (missed := self._missed()) is not None:
            self._insert(missed)
        return True

    def _missed(self) -> Points | None:
        """An element of the group that the chain lacks, by Schreier's generators; None: there is none.

        This is a proof. It is left out where it would take long: random products then have to do.
        """
        sizes = [len(r) * len(s) for r, s in zip(self._reach, self._strong, strict=True)]
        if sum(sizes) > _MOST_PROVEN:
            return None
        for reach, strong in zip(self._reach, self._strong, strict=True):
            for here, to in reach.items():
                for g in strong:
                    loop: Points = np.argsort(reach[int(g[here])])[g[to]]
                    if loop not in self:
                        return loop
        return None

    def random(self) -> Points:
        """An element, all equally likely."""
        found: Points = self._identity
        for reach in reversed(self._reach):
            every = list(reach.values())
            found = np.asarray(every[int(self._draw.integers(len(every)))][found])
        return found

    def _random(self) -> Points:
        """Product replacement: a product of those before, and of all that were given before it.

        Products alone stay alike for long: 24 of them in a row have been in the same half of a group.
        """
        i, j = self._draw.choice(len(self._mixed), 2, replace=False)
        other = self._mixed[j] if self._draw.random() < 0.5 else np.argsort(self._mixed[j])
        mixed: Points = self._mixed[i][other] if self._draw.random() < 0.5 else other[self._mixed[i]]
        self._mixed[i] = mixed
        self._walked = self._walked[mixed]
        return self._walked

    def _sift(self, permutation: Points) -> tuple[Points, int]:
        """What is left of it after the chain, and the level at which it left."""
        for level, (point, reach) in enumerate(zip(self._base, self._reach, strict=True)):
            there = int(permutation[point])
            if there not in reach:
                return permutation, level
            permutation = np.argsort(reach[there])[permutation]
        return permutation, len(self._base)

    def _insert(self, permutation: Points) -> bool:
        residue, level = self._sift(permutation)
        if (residue == self._identity).all():
            return False
        if level == len(self._base):
            self._base.append(int(np.flatnonzero(residue != self._identity)[0]))
            self._strong.append([])
            self._reach.append({self._base[-1]: self._identity})
        for above in range(level + 1):
            self._strong[above].append(residue)
            self._grow(above)
        return True

    def _grow(self, level: int) -> None:
        """The orbit of the level's base point, each point with an element that reaches it."""
        reach = self._reach[level]
        known = list(reach)
        waiting = [(here, self._strong[level][-1]) for here in known]  # the others lead to known points
        while waiting:
            here, g = waiting.pop()
            there = int(g[here])
            if there not in reach:
                reach[there] = g[reach[here]]
                waiting += [(there, other) for other in self._strong[level]]
