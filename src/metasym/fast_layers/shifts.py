"""Shifts behind a relabelling: an abelian group that takes every input to every other, and every output, just once.

A weight that it keeps is a circular convolution on a torus of one or more dimensions. Where every class of a pattern
is a permutation matrix the shifts can be read from: class c after class b undone is one. Where classes hold a tap and
its mirror image (D_n), they draw cycles. Elsewhere the elements of a group that is known are looked through.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from metasym.fast_layers.sharing import Index, Sharing
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation, cycles

_CYCLES = 64
"""Classes with two entries a row that are tried as cycles."""
_WORDS = 64
"""Random products of a group's generators that are looked through for shifts."""
_TAPS = 32
"""Taps of a convolution from whose differences the axes of a torus are chosen."""


@dataclass(frozen=True, eq=False)
class Torus:
    """Coordinates on a torus: ``outputs[p]`` and ``inputs[p]`` stand at the point p, row-major in ``dims``."""

    dims: tuple[int, ...]
    outputs: Index
    inputs: Index

    @property
    def size(self) -> int:
        """The number of points."""
        return math.prod(self.dims)

    def rescaled(self, axis: int, unit: int) -> Torus:
        """The torus whose step along ``axis`` is ``unit`` steps of this one; ``unit`` is prime to its length."""
        old = np.arange(self.size).reshape(self.dims)
        moved = np.take(old, np.arange(self.dims[axis]) * unit % self.dims[axis], axis=axis).ravel()
        return Torus(self.dims, self.outputs[moved], self.inputs[moved])

    def moved(self, offset: Sequence[int]) -> Torus:
        """The torus on which output p stands at ``p + offset`` of this one."""
        old = np.arange(self.size).reshape(self.dims)
        rolled = np.roll(old, [-o for o in offset], axis=tuple(range(len(self.dims)))).ravel()
        return Torus(self.dims, self.outputs[rolled], self.inputs)


def differences(dims: Sequence[int]) -> Index:
    """``[n, n]``: the point ``j - i`` on the torus for every pair (i, j)."""
    n = math.prod(dims)
    found = np.zeros((n, n), dtype=np.int32)
    for coordinate, d in zip(np.unravel_index(np.arange(n), tuple(dims)), dims, strict=True):
        c = coordinate.astype(np.int32)
        found *= d
        found += (c[None, :] - c[:, None]) % d
    return found


def find_torus(sharing: Sharing, symmetries: Sequence[SignedPermutation] = ()) -> Torus | None:
    """Coordinates in which the pattern (its signs aside) depends on differences alone; None where none are found."""
    m, n = sharing.shape
    if m != n or n < 2:
        return None
    columns = _matchings(sharing)
    ways = (
        _as_they_stand(sharing),
        _from_permutations(columns),
        _from_cycles(sharing, columns),
        _from_group(symmetries, n),
    )
    for torus in itertools.chain(*ways):
        if depends_on_differences(sharing, torus):
            return torus
    return None


def depends_on_differences(sharing: Sharing, torus: Torus) -> bool:
    """Whether the classes of (i, j) and (i + s, j + s) are equal, up to sign, for every shift s."""
    classes = sharing.absolute[np.ix_(torus.outputs, torus.inputs)]
    return bool(np.array_equal(classes, classes[0][differences(torus.dims)]))


def _as_they_stand(sharing: Sharing) -> Iterator[Torus]:
    """Grids of the inputs and outputs in their own order: no gathers would be needed."""
    n, classes = sharing.shape[0], sharing.absolute
    every = np.arange(n)
    for width in [n, *(d for d in range(2, n // 2 + 1) if n % d == 0)]:
        # One step along each axis, of the whole first row, before all pairs are compared.
        x, y = np.divmod(every, width)
        along = x * width + (y + 1) % width
        across = (x + 1) % (n // width) * width + y
        if all(np.array_equal(classes[step[0]][step], classes[0]) for step in (along, across)):
            yield Torus((n,) if width == n else (n // width, width), every, every)


def _matchings(sharing: Sharing) -> Index:
    """The classes that are permutation matrices: for each, and output i, its input ``[c, n]``."""
    n = sharing.shape[0]
    numbers = np.flatnonzero(sharing.sizes == n)
    numbers = numbers[numbers > 0]
    if not len(numbers):
        return np.zeros((0, n), dtype=np.int64)
    keys = sharing.absolute.ravel().astype(np.uint16 if sharing.count < 2**16 else np.uint32)
    starts = np.concatenate([[0], np.cumsum(sharing.sizes)])[numbers]
    order = np.argsort(keys, kind="stable")[starts[:, None] + np.arange(n)]  # of sixteen bits: a radix sort
    rows, columns = order // n, order % n
    good = (rows == np.arange(n)).all(1) & (np.sort(columns, axis=1) == np.arange(n)).all(1)
    found: Index = columns[good]
    return found


def _from_permutations(columns: Index) -> Iterator[Torus]:
    """From classes that are permutation matrices: one of them after another undone shifts the inputs."""
    if len(columns) < 2:
        return
    first = columns[0]
    back = np.argsort(first)
    inputs = columns[:, back]  # input j -> the output that the first class ties it to -> its input in class c
    found = _torus(inputs, len(first))
    if found is None:
        return
    dims, points = found
    yield Torus(dims, back[points], points)


def _from_cycles(sharing: Sharing, columns: Index) -> Iterator[Torus]:
    """From a class with two entries in every row and column: drawn on the inputs it may be one long cycle."""
    n = sharing.shape[0]
    if not len(columns):
        return
    back = np.argsort(columns[0])
    tried = 0
    for number in np.flatnonzero(sharing.sizes[1:] == 2 * n) + 1:
        rows, ends = np.nonzero(sharing.absolute == number)
        if not np.array_equal(rows, np.repeat(np.arange(n), 2)):
            continue
        cycle = _cycle(ends.reshape(n, 2)[back])
        if cycle is not None:
            yield Torus((n,), back[cycle], cycle)
        tried += 1
        if tried == _CYCLES:
            return


def _cycle(neighbours: Index) -> Index | None:
    """The points in the order of the cycle through all of them that ``neighbours [n, 2]`` draw."""
    n, pairs = len(neighbours), neighbours.tolist()
    found, before, here = [0], 0, pairs[0][0]
    while here != 0:
        found.append(here)
        if len(found) > n:
            return None
        a, b = pairs[here]
        if before not in (a, b):
            return None
        before, here = here, b if a == before else a
    return np.array(found) if len(found) == n else None


def _from_group(symmetries: Sequence[SignedPermutation], n: int) -> Iterator[Torus]:
    """From the elements of a group: those without fixed points, all of whose cycles are equally long."""
    if not symmetries:
        return
    words = list(symmetries)
    words += [a @ b for a, b in itertools.product(words[:12], repeat=2)]
    draw = np.random.Generator(np.random.PCG64(0))
    for _ in range(_WORDS):
        word = words[int(draw.integers(len(words)))]
        for _ in range(int(draw.integers(1, 8))):
            word = word @ words[int(draw.integers(len(words)))]
        words.append(word)
    moves: dict[tuple[int, ...], tuple[int, SignedPermutation]] = {}
    for word in words:
        lengths = {_semiregular(side) for side in (word.outputs, word.inputs)}
        length = next(iter(lengths))
        if len(lengths) == 1 and length > 1:
            moves.setdefault(word.inputs, (length, word))
    ranked = [word for _, word in sorted(moves.values(), key=lambda item: -item[0])]
    for start in ranked[:8]:
        chosen = [start]
        while True:
            outputs, inputs = SignedGroup(tuple(chosen), chosen[0].shape).point_orbits
            if not (outputs.any() or inputs.any()):  # one orbit each
                found = _torus(np.array([g.inputs for g in chosen]), n)
                if found is not None:
                    yield _both_sides(chosen, found)
                break
            more = [g for g in ranked if inputs[g.inputs[0]] and all(g @ c == c @ g for c in chosen)]
            if not more:
                break
            chosen.append(more[0])


def _both_sides(chosen: Sequence[SignedPermutation], found: tuple[tuple[int, ...], Index]) -> Torus:
    """The outputs' coordinates: what takes input 0 to a point takes output 0 to its output."""
    dims, points = found
    n = len(points)
    outputs = np.full(n, -1)
    outputs[0], frontier = 0, [0]
    while frontier:
        here = frontier.pop()
        for g in chosen:
            there = g.inputs[here]
            if outputs[there] < 0:
                outputs[there] = g.outputs[outputs[here]]
                frontier.append(there)
    return Torus(dims, outputs[points], points)


def _semiregular(permutation: Sequence[int]) -> int:
    """The length of the permutation's cycles; 0 where they differ."""
    lengths = {len(cycle) for cycle in cycles(permutation)}
    return lengths.pop() if len(lengths) == 1 else 0


def _torus(shifts: Index, n: int) -> tuple[tuple[int, ...], Index] | None:
    """Lengths of the axes and the input at every point of the torus, from shifts ``[s, n]`` of the inputs."""
    orders = _orders(shifts, n)
    if orders is None:
        return None
    longest = int(orders.argmax())
    if orders[longest] == n:
        points, here = [0], int(shifts[longest][0])
        while here:
            points.append(here)
            here = int(shifts[longest][here])
        return (n,), np.array(points)
    table = _table(shifts, n)
    if table is None or not np.array_equal(table, table.T):
        return None
    return _axes(table, shifts[:, 0] if len(shifts) <= _TAPS else None)


def _orders(shifts: Index, n: int) -> Index | None:
    """How many steps of each shift take point 0 back to itself; None where one never does."""
    every = np.arange(len(shifts))
    here, orders = shifts[:, 0].copy(), np.ones(len(shifts), dtype=np.int64)
    for _ in range(n):
        away = here != 0
        if not away.any():
            return orders
        orders[away] += 1
        here = np.where(away, shifts[every, here], 0)
    return None


def _table(shifts: Index, n: int) -> Index | None:
    """``[n, n]``: the element that takes 0 to p takes q to ``table[p, q]``; None where shifts do not reach all."""
    table = np.full((n, n), -1, dtype=np.int32)
    table[0] = np.arange(n)
    table[shifts[:, 0]] = shifts
    known = [0, *dict.fromkeys(shifts[:, 0].tolist())]
    done = 0
    while done < len(known) < n:
        here = known[done]
        for shift in shifts:
            there = int(shift[here])
            if table[there, 0] < 0:
                table[there] = shift[table[here]]
                known.append(there)
        done += 1
    return table if len(set(known)) == n else None


def _axes(table: Index, taps: Index | None) -> tuple[tuple[int, ...], Index] | None:
    """A basis of the abelian group with this table: differences of few taps where they do, else the longest axes."""
    n = len(table)
    for a, b in itertools.combinations([] if taps is None else [int(t) for t in taps if t], 2):
        first, second = _powers(table, a), _powers(table, b)
        if len(first) * len(second) == n and len(set(first) & set(second)) == 1:
            return (len(first), len(second)), table[np.ix_(first, second)].ravel().astype(np.int64)
    points, dims = np.zeros(1, dtype=np.int64), []
    lines = [_powers(table, p) for p in range(n)]
    while len(points) < n:
        inside = set(points.tolist())
        fitting = [line for line in lines if len(inside & set(line)) == 1]
        line = max(fitting, key=len)
        if len(line) == 1:
            return None
        points = table[np.ix_(points, np.array(line))].ravel().astype(np.int64)
        dims.append(len(line))
    return tuple(dims), points


def _powers(table: Index, element: int) -> list[int]:
    found, here = [0], element
    while here:
        found.append(here)
        here = int(table[here, element])
    return found
