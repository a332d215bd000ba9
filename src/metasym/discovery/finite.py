"""Finite symmetries of one function: signed permutations of its inputs that leave it as it is.

Candidates are cheap, and judged: single swaps and changes of sign, what keeps the pattern of the mean products of
slopes, and, where an example has a shape, its flips, turns and shifts. Those that change the fitted function by no
more than its noise generate a group, and the group as a whole has to pass on held-out data.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from metasym.certification.beta import Beta, beta
from metasym.certification.elements import SignedPermutation
from metasym.discovery.fields import Array
from metasym.discovery.gaussian_processes import Hyper, Posterior, jackknife, parts, posterior
from metasym.discovery.hidden import MOST, hidden_beside
from metasym.discovery.noise_spectrum import QUIET
from metasym.discovery.prepared import Prepared
from metasym.discovery.shared_group import Element, group_elements
from metasym.groups.generators import closure
from metasym.inspection.automorphisms import automorphisms
from metasym.inspection.names import name_of
from metasym.types import MetasymError

GROUPS = 8
MOST_SWAPPED = 24
"""Inputs up to which every swap is tried."""
MOST_GENERATORS = 12
LARGEST = 200
"""Elements of a group that is written out; larger ones are not claimed."""
TRIES = 4

Moves = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Move:
    """A signed permutation of inputs: ``(g x)[images[i]] = signs[i] x[i]``."""

    images: Moves
    signs: Moves

    def __call__(self, x: Array) -> Array:
        """``x [points, n]``, moved."""
        found = np.empty_like(x)
        found[:, self.images] = x * self.signs
        return found

    @property
    def moved(self) -> Moves:
        """The inputs that it changes."""
        return np.flatnonzero((self.images != np.arange(len(self.images))) | (self.signs < 0))


@dataclass(frozen=True, eq=False)
class FiniteClaim:
    """A finite group that one function keeps."""

    name: str
    moves: list[Move]
    """Generators, on the inputs of the data."""
    order: int
    beta: Beta
    violation_upper: float

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``result.json``."""
        return {
            "kind": "finite",
            "name": self.name,
            "order": self.order,
            "inputs": sorted({int(i) for move in self.moves for i in move.moved}),
            "generators": [
                {"inputs": move.images.tolist(), "input_signs": move.signs.tolist()} for move in self.moves
            ],
            "violation_upper": self.violation_upper,
            "beta": self.beta.value,
            "beta_ci": [self.beta.low, self.beta.high],
        }


def candidates(prepared: Prepared, shape: tuple[int, ...], slopes: Array) -> list[Move]:
    """Moves worth a look; inputs in different units, or about different centres, do not change places."""
    n = len(prepared.inputs)
    scale, centre = prepared.place.scale, prepared.place.centre
    one, plus = np.arange(n), np.ones(n, dtype=np.int64)
    found: list[Move] = []
    seen: set[bytes] = set()

    def add(images: npt.ArrayLike, signs: npt.ArrayLike = plus) -> None:
        move = Move(np.asarray(images, dtype=np.int64), np.asarray(signs, dtype=np.int64))
        same = (scale[move.images] == scale).all() and (centre[move.images] == centre).all()
        key = move.images.tobytes() + move.signs.tobytes()
        if same and (centre[move.signs < 0] == 0).all() and len(move.moved) and key not in seen:
            seen.add(key)
            found.append(move)

    if n == prepared.total and len(shape) > 1:
        grid = one.reshape(shape)
        for axis in range(len(shape)):
            add(np.flip(grid, axis).reshape(-1))
            if shape[axis] > 2:
                add(np.roll(grid, 1, axis).reshape(-1))
        if len(shape) >= 2 and shape[-1] == shape[-2]:
            add(np.swapaxes(grid, -1, -2).reshape(-1))
    add(one[::-1])
    add(np.roll(one, 1))
    add(one, -plus)
    for i in range(n):
        add(one, np.where(one == i, -1, 1))
    if n <= MOST_SWAPPED:
        for i in range(n):
            for j in range(i):
                swapped = one.copy()
                swapped[[i, j]] = j, i
                add(swapped)
                add(swapped, np.where((one == i) | (one == j), -1, 1))
    for images in _pattern(slopes):
        add(images)
    return found


def _pattern(slopes: Array) -> list[Moves]:
    """Permutations that keep the mean products of slopes ``[replicates, n, n]`` up to their noise."""
    middle = slopes.mean(0)
    noise = np.sqrt((len(slopes) - 1) / len(slopes) * ((slopes - middle) ** 2).sum(0))
    n = len(middle)
    width = 3 * float(np.median(noise))
    if n > 64 or width <= 0:
        return []
    # Steps of the width of the noise; the diagonal has colours of its own, so that rows and columns move together.
    steps = np.round(middle / width).astype(np.int64)
    steps -= steps.min() - 1
    steps[np.arange(n), np.arange(n)] += 2 * int(steps.max())
    group = automorphisms(steps)
    return [np.array(g[n:]) - n for g in group.generators] if not group.signed else []


def finite_symmetry(
    prepared: Prepared, shape: tuple[int, ...], plain: Hyper, seed: int, tolerance: float
) -> tuple[FiniteClaim | None, str]:
    """The group that the data keep, or None; and the reason in words."""
    x, y = prepared.train
    n = x.shape[1]
    draw = np.random.default_rng([seed, 21])
    fits = jackknife(plain, x, y, parts(len(x), GROUPS, draw))
    points = x[draw.permutation(len(x))[:MOST]]
    slopes = np.stack(
        [np.einsum("pmi,pmj->ij", s, s) / len(points) for s in (f.jacobian(points, n) for f in fits)]
    )
    tried = candidates(prepared, shape, slopes)
    values = [fit(points) for fit in fits]
    ranked = sorted(((_signal(move, fits, values, points), i) for i, move in enumerate(tried)))
    quiet = [tried[i] for signal, i in ranked if signal < QUIET]
    whole = posterior(plain, x, y)
    shares = [_share(move, whole, x, draw) for move in quiet]
    # Inputs that hardly matter may be moved as one likes: that is no symmetry worth a name.
    kept = [move for move, share in zip(quiet, shares, strict=True) if share > 0.02]
    if not kept:
        return None, f"none of {len(tried)} signed permutations leaves the fitted function as it is"
    reason = ""
    for count in _counts(len(kept)):
        claim, why = _judged(kept[:count], prepared, plain, seed, tolerance)
        if claim is not None:
            return claim, f"{claim.name} is kept"
        reason = reason or why
    return None, reason


def _counts(most: int) -> list[int]:
    """How many of the quietest moves are tried together: all, then halves."""
    found = [min(most, MOST_GENERATORS)]
    while found[-1] > 1 and len(found) < TRIES:
        found.append(found[-1] // 2)
    return found


def _signal(move: Move, fits: list[Posterior], values: list[Array], points: Array) -> float:
    """By how much of its noise the fitted function changes."""
    changes = np.stack([fit(move(points)) - value for fit, value in zip(fits, values, strict=True)])
    middle = changes.mean(0)
    count = len(fits)
    noise = (count - 1) / count * float(((changes - middle) ** 2).sum(0).mean())
    return (float((middle**2).mean()) - noise) / max(noise, 1e-12)


def _share(move: Move, fit: Posterior, x: Array, draw: np.random.Generator) -> float:
    """The part of the variance that the least of the moved inputs carries."""
    base = fit(x)
    found = []
    for i in move.moved:
        other = x.copy()
        other[:, i] = x[draw.permutation(len(x)), i]
        found.append(0.5 * float(((fit(other) - base) ** 2).sum(1).mean()))
    return float(np.min(found)) / float(((base - base.mean(0)) ** 2).sum(1).mean())


def _judged(
    moves: list[Move], prepared: Prepared, plain: Hyper, seed: int, tolerance: float
) -> tuple[FiniteClaim | None, str]:
    """The group that the moves generate, on held-out data."""
    elements, name = _group(moves, prepared.train[1].shape[1], seed)
    if elements is None:
        return None, f"{len(moves)} moves generate a group of more than {LARGEST} elements"
    (x, y), (x_new, y_new) = prepared.train, prepared.held_out
    fit = posterior(plain, x, y)
    turned = [Move(images, signs) for images, signs, _, _ in elements]
    average = np.mean([fit(move(x_new)) for move in turned], axis=0)
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    found = beta(y_new - average, fit(x_new) - average, variance)
    every = np.concatenate([x_new, x])[:MOST], np.concatenate([y_new, y])[:MOST]
    kernel = np.mean([plain.kernel(every[0], move(every[0])) for move in turned], axis=0)
    violation = max(found.violation_upper, hidden_beside((kernel + kernel.T) / 2, *every))
    interval = f"beta {found.value:.2g} ({found.low:.2g} to {found.high:.2g})"
    if found.refutes:
        return None, f"{name} is refuted on held-out data: {interval}"
    least = min(_share(move, fit, x, np.random.default_rng([seed, 22])) for move in moves)
    if violation > tolerance * least:
        return None, (
            f"{name} cannot be told from a near symmetry: the data allow a violation of {violation:.2g} of the "
            f"variance, more than {tolerance:g} of what its inputs carry"
        )
    return FiniteClaim(name, [_on_all(m, prepared) for m in moves], len(elements), found, violation), name


def _group(moves: list[Move], outputs: int, seed: int) -> tuple[list[Element] | None, str]:
    """All elements, and the name of the group; None where there are too many."""
    fixed = tuple(range(outputs))
    generators = tuple(
        SignedPermutation(fixed, tuple(m.images.tolist()), (), tuple(m.signs.tolist())) for m in moves
    )
    elements = group_elements(generators, seed)
    if len(elements) > LARGEST:
        return None, ""
    seen: dict[bytes, int] = {}
    doubled = [_doubled(m) for m in moves]
    try:
        table = closure(
            torch.arange(2 * len(moves[0].images)),
            doubled,
            lambda g, new: seen.setdefault(g.numpy().tobytes(), new),
            lambda g, a: g[a],
            LARGEST,
        )[1].numpy()
    except MetasymError:
        return None, ""
    named = name_of(table)
    return elements, str(named) if named is not None else f"a group of order {len(elements)}"


def _doubled(move: Move) -> Tensor:
    """The move as a permutation of the points +i and -i."""
    images = np.empty(2 * len(move.images), dtype=np.int64)
    flip = (move.signs < 0).astype(np.int64)
    images[0::2] = 2 * move.images + flip
    images[1::2] = 2 * move.images + 1 - flip
    return torch.tensor(images)


def _on_all(move: Move, prepared: Prepared) -> Move:
    """The move on all inputs of the data; those that are left out stay."""
    used = np.array(prepared.inputs)
    images, signs = np.arange(prepared.total), np.ones(prepared.total, dtype=np.int64)
    images[used], signs[used] = used[move.images], move.signs
    return Move(images, signs)
