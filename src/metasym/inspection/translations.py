"""Translations that borders break: rows of W that equal other rows after a shift.

A valid convolution of 70 inputs to 68 outputs has no symmetry among permutations of all indices: what moves over
the border is lost. But row i + 1 of its pattern is row i moved by 1, wherever both have entries. Such shifts are
read from the pattern row by row and claimed only where far more ties agree than chance would make.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from metasym.inspection.reading_thresholds import TRANSLATIONS
from metasym.verdicts.reports import PartialSymmetry

_EVERY = 10_000
"""In patterns of up to this many entries every move is tried."""
Classes = npt.NDArray[np.int64]


def find_translations(classes: Classes) -> tuple[PartialSymmetry, ...]:
    """The shifts of the pattern ``classes [m, n]`` (0 zero, opposite numbers tied up to sign), smallest first.

    Multiples of a shift that is found are not listed: one step along the rows, or two for a grid.
    """
    m, n = classes.shape
    surprise = _surprise(classes)
    tried = math.log(max(1, m // 2) * (2 * n - 1))  # the best of so many shifts is examined
    found: list[tuple[PartialSymmetry, npt.NDArray[np.bool_]]] = []
    for step in range(1, m // 2 + 1):
        best: tuple[PartialSymmetry, npt.NDArray[np.bool_]] | None = None
        for move in range(1 - n, n) if classes.size <= _EVERY else _likely(classes, step):
            shift = _shift(classes, step, move, surprise, tried)
            if shift is not None and (best is None or shift[0].ties > best[0].ties):
                best = shift
        if best is None or any(_is_multiple(best[0], one) for one, _ in found):
            continue
        if len(found) == 1 and not _is_grid(found[0], best[0], classes.shape):
            continue
        found.append(best)
        if len(found) == 2:
            break
    return tuple(one for one, _ in found)


def _likely(classes: Classes, step: int) -> list[int]:
    """The moves worth trying in a large pattern: they take entries of some rows to their class ``step`` rows on."""
    m = len(classes)
    votes: dict[int, int] = {}
    for i in np.unique(np.linspace(0, m - step - 1, 8).astype(int)):
        row, target = classes[i], classes[i + step]
        live = np.flatnonzero(row)
        for j in live[np.linspace(0, len(live) - 1, min(8, len(live))).astype(int)] if len(live) else []:
            for there in np.flatnonzero(target == row[j])[:4]:
                votes[int(there - j)] = votes.get(int(there - j), 0) + 1
    return sorted(votes, key=lambda move: -votes[move])[:6]


def _surprise(classes: Classes) -> float:
    """How unlikely it is, as a logarithm, that two entries that are not both zero agree by chance."""
    numbers, counts = np.unique(classes, return_counts=True)
    parts = counts[numbers != 0] / classes.size
    zero = float(np.mean(classes == 0))
    agree = float(np.sum(parts**2)) / max(1 - zero**2, 1e-12)
    return math.log(1 / max(agree, 1e-12))


def explains(orbits: Classes, classes: Classes, shift: PartialSymmetry) -> bool:
    """Whether ``orbits [m, n]`` of a group already tie all that ``shift`` ties."""
    (source, target), (before, after) = (_pair(of, shift.outputs, shift.inputs) for of in (classes, orbits))
    tied = (source == target) & (source != 0)
    return bool((before[tied] == after[tied]).all())


def _is_multiple(shift: PartialSymmetry, one: PartialSymmetry) -> bool:
    """Whether ``shift`` is ``one`` several times over."""
    times = shift.outputs // one.outputs
    return times * one.outputs == shift.outputs and times * one.inputs == shift.inputs


def _is_grid(
    first: tuple[PartialSymmetry, npt.NDArray[np.bool_]], second: PartialSymmetry, shape: tuple[int, ...]
) -> bool:
    """Whether the second shift moves by whole lines of a grid at whose line ends the first one fails."""
    shift, holds = first
    lines = second.outputs
    if shift.outputs != 1 or shape[0] % lines or abs(second.inputs) < 2 or shape[1] % abs(second.inputs):
        return False
    ends = np.arange(len(holds)) % lines == lines - 1
    return bool(np.array_equal(holds, ~ends))


def _shift(
    classes: Classes, step: int, move: int, surprise: float, tried: float
) -> tuple[PartialSymmetry, npt.NDArray[np.bool_]] | None:
    """The shift by ``step`` rows and ``move`` columns, with the rows on which it holds, if there is enough of it."""
    m = len(classes)
    source, target = _pair(classes, step, move)
    live = (source != 0) | (target != 0)
    equal = source == target
    holds: npt.NDArray[np.bool_] = (equal | ~live).all(1) & live.any(1)
    rows = int(holds.sum())
    ties = int((live & equal)[holds].sum())
    told = ties
    if step == move:  # an output's own input is special: ties on the diagonal say nothing about a shift
        own = np.arange(m - step)[:, None] == np.arange(source.shape[1])
        told -= int((live & equal & own)[holds].sum())
    if rows < 3 or rows < TRANSLATIONS.share * m or told * surprise < TRANSLATIONS.evidence + tried:
        return None
    by = f"shift by {step}" if step == move else f"shift of the outputs by {step} and the inputs by {move}"
    return PartialSymmetry(step, move, rows, m, ties, f"{by} on {rows} of {m} rows"), holds


def _pair(entries: Classes, step: int, move: int) -> tuple[Classes, Classes]:
    """The entries that a shift takes inside the matrix, and where it takes them."""
    m, n = entries.shape
    source = entries[: m - step, max(0, -move) : n - max(0, move)]
    return source, entries[step:, max(0, move) : n - max(0, -move)]
