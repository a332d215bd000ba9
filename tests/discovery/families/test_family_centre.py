"""Families whose group is exact: the point about which it acts, constant outputs, inputs of laws it does not keep."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import metasym as ms
from metasym.discovery.families.family_group import TaskModel, keeps_law
from metasym.discovery.models.gaussian_processes import Hyper
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from tests.refusals import refused

Array = npt.NDArray[np.float64]


def both(images: tuple[int, ...], signs: tuple[int, ...] = ()) -> SignedPermutation:
    return SignedPermutation(images, images, signs, signs)


GROUPS = {
    "Z_4": (both((1, 2, 3, 0)),),
    "D_5": (both((1, 2, 3, 4, 0)), both((0, 4, 3, 2, 1))),
    "Z_2": (both((3, 2, 1, 0)),),
    "Z_3 x Z_2": (both((1, 2, 0, 3, 4)), both((0, 1, 2, 4, 3))),
    "signed": (both((1, 2, 3, 4, 0), (1, 1, 1, 1, -1)),),
    "signed half": (both((1, 0, 2, 3, 4), (1, -1, 1, 1, 1)), both((0, 1, 3, 4, 2))),
}


def family(
    name: str, seed: int, *, tasks: int = 30, examples: int = 12, mean: Array | float = 0.0, gain: float = 0.0
) -> tuple[Array, Array, Array]:
    """Random linear maps that a group keeps, without noise; outputs differ by ``gain``."""
    draw = np.random.default_rng([seed, 31])
    generators = GROUPS[name]
    n = len(generators[0].inputs)
    basis = SignedGroup(generators, (n, n)).orbits.basis().numpy()
    maps = (draw.normal(size=(tasks, basis.shape[1])) @ basis.T).reshape(tasks, n, n)
    maps = maps * (1 + gain * draw.normal(size=(n, 1)))
    x = mean + draw.normal(size=(tasks, examples, n))
    return x, x @ maps.transpose(0, 2, 1), maps


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("seed", [0, 1])
def test_an_exact_family_is_claimed(name: str, seed: int) -> None:
    x, y, maps = family(name, seed)
    [one] = ms.discover(x, y).symmetries
    assert (
        one["order"] >= {"Z_4": 4, "D_5": 10, "Z_2": 2, "Z_3 x Z_2": 6, "signed": 5, "signed half": 6}[name]
    )
    for g in one["generators"]:
        moved = np.empty_like(maps)
        moved[:, np.array(g["outputs"])[:, None], g["inputs"]] = maps * np.outer(
            g["output_signs"], g["input_signs"]
        )
        np.testing.assert_allclose(moved, maps, atol=1e-12)


def test_inputs_far_from_zero_in_blocks() -> None:
    """Temperatures and pressures: one centre for all inputs would lie far from both."""
    x, y, _ = family("Z_3 x Z_2", 2, mean=np.array([300.0, 300, 300, 10, 10]))
    [one] = ms.discover(x, y).symmetries
    assert one["order"] == 6


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("gain", [0.05, 0.3])
def test_a_gain_by_position_is_not_claimed(name: str, gain: float) -> None:
    x, y, _ = family(name, 3, gain=gain)
    assert ms.discover(x, y).symmetries == []


def test_the_centre_is_a_point_that_the_group_keeps() -> None:
    centre = np.array([2.0, 4.0, 1.0, 2.0, 6.0])
    model = TaskModel(Hyper(None, 0.0, 0.0), centre, 1.0, 1.0)
    np.testing.assert_allclose(model.about(GROUPS["Z_3 x Z_2"]).centre, [7 / 3, 7 / 3, 7 / 3, 4, 4])
    np.testing.assert_allclose(model.about(GROUPS["signed"]).centre, 0)
    np.testing.assert_allclose(model.about(GROUPS["signed half"]).centre, [0, 0, 3, 3, 3])


def test_a_group_that_takes_inputs_elsewhere_is_not_said_to_be_refuted() -> None:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(60, 12, 5))
    assert keeps_law(x, GROUPS["signed"])
    assert not keeps_law(x + 2, GROUPS["signed"])
    assert keeps_law(x + 2, GROUPS["D_5"])
    assert not keeps_law(x * np.array([1, 1, 1, 1, 2]), GROUPS["D_5"])


@pytest.mark.parametrize("value", [0.0, 0.1])
@pytest.mark.parametrize("outputs", [1, 4])
def test_constant_outputs_are_one_line(value: float, outputs: int) -> None:
    x, _, _ = family("Z_4", 0)
    with refused("discover: x, y", "constants"):
        ms.discover(x, np.full((*x.shape[:2], outputs), value))
    with refused("discover: y", "a constant"):
        ms.discover(x.reshape(-1, 4), np.full((x.shape[0] * x.shape[1], outputs), value))


@pytest.mark.parametrize("value", [0.0, 0.1])
def test_tasks_with_constant_outputs_hide_nothing(value: float) -> None:
    x, y, _ = family("Z_4", 0)
    y[::3] = value
    [one] = ms.discover(x, y).symmetries
    assert one["order"] == 4
