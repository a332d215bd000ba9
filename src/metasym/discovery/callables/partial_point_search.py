"""Signed permutations that keep a function, found by calling it at points with few inputs away from a centre.

A signed permutation g about a centre takes ``centre + sum a_j e_j`` over some inputs j to the same sum over their
images. So the outputs there are the same but for their order and signs. The images of inputs are chosen one by one;
a choice whose outputs differ is given up at once, and all choices for one input are called in one batch. As for
every permutation group, elements that keep the first inputs are found first: what they move need not be tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.output_actions import Images
from metasym.groups.orbits import orbit_labels
from metasym.groups.signed_permutations import SignedPermutation

_DEAD_ENDS = 50
"""Choices that fail for one pair of input and image, before it is given up."""
_BATCHES = 2_500
"""Calls of one search."""


@dataclass(frozen=True, eq=False)
class _Path:
    """Images that were chosen so far."""

    images: list[tuple[int, int]]
    history: Array
    """``[m]``: a weighted sum of the outputs at all points up to here. Only the order and the signs of outputs may
    differ, the same at all points, so that the sums do not differ in more either."""


@dataclass(eq=False)
class PartialPointSearch:
    """Points about ``centre [n]`` with ``steps [n]``; ``kinds [n]`` are equal for inputs that may be exchanged."""

    f: CalledFunction
    centre: Array
    steps: Array
    kinds: Images
    free: Images
    """The inputs that may move at all, in the order in which their images are chosen."""
    signed: bool
    allowed: float
    """The part of an input's effect by which outputs may differ."""
    accept: Callable[[SignedPermutation], bool]
    """Whether a whole element, which moves inputs, keeps f at other points."""
    two_sided: bool = False
    """Whether outputs are matrices with ``M(g x) = g M(x) g^T``: what is chosen says where their entries go."""
    sizes: Array | None = None
    """``[n, n]``, for near symmetries of matrices: typical sizes of entries, to which ``allowed`` is relative. Where
    the matrices are nearly symmetric already at the centre, an input of small effect changes them by less than
    that."""
    complete: bool = True
    """Whether nothing was given up."""
    batches: int = 0
    _matrices: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    _targets: list[tuple[Array, Array, float]] = field(default_factory=list)
    _histories: Array = field(default_factory=lambda: np.zeros((0, 0)))

    def generators(self, known: list[SignedPermutation]) -> list[SignedPermutation]:
        """Generators of all signed permutations of the inputs that keep f, ``known`` among them."""
        found = list(known)
        self._targets = self._prefixes()
        for level in reversed(range(len(self.free))):
            self._level(level, found)
        return found[len(known) :]

    def _prefixes(self) -> list[tuple[Array, Array, float]]:
        """Of every number of inputs away from the centre: outputs, their history, and what may differ."""
        points = np.tile(self.centre, (len(self.free) + 1, 1))
        for depth, i in enumerate(self.free):
            points[depth + 1 :, i] += self.steps[i]
        y = self.f(points)
        if self.two_sided:
            self._matrices = y[1:].reshape(len(self.free), len(self.centre), -1)
        effects = np.maximum.accumulate(np.linalg.norm(np.diff(y, axis=0), axis=1))
        chance = 5 * float(np.sqrt(2 * self.f.noise.sum()))
        rounding = 100 * self.f.rounding * np.linalg.norm(y[1:], axis=1)
        limits = self.allowed * effects + rounding + chance
        history = np.cumsum(y[1:] * _weights(len(self.free))[:, None], axis=0)
        self._histories = np.r_[np.zeros((1, self.f.outputs)), history]
        return list(
            zip(
                np.sort(np.abs(y[1:]), axis=1), np.sort(np.abs(history), axis=1), limits.tolist(), strict=True
            )
        )

    def _level(self, level: int, found: list[SignedPermutation]) -> None:
        """Elements that keep the first ``level`` inputs and move the next to each place it can go to."""
        here, n = int(self.free[level]), len(self.centre)
        fixed = self.free[:level]
        start = _Path([(int(i), 1) for i in fixed], self._histories[level])
        below = [g for g in found if all(g.inputs[i] == i and g.input_signs[i] == 1 for i in fixed)]
        labels = orbit_labels([g.doubled for g in below], 2 * n)
        failed: list[int] = []
        for path in self._fitting(start):
            image, sign = path.images[-1]
            point = 2 * image + (sign < 0)
            if labels[point] == labels[2 * here] or any(labels[point] == labels[other] for other in failed):
                continue
            element = self._extended(path)
            if element is None:
                failed.append(point)
            else:
                found.append(element)
                below.append(element)
                labels = orbit_labels([g.doubled for g in below], 2 * n)

    def _extended(self, start: _Path) -> SignedPermutation | None:
        """An element that begins like ``start``; depth first, with the choices that move least first."""
        failures = 0
        stack: list[list[_Path]] = []
        path = start
        while True:
            if len(path.images) == len(self.free):
                element = self._element(path.images)
                if self.accept(element):
                    return element
                stack.append([])
            else:
                stack.append(self._fitting(path))
            while stack and not stack[-1]:
                stack.pop()
                failures += 1
            if not stack:
                return None
            if failures > _DEAD_ENDS or self.batches > _BATCHES:
                self.complete = False
                return None
            path = stack[-1].pop(0)

    def _fitting(self, path: _Path) -> list[_Path]:
        """The images and signs of the next input with which the outputs are what they have to be."""
        depth = len(path.images)
        here = int(self.free[depth])
        used = {image for image, _ in path.images}
        images = [int(j) for j in self.free if self.kinds[j] == self.kinds[here] and int(j) not in used]
        options = [(j, sign) for j in images for sign in ((1, -1) if self.signed else (1,))]
        if not options:
            return []
        point = self.centre.copy()
        for i, (image, sign) in zip(self.free, path.images, strict=False):
            point[image] += sign * self.steps[i]
        points = np.tile(point, (len(options), 1))
        rows = np.arange(len(options))
        points[rows, [j for j, _ in options]] += [sign * self.steps[here] for _, sign in options]
        self.batches += 1
        target, past, limit = self._targets[depth]
        y = self.f(points)
        history = path.history + _weights(len(self.free))[depth] * y
        apart = np.linalg.norm(np.sort(np.abs(y), axis=1) - target, axis=1)
        # Errors of all points up to here add up in the history.
        since = np.linalg.norm(np.sort(np.abs(history), axis=1) - past, axis=1) / (1 + depth)
        if self.sizes is not None:
            apart, limit = self._entries_apart(path, options, y), self.allowed
            since = apart
        elif self.two_sided:
            apart = np.maximum(apart, self._entries_apart(path, options, y))
        kept = [k for k in rows if apart[k] <= limit and since[k] <= limit]
        worse = apart if self.sizes is not None else apart > limit / 10
        kept.sort(key=lambda k: (options[k] != (here, 1), worse[k], options[k][1] < 0))
        return [_Path([*path.images, options[k]], history[k]) for k in kept]

    def _entries_apart(self, path: _Path, options: list[tuple[int, int]], y: Array) -> Array:
        """``[options]``: how far the entries of the chosen inputs are from those of their images, with signs.

        Together, or the worst one relative to its size.
        """
        depth, n = len(path.images), len(self.centre)
        here = self.free[: depth + 1]
        goal = self._matrices[depth][np.ix_(here, here)]
        found = np.empty(len(options))
        for k, option in enumerate(options):
            images, signs = (np.array(part) for part in zip(*path.images, option, strict=True))
            there = y[k].reshape(n, n)[np.ix_(images, images)] * np.outer(signs, signs)
            if self.sizes is None:
                found[k] = np.linalg.norm(there - goal)
            else:
                found[k] = (np.abs(there - goal) / self.sizes[np.ix_(here, here)]).max()
        return found

    def _element(self, chosen: list[tuple[int, int]]) -> SignedPermutation:
        n = len(self.centre)
        images, signs = np.arange(n), np.ones(n, dtype=np.int64)
        for i, (image, sign) in zip(self.free, chosen, strict=True):
            images[i], signs[i] = image, sign
        return SignedPermutation.of((), images, (), signs)


def _weights(count: int) -> Array:
    """Between 0.5 and 1, no two alike."""
    return np.asarray(0.5 + 0.5 * (0.7548777 * np.arange(1, count + 1) % 1))
