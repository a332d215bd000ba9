"""Signed permutations of a function's inputs and outputs, and the groups that they generate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from metasym.discovery.fields import Array
from metasym.groups.generators import closure
from metasym.inspection.names import name_of
from metasym.types import MetasymError

LARGEST = 1000
"""Elements of a group that is written out; larger ones are claimed in parts."""

Moves = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Move:
    """``(g x)[images[i]] = signs[i] x[i]`` on inputs, and the same on outputs."""

    images: Moves
    signs: Moves
    outputs: Moves
    output_signs: Moves

    def inner(self, x: Array) -> Array:
        """``x [points, n]``, moved."""
        return _moved(x, self.images, self.signs)

    def outer(self, y: Array) -> Array:
        """``y [points, m]``, moved."""
        return _moved(y, self.outputs, self.output_signs)

    def back(self, y: Array) -> Array:
        """``y [points, m]``, moved by the inverse."""
        return np.asarray(y[:, self.outputs] * self.output_signs)

    @property
    def moved(self) -> Moves:
        """The inputs that it changes."""
        return np.flatnonzero((self.images != np.arange(len(self.images))) | (self.signs < 0))

    @property
    def moved_outputs(self) -> Moves:
        """The outputs that it changes."""
        return np.flatnonzero((self.outputs != np.arange(len(self.outputs))) | (self.output_signs < 0))

    @property
    def signed(self) -> bool:
        """Whether it changes a sign."""
        return bool((self.signs < 0).any() or (self.output_signs < 0).any())

    @property
    def permutes(self) -> bool:
        """Whether some input or output changes its place."""
        places = (self.images, self.outputs)
        return any(bool((p != np.arange(len(p))).any()) for p in places)

    @property
    def key(self) -> bytes:
        """Equal for equal moves."""
        parts = (self.images, self.signs, self.outputs, self.output_signs)
        return b"".join(np.asarray(part, dtype=np.int64).tobytes() for part in parts)


def _moved(values: Array, images: Moves, signs: Moves) -> Array:
    found = np.empty_like(values)
    found[:, images] = values * signs
    return found


def move(
    images: npt.ArrayLike,
    signs: npt.ArrayLike | None = None,
    outputs: npt.ArrayLike = (),
    output_signs: npt.ArrayLike | None = None,
) -> Move:
    """A move from lists; signs are plus where they are left out."""
    inner, outer = np.asarray(images, dtype=np.int64), np.asarray(outputs, dtype=np.int64)
    both = [
        np.ones(len(side), dtype=np.int64) if given is None else np.asarray(given, dtype=np.int64)
        for side, given in ((inner, signs), (outer, output_signs))
    ]
    return Move(inner, both[0], outer, both[1])


@dataclass(frozen=True, eq=False)
class MoveGroup:
    """All products of some moves, the identity first, with the name of the group."""

    name: str
    elements: list[Move]
    generators: list[Move]

    @property
    def keeps_outputs(self) -> bool:
        """Whether no output is moved."""
        return not any(len(g.moved_outputs) for g in self.generators)

    def settled(self, x: Array, y: Array) -> tuple[Array, Array]:
        """``x [n]`` and ``y [m]``, averaged over the group: numbers that every move keeps."""
        inner = np.mean([g.inner(x[None])[0] for g in self.elements], axis=0)
        outer = np.mean([g.outer(y[None])[0] for g in self.elements], axis=0)
        return np.asarray(inner), np.asarray(outer)


def generated(moves: Sequence[Move], most: int = LARGEST) -> MoveGroup | None:
    """The group that the moves generate; None where it has more than ``most`` elements."""
    n = len(moves[0].images)
    seen: dict[bytes, int] = {}
    points = torch.arange(2 * (n + len(moves[0].outputs)))
    try:
        found, table, _ = closure(
            points,
            [torch.tensor(_doubled(g)) for g in moves],
            lambda g, new: seen.setdefault(g.numpy().tobytes(), new),
            lambda g, a: g[a],
            most,
        )
    except MetasymError:
        return None
    named = name_of(table.numpy())
    order = len(found)
    name = f"a group of order {order}" if named is None else str(named)
    return MoveGroup(name, [_halved(g.numpy(), n) for g in found], list(moves))


def _doubled(g: Move) -> Moves:
    """The move as a permutation of the points +i and -i, inputs first."""
    images = np.concatenate([g.images, len(g.images) + g.outputs])
    flip = (np.concatenate([g.signs, g.output_signs]) < 0).astype(np.int64)
    found = np.empty(2 * len(images), dtype=np.int64)
    found[0::2], found[1::2] = 2 * images + flip, 2 * images + 1 - flip
    return found


def _halved(points: Moves, n: int) -> Move:
    """And back."""
    images, signs = points[0::2] // 2, 1 - 2 * (points[0::2] % 2)
    return Move(images[:n], signs[:n], images[n:] - n, signs[n:])
