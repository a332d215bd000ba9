"""Labelled data whose symmetries are known are what they are said to be."""

from __future__ import annotations

import numpy as np
import pytest
from studies.classified import LABELLED


@pytest.mark.parametrize("name", ["boards", "boards-corner", "boards-mirror", "boards-rare", "boards-rarer"])
def test_boards_keep_exactly_the_moves_that_are_called_true(name: str) -> None:
    pytest.importorskip("pyspiel")
    found = LABELLED[name](0)
    labels = {tuple(x.reshape(-1)): int(y) for x, y in zip(found.x, found.y, strict=True)}
    grid = np.arange(9).reshape(3, 3)
    square = [np.rot90(g, k).reshape(-1) for g in (grid, grid.T) for k in range(4)]
    true = {tuple(one) for one in found.true}
    for g in square:
        moved = {board: tuple(np.array(board)[g]) for board in labels}
        differ = [labels[there] != labels[here] for here, there in moved.items() if there in labels]
        assert len(differ) > 300
        assert any(differ) == (tuple(g) not in true)
    if name == "boards":
        assert np.mean(found.y == 1) > np.mean(found.y == -1) > 0.2  # the first player has the advantage


def test_digits_are_flipped_as_often_as_not() -> None:
    found = LABELLED["digits-flipped"](0)
    left, right = found.x[:, :, :4].mean(), found.x[:, :, 4:].mean()
    assert abs(left - right) < 0.05 * left
    assert set(found.y.tolist()) == set(range(10))
    assert len(set(LABELLED["digits-one-side"](0).y.tolist())) > 10


def test_a_flipped_two_counts_as_a_five() -> None:
    plain, changed = LABELLED["digits-flipped"](0), LABELLED["digits-two-five"](0)
    np.testing.assert_array_equal(plain.x, changed.x)
    differ = plain.y != changed.y
    assert set(plain.y[differ].tolist()) == {2}
    assert set(changed.y[differ].tolist()) == {5}
    assert 0.3 < differ[plain.y == 2].mean() < 0.7
