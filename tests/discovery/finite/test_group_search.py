"""Finite symmetries of one function, and near ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch

import metasym as ms
from metasym.discovery.finite import group_search
from metasym.discovery.finite.group_certificate import Note, Search, generated
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason, LikelierWithout

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]


def ring(x: Array) -> Array:
    """Of four inputs on a ring: D_4."""
    found: Array = (x * np.roll(x, 1, axis=1)).sum(1) + np.tanh(x).sum(1)
    return found


@pytest.mark.parametrize(
    ("function", "n", "name", "order"),
    [
        (lambda x: np.cos(x[:, 0]) * x[:, 1] + x[:, 2] + 0.5 * x[:, 1] ** 2, 3, "Z_2", 2),
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


def test_why_a_larger_group_that_was_looked_at_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    open_ = LikelierWithout("D_4", 0.01)
    judged = group_search.judged

    def undecided(search: Search, moves: list[SignedPermutation], note: Note) -> Claim | AnyDiscoveryReason:
        group = generated(moves)
        return open_ if group is not None and group.order == 8 else judged(search, moves, note)

    monkeypatch.setattr(group_search, "judged", undecided)
    x = np.random.default_rng(1).normal(size=(260, 4))
    found = ms.discover(x, ring(x), continuous=False)
    [claim] = found.verdict.claims
    assert 1 < claim.size < 8
    [candidate] = found.verdict.candidates
    assert open_ in candidate.reasons


@pytest.mark.parametrize(
    "function",
    [
        lambda x: np.sin(x[:, 0] + 0.8 * x[:, 1]) + x[:, 0] ** 2 * x[:, 1] + np.exp(x[:, 2] / 2),
        lambda x: np.sin(x[:, 0] + x[:, 1]) + x[:, 0] * x[:, 1] + 0.1 * x[:, 0] + x[:, 2],
    ],
)
def test_broken_and_near_symmetries_are_refused(function: Function) -> None:
    x = np.random.default_rng(3).normal(size=(200, 3))
    assert ms.discover(x, function(x), continuous=False).symmetries == []


def test_inputs_that_do_not_matter_have_no_symmetry() -> None:
    x = np.random.default_rng(4).normal(size=(150, 4))
    assert ms.discover(x, np.exp(x[:, 0]), continuous=False).symmetries == []


def swapped_outputs(x: Array) -> Array:
    """Inputs 0 and 1 change places with outputs 0 and 1; input 2 is shared."""
    return np.stack([np.sin(x[:, i]) * x[:, 2] + x[:, i] + 0.5 * x[:, 1 - i] ** 2 for i in (0, 1)], axis=1)


def whirl(x: Array) -> Array:
    """A field of the plane that quarter turns keep, and no reflection."""
    a, b = x.T
    return np.stack([a - 2 * b + a**2 * b, b + 2 * a - b**2 * a], axis=1)


@pytest.mark.parametrize(
    ("function", "n", "name", "order"), [(swapped_outputs, 3, "Z_2", 2), (whirl, 2, "Z_4", 4)]
)
def test_groups_that_move_outputs_are_named_and_built_in(
    function: Function, n: int, name: str, order: int
) -> None:
    x = np.random.default_rng(5).normal(size=(220, n))
    found = ms.discover(x, function(x), continuous=False)
    [one] = found.symmetries
    assert (one["name"], one["order"], one["outputs"]) == (name, order, [0, 1])
    points = np.random.default_rng(6).normal(size=(20, n))
    for g in one["generators"]:
        moved, wanted = np.empty_like(points), np.empty((20, 2))
        moved[:, g["inputs"]] = points * g["input_signs"]
        wanted[:, g["outputs"]] = function(points) * g["output_signs"]
        np.testing.assert_allclose(function(moved), wanted, atol=1e-12)  # each is true
        answers = found.model(torch.tensor(points)).numpy()
        wanted[:, g["outputs"]] = answers * g["output_signs"]
        np.testing.assert_allclose(found.model(torch.tensor(moved)).numpy(), wanted, atol=1e-6)
    assert found.symmetric is not None
    assert found.symmetric.error <= found.plain.error


@pytest.mark.parametrize(("function", "n", "left"), [(swapped_outputs, 3, []), (whirl, 2, ["Z_2"])])
def test_outputs_with_different_gains_are_refused(function: Function, n: int, left: list[str]) -> None:
    x = np.random.default_rng(7).normal(size=(160, n))
    found = ms.discover(x, function(x) * np.array([1.0, 1.02]), continuous=False)
    assert [one["name"] for one in found.symmetries] in ([], left)  # -x to -y is left of quarter turns


def test_repeated_outputs_go_with_each_other() -> None:
    x = np.random.default_rng(5).normal(size=(220, 3))
    y = swapped_outputs(x)
    found = ms.discover(x, np.c_[y, -y], continuous=False)
    [one] = found.symmetries
    assert one["outputs"] == [0, 1, 2, 3]
    assert one["generators"][0]["outputs"] == [1, 0, 3, 2]
    answers = found.model(torch.tensor(x))
    torch.testing.assert_close(answers[:, 2:], -answers[:, :2], atol=1e-9, rtol=0)


def test_inputs_of_different_laws_do_not_change_places() -> None:
    x = np.random.default_rng(9).normal(size=(200, 2)) + np.array([0.0, 1.0])
    assert ms.discover(x, np.sin(x).sum(1), continuous=False).symmetries == []


def weighed(heaviest: float) -> Function:
    """The moment of four bodies on a line about the origin; the fourth may count more than the others."""

    def function(x: Array) -> Array:
        found: Array = (x[:, :4] * x[:, 4:] ** 2 * np.array([1, 1, 1, heaviest])).sum(1)
        return found

    return function


@pytest.mark.parametrize(("heaviest", "order"), [(1.0, 24), (1.01, 6)])
def test_a_polynomial_tells_a_near_symmetry_from_a_true_one(heaviest: float, order: int) -> None:
    """S_4 permutes four equal bodies; S_3 is left where one counts a hundredth more, which no kernel would notice."""
    x = np.random.default_rng(8).normal(size=(400, 8))
    x[:, :4] = np.abs(x[:, :4])
    function = weighed(heaviest)
    found = ms.discover(x, function(x), continuous=False)
    claimed = [one for one in found.symmetries if any(i < 4 for i in one["inputs"])]
    points = np.random.default_rng(9).normal(size=(20, 8))
    for g in (g for one in claimed for g in one["generators"]):
        moved = np.empty_like(points)
        moved[:, g["inputs"]] = points * g["input_signs"]
        np.testing.assert_allclose(function(moved), function(points), atol=1e-12)  # each is true
    # Changes of the places' signs are claimed with the permutations: 2^4 of them.
    assert [one["order"] for one in claimed] == [order * 16]
    assert all(1e-7 < one["violation_upper"] < 1e-4 for one in claimed)


def test_many_outputs_are_answered() -> None:
    """Moves of outputs are not tried then; -x would take every sine to its negative."""
    draw = np.random.default_rng(10)
    x = draw.normal(size=(40, 2))
    found = ms.discover(x, np.sin(x @ draw.normal(size=(2, 300))), continuous=False)
    assert found.symmetries == []
