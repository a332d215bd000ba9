"""Moves that are worth a look: those of shapes, swaps, changes of sign, and what keeps the terms of polynomials."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import numpy.typing as npt

from metasym.discovery.finite.movable_inputs import MovableInputs
from metasym.discovery.finite.term_automorphisms import kept_by
from metasym.discovery.models.matching_pursuit import Term, sparse_polynomial
from metasym.groups.signed_permutations import Points, SignedPermutation

MOST_SWAPPED = 24
"""Inputs up to which every swap is tried."""
MOST_FLIPPED = 64
"""Inputs up to which every single change of sign is tried."""
MOST_BOTH = 200
"""Pairs of a swap of inputs and one of outputs that are tried."""
MOST_OUTPUTS = 40
"""Outputs up to which polynomials are fitted, and outputs may move: few examples make a system large enough then."""


class Candidates:
    """Moves of inputs and outputs, each once; inputs of different kinds do not change places."""

    def __init__(self, sites: MovableInputs, labels: bool) -> None:
        self.sites = sites
        self.labels = labels
        self.moves: list[SignedPermutation] = []
        self.natural: set[SignedPermutation] = set()
        """Those that a shape suggests: they move inputs together whatever each of them carries."""
        self.unlike = 0
        """Moves of shapes that would exchange inputs whose means or spreads differ."""
        self.together: list[list[SignedPermutation]] = []
        """Generators of groups that keep the terms of polynomials: each is tried as a whole, too."""
        self.terms: list[Term] = []
        """Those of the polynomials, in the coordinates of ``sites.placed(None)``."""
        self._seen: set[SignedPermutation] = set()

    def add(self, g: SignedPermutation, *, natural: bool = False) -> None:
        """Unless it is known, moves no input, or does not keep the inputs' law."""
        if g in self._seen or not g.moved_inputs:
            return
        if g.moved_outputs and (len(g.outputs) > MOST_OUTPUTS or (self.labels and min(g.output_signs) < 0)):
            return
        self._seen.add(g)
        if not self.sites.alike(g):
            self.unlike += natural
            return
        self.moves.append(g)
        if natural:
            self.natural.add(g)


def candidates(
    sites: MovableInputs, x_shape: tuple[int, ...], y_shape: tuple[int, ...], labels: bool
) -> Candidates:
    """All moves that are tried; ``y_shape`` is that of one example's outputs."""
    n, m = len(sites.inputs), len(sites.outputs)
    found = Candidates(sites, labels)
    whole = n == sites.prepared.total
    same = not labels and x_shape == y_shape and m == n
    kept = np.arange(m)
    for images in _of_shape(x_shape) if whole and len(x_shape) > 1 else []:
        if same:
            found.add(SignedPermutation.of(images, images), natural=True)
        found.add(SignedPermutation.of(kept, images), natural=True)
    one, plus = np.arange(n), np.ones(n, dtype=np.int64)
    for images in (one[::-1], np.roll(one, 1)):
        if m == n and not labels:
            found.add(SignedPermutation.of(images, images))
        found.add(SignedPermutation.of(kept, images))
    found.add(SignedPermutation.of(kept, one, (), -plus))
    found.add(SignedPermutation.of(kept, one, -np.ones(m, dtype=np.int64), -plus))
    if n <= MOST_FLIPPED:
        for i in range(n):
            found.add(SignedPermutation.of(kept, one, (), np.where(one == i, -1, 1)))
    if n <= MOST_SWAPPED:
        for i in range(n):
            for j in range(i):
                swapped = one.copy()
                swapped[[i, j]] = j, i
                found.add(SignedPermutation.of(kept, swapped))
                found.add(SignedPermutation.of(kept, swapped, (), np.where((one == i) | (one == j), -1, 1)))
    if not labels and m > 1 and (n * m) ** 2 <= 4 * MOST_BOTH:
        for (i, j), (k, q) in product(combinations(range(n), 2), combinations(range(m), 2)):
            swapped, other = one.copy(), kept.copy()
            swapped[[i, j]], other[[k, q]] = (j, i), (q, k)
            found.add(SignedPermutation.of(other, swapped))
    if m <= MOST_OUTPUTS:
        _, x, y, _, _ = sites.placed(None)
        found.terms = sparse_polynomial(x, y)
        for some in kept_by(found.terms, sites.kinds.tolist(), m):
            for g in some:
                found.add(g)
            allowed = set(found.moves)
            found.together.append([g for g in some if g in allowed])
    return found


def _of_shape(shape: tuple[int, ...]) -> list[Points]:
    """Flips, steps around, and the transpose of a grid."""
    grid: npt.NDArray[np.int64] = np.arange(int(np.prod(shape))).reshape(shape)
    found = []
    for axis in range(len(shape)):
        found.append(np.flip(grid, axis))
        if shape[axis] > 2:
            found.append(np.roll(grid, 1, axis))
    if shape[-1] == shape[-2]:
        found.append(np.swapaxes(grid, -1, -2))
        found.append(np.rot90(grid, 1, (-2, -1)))
    return [one.reshape(-1) for one in found]
