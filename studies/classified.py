"""Labels whose symmetries are known: digits that were flipped at random, and boards of tic-tac-toe.

Beside every data set stand controls: the same with the symmetry broken.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Labelled:
    """Examples ``x [examples, ...]`` with labels, and moves of an example's grid that are true."""

    x: Array
    y: Labels
    true: list[Labels]
    """All true permutations of the inputs, flattened; the identity among them."""


def _flips(side: int, *, both: bool) -> list[Labels]:
    grid = np.arange(side * side).reshape(side, side)
    found = [grid, grid[:, ::-1]]
    if both:
        found += [grid[::-1], grid[::-1, ::-1]]
    return [one.reshape(-1) for one in found]


def _square(side: int) -> list[Labels]:
    """All eight symmetries of a square grid."""
    grid = np.arange(side * side).reshape(side, side)
    turned = [np.rot90(grid, k) for k in range(4)]
    return [one.reshape(-1) for one in (*turned, *(one.T for one in turned))]


def digits(kind: str) -> Callable[[int], Labelled]:
    """scikit-learn's digits of 8 x 8 pixels, each flipped left to right with probability one half.

    ``as-they-are``: none is flipped. ``one-side``: a digit counts ten higher where its left half is the darker one.
    ``two-five``: a 2 that is flipped counts as the 5 that it resembles. ``both``: flips of both axes.
    """

    def make(seed: int) -> Labelled:
        from sklearn.datasets import load_digits

        draw = np.random.default_rng([seed, 64])
        data = load_digits()
        x, y = data.images.astype(float), data.target.astype(np.int64)
        flipped = draw.random(len(x)) < (0.0 if kind == "as-they-are" else 0.5)
        x = np.where(flipped[:, None, None], x[:, :, ::-1], x)
        true = _flips(8, both=False)
        if kind == "both":
            over = draw.random(len(x)) < 0.5
            x = np.where(over[:, None, None], x[:, ::-1], x)
            true = _flips(8, both=True)
        if kind == "one-side":
            y = y + 10 * (x[:, :, :4].sum((1, 2)) > x[:, :, 4:].sum((1, 2)))
        if kind == "two-five":
            y = np.where(flipped & (y == 2), 5, y)
        if kind in ("as-they-are", "one-side", "two-five"):
            true = true[:1]
        order = draw.permutation(len(x))
        return Labelled(x[order], y[order], true)

    return make


@cache
def _boards() -> tuple[Array, Labels]:
    """All positions of tic-tac-toe that can be reached, with the value for the first player, by open_spiel."""
    import pyspiel

    found: dict[tuple[int, ...], int] = {}

    def value(state: object) -> int:
        board = tuple({"x": 1, "o": -1, ".": 0}[c] for c in str(state).replace("\n", "")[:9])
        if board not in found:
            if state.is_terminal():  # type: ignore[attr-defined]
                found[board] = int(state.returns()[0])  # type: ignore[attr-defined]
            else:
                first = state.current_player() == 0  # type: ignore[attr-defined]
                actions = state.legal_actions()  # type: ignore[attr-defined]
                following = [value(state.child(a)) for a in actions]  # type: ignore[attr-defined]
                found[board] = max(following) if first else min(following)
        return found[board]

    value(pyspiel.load_game("tic_tac_toe").new_initial_state())
    boards = np.array(list(found), dtype=float).reshape(-1, 3, 3)
    return boards, np.array(list(found.values()))


def boards(kind: str, count: int = 1800) -> Callable[[int], Labelled]:
    """Positions of tic-tac-toe and who wins with best play: D_4.

    ``corner``: whoever holds the upper left corner wins. ``mirror``: whoever fills the left column wins it twice,
    so that only the upside-down flip is left. ``rare``: in a few positions, those with two cells of the upper left
    filled by the first player, the value is turned round. ``rarer``: in those where the second player holds the
    opposite corner, too.
    """

    def make(seed: int) -> Labelled:
        draw = np.random.default_rng([seed, 9])
        x, y = _boards()
        chosen = draw.permutation(len(x))[:count]
        x, y = x[chosen], y[chosen].copy()
        true = _square(3)
        if kind == "corner":
            y = np.where(x[:, 0, 0] != 0, x[:, 0, 0], y).astype(np.int64)
            true = [one for one in true if one[0] == 0]
        if kind == "mirror":
            y = np.clip(y + np.sign(x[:, :, 0].sum(1)), -1, 1).astype(np.int64)
            true = [true[0], np.arange(9).reshape(3, 3)[::-1].reshape(-1)]
        if kind in ("rare", "rarer"):
            there = (x[:, 0, 0] == 1) & (x[:, 0, 1] == 1) & ((kind == "rare") | (x[:, 2, 2] == -1))
            y = np.where(there, -y, y)
            true = true[:1]
        return Labelled(x, y, true)

    return make


LABELLED = {
    "digits-flipped": digits("flipped"),
    "digits-both": digits("both"),
    "digits-as-they-are": digits("as-they-are"),
    "digits-one-side": digits("one-side"),
    "digits-two-five": digits("two-five"),
    "boards": boards(""),
    "boards-corner": boards("corner"),
    "boards-mirror": boards("mirror"),
    "boards-rare": boards("rare"),
    "boards-rarer": boards("rarer"),
}
