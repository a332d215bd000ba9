"""Finite symmetries of one function, and near ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

import metasym as ms

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]


def ring(x: Array) -> Array:
    """Of four inputs on a ring: D_4."""
    found: Array = (x * np.roll(x, 1, axis=1)).sum(1) + np.tanh(x).sum(1)
    return found


@pytest.mark.parametrize(
    ("function", "n", "name", "order"),
    [
        (lambda x: np.cos(x[:, 0]) * x[:, 1] + x[:, 2], 3, "Z_2", 2),
        (ring, 4, "D_4", 8),
    ],
)
def test_groups_are_named_and_averaged_over(function: Function, n: int, name: str, order: int) -> None:
    x = np.random.default_rng(1).normal(size=(260, n))
    found = ms.discover(x, function(x), continuous=False)
    [one] = found.symmetries
    assert (one["kind"], one["name"], one["order"]) == ("finite", name, order)
    points = np.random.default_rng(2).normal(size=(20, n))
    for g in one["generators"]:
        moved = np.empty_like(points)
        moved[:, g["inputs"]] = points * g["input_signs"]
        np.testing.assert_allclose(function(moved), function(points), atol=1e-12)  # each is true
        torch.testing.assert_close(
            found.model(torch.tensor(moved)), found.model(torch.tensor(points)), atol=1e-6, rtol=0
        )


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sin(x[:, 0] + 0.8 * x[:, 1]) + x[:, 0] ** 2 * x[:, 1] + x[:, 2],
        lambda x: np.sin(x[:, 0] + x[:, 1]) + x[:, 0] * x[:, 1] + 0.1 * x[:, 0] + x[:, 2],
    ],
)
def test_broken_and_near_symmetries_are_refused(function: Function) -> None:
    x = np.random.default_rng(3).normal(size=(200, 3))
    assert ms.discover(x, function(x), continuous=False).symmetries == []


def test_inputs_that_do_not_matter_have_no_symmetry() -> None:
    x = np.random.default_rng(4).normal(size=(150, 4))
    assert ms.discover(x, np.exp(x[:, 0]), continuous=False).symmetries == []
