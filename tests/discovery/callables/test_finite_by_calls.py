"""Finite symmetries of functions that are called, against all signed permutations of few inputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import nn

import metasym as ms
from metasym.groups.stabilizer_chain import StabilizerChain
from metasym.verdicts.claims import Claim
from metasym.verdicts.discovery_reasons import NoneKept
from tests.refusals import refused

Array = npt.NDArray[np.float64]
Function = Callable[[Array], Array]


def draw(n: int) -> Callable[[int, np.random.Generator], Array]:
    return lambda count, generator: generator.normal(size=(count, n))


def keeps(f: Function, images: tuple[int, ...], signs: tuple[int, ...], x: Array) -> bool:
    """Whether some signed permutation of outputs goes with one of inputs, by trying all of them."""
    there = np.empty_like(x)
    there[:, images] = x * np.array(signs)
    before, after = f(x).reshape(len(x), -1), f(there).reshape(len(x), -1)
    m = before.shape[1]
    for out in itertools.permutations(range(m)):
        for flips in itertools.product((1, -1), repeat=m):
            if np.abs(after[:, out] - before * np.array(flips)).max() < 1e-9:
                return True
    return False


def brute_force_order(f: Function, n: int) -> int:
    x = np.random.default_rng(7).normal(size=(12, n))
    return sum(
        keeps(f, images, signs, x)
        for images in itertools.permutations(range(n))
        for signs in itertools.product((1, -1), repeat=n)
    )


FUNCTIONS: dict[str, tuple[int, Function]] = {
    "sphere": (3, lambda x: (x**2).sum(1)),
    "product": (4, lambda x: x.prod(1)),
    "set": (4, lambda x: np.sin(x).sum(1) + x.sum(1) ** 2),
    "two kinds": (4, lambda x: np.stack([x[:, 0] * x[:, 1] + x[:, 2] ** 3, x[:, 3] * x[:, 1]], 1)),
    "ring": (4, lambda x: x**3 + np.roll(x, 1, 1) * np.roll(x, -1, 1)),
    "directed ring": (4, lambda x: np.tanh(x + 0.5 * np.roll(x, 1, 1) + 0.3)),
    "determinant": (4, lambda x: x[:, 0] * x[:, 3] - x[:, 1] * x[:, 2]),
    "odd": (3, lambda x: np.tanh(x @ np.array([[1.0, 0.3], [0.4, -1.2], [0.7, 0.2]]))),
    "none": (4, lambda x: np.exp(0.3 * x @ np.array([1.0, 1.4, 0.7, -0.9])) + x[:, 0] * x[:, 1] ** 2),
    "cross product": (3, lambda x: np.stack([x[:, 1] * x[:, 2], x[:, 2] * x[:, 0], x[:, 0] * x[:, 1]], 1)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_many_elements_as_brute_force_finds(name: str) -> None:
    n, f = FUNCTIONS[name]
    run = ms.discover(f, draw(n), continuous=False, centre=0.0)
    exact = [claim for claim in run.verdict.claims if claim.defect is not None and claim.defect < 1e-9]
    assert math.prod(claim.size for claim in exact) == brute_force_order(f, n)
    x = np.random.default_rng(8).normal(size=(20, n))
    for claim in exact:
        for g in claim.moves:
            np.testing.assert_allclose(
                f(g.on_inputs(x)).reshape(20, -1), g.on_outputs(f(x).reshape(20, -1)), atol=1e-9
            )


def off_by(part: float) -> Function:
    weights = np.array([1, 1, 1, 1, 1, 1 + part])
    return lambda x: (np.sin(x) * weights).sum(1)


def truth(f: Function, claim: Claim) -> float:
    """The worst generator's defect at very many points, relative to what the moved inputs change."""
    draws = np.random.default_rng(9)
    x, other = draws.normal(size=(2, 200_000, 6))
    worst = 0.0
    for g in claim.moves:
        replaced = x.copy()
        replaced[:, list(g.moved_inputs)] = other[:, list(g.moved_inputs)]
        apart = f(g.on_inputs(x)) - g.on_outputs(f(x)[:, None])[:, 0]
        worst = max(worst, float(np.sqrt(2 * (apart**2).mean() / ((f(x) - f(replaced)) ** 2).mean())))
    return worst


@pytest.mark.parametrize("part", [0.01, 0.04, 0.3])
def test_a_coefficient_that_is_off_leaves_a_smaller_exact_group(part: float) -> None:
    f = off_by(part)
    claims = ms.discover(f, draw(6), continuous=False).verdict.claims
    exact, near = claims[0], claims[1:]
    assert exact.size == 2 * math.factorial(5)  # odd, and five inputs that may be exchanged
    assert exact.defect is not None
    assert exact.defect < 1e-9
    if part == 0.3:
        assert not near
    else:
        assert [claim.size for claim in near] == [2 * math.factorial(6)]
        assert truth(f, near[0]) <= near[0].defect_upper
        assert near[0].violation_upper <= 0.003


def test_a_small_part_does_not_hide_behind_a_large_one() -> None:
    """Exchanging the last two inputs changes next to nothing of the function, and half of what they carry."""
    run = ms.discover(
        lambda x: (x[:, :3] ** 2).sum(1) + 1e-4 * (x[:, 3] + 2 * x[:, 4]), draw(5), continuous=False
    )
    for claim in run.verdict.claims:
        assert all(g.inputs[3] == 3 for g in claim.moves)


def test_matrices_turn_on_both_sides() -> None:
    def inertia(x: Array) -> Array:
        c = np.cos(x[:, :, None] - x[:, None, :])
        return np.asarray(
            c * np.array([[2.0, 1, 1], [1, 2, 1], [1, 1, 3]]) + 0.1 * np.einsum("pi,pj->pij", x, x)
        )

    run = ms.discover(inertia, draw(3), matrix_output=True, continuous=False)
    (claim,) = run.verdict.claims
    assert claim.size == 4  # the first two exchanged, all signs changed
    with refused("matrix_output"):
        ms.discover(lambda x: x[:, :2], draw(3), matrix_output=True)


def test_an_input_without_effect_still_turns_its_row_of_a_matrix() -> None:
    """Two like arms of two joints on a turning base: neither the base nor the upper joints change the inertia."""

    def inertia(x: Array) -> Array:
        found = np.zeros((len(x), 5, 5))
        found[:, 0, 0] = 3.0
        for upper, lower in ((1, 2), (3, 4)):
            bend = np.cos(x[:, lower])
            for a, b, value in (
                (0, 0, 3 + 2 * bend),
                (0, upper, 3 + 2 * bend),
                (0, lower, 1 + bend),
                (upper, upper, 3 + 2 * bend),
                (upper, lower, 1 + bend),
                (lower, lower, np.ones(len(x))),
            ):
                found[:, a, b] += value
                found[:, b, a] = found[:, a, b]
        return found

    (claim,) = ms.discover(inertia, draw(5), matrix_output=True, continuous=False).verdict.claims
    assert claim.size == 4  # the arms exchanged, all signs changed
    assert any(g.inputs == (0, 3, 4, 1, 2) for g in claim.moves)


def test_a_matrix_that_is_nearly_symmetric_at_the_centre_already() -> None:
    """Two arms with light wrists; what differs at the centre is more than a wrist changes anywhere."""

    def inertia(q: Array) -> Array:
        found = np.zeros((len(q), 6, 6))
        for upper, elbow, wrist, mass in ((0, 4, 1, 1.0), (3, 2, 5, 1.01)):
            bend = np.cos(q[:, wrist])
            found[:, upper, upper] = mass * (2 + np.cos(q[:, upper])) + 0.02 * bend
            found[:, elbow, elbow] = 0.2 + 0.1 * np.cos(q[:, elbow]) + 0.01 * bend
            found[:, wrist, wrist] = 0.02 + 0.005 * bend
            for i, j in ((upper, wrist), (elbow, wrist), (upper, elbow)):
                found[:, i, j] = found[:, j, i] = 0.02 * bend + 0.01 * np.sin(q[:, i])
        found[:, 0, 3] = found[:, 3, 0] = 0.3 * np.sin(q[:, 0]) * np.sin(q[:, 3]) + 0.2
        return found

    (claim,) = ms.discover(inertia, draw(6), matrix_output=True, continuous=False, centre=0.0).verdict.claims
    (g,) = claim.moves
    assert (claim.size, g.inputs, set(g.input_signs)) == (2, (3, 5, 4, 0, 2, 1), {1})
    x, other = np.random.default_rng(9).normal(size=(2, 100_000, 6))
    apart = inertia(x[:, g.inputs]) - inertia(x)[:, g.inputs][:, :, g.inputs]
    change = inertia(x) - inertia(other)
    assert claim.defect_upper is not None
    assert np.sqrt(2 * (apart**2).sum() / (change**2).sum()) <= claim.defect_upper


def test_a_centre_that_is_given() -> None:
    centre = np.array([1.0, -2.0, 0.5])
    f = lambda x: ((x - centre) ** 2 * np.array([1, 2, 3])).sum(1)  # noqa: E731
    points = np.random.default_rng(0).normal(size=(300, 3)) + centre
    (claim,) = ms.discover(f, points, centre=centre, continuous=False).verdict.claims
    assert claim.size == 8
    assert claim.centre == tuple(centre)


def about(centre: Array) -> dict[str, tuple[Function, int]]:
    """Functions that moves with signs about a centre keep, and how many moves."""
    weights = np.array(
        [[1.0, -0.4, 0.2, 0.7], [0.3, 0.9, -0.5, 0.2], [-0.6, 0.1, 0.8, 0.4], [0.5, 0.2, 0.3, -1.1]]
    )

    def pendulums(x: Array) -> Array:
        q, p = (x - centre)[:, :2], (x - centre)[:, 2:]
        return np.c_[p, -np.sin(q) * [1.0, 1.3] + 0.5 * np.sin(q[:, ::-1] - q)]

    return {
        "a well": (lambda x: (np.cosh(x - centre) * [1.0, 2, 3, 4]).sum(1), 16),
        "an odd network": (lambda x: np.tanh((x - centre) @ weights.T), 2),
        "pendulums": (pendulums, 16),  # velocities are kept apart: their signs and order, and all angles
        "a rest pose of matrices": (
            lambda x: np.cos((x - centre)[:, :, None] - 2 * (x - centre)[:, None, :]).reshape(len(x), -1),
            2 * 24,
        ),
    }


@pytest.mark.parametrize("name", about(np.zeros(4)))
def test_a_centre_is_found(name: str) -> None:
    centre = np.array([0.4, -0.3, 0.2, -0.1])
    f, order = about(centre)[name]
    (claim,) = ms.discover(f, draw(4), continuous=False).verdict.claims
    assert claim.size == order
    if len(f(np.zeros((1, 4))).ravel()) <= 4:
        assert order == brute_force_order(lambda x: f(x + centre), 4)
    np.testing.assert_allclose(claim.centre, centre, atol=1e-6)
    x = np.random.default_rng(5).normal(size=(20, 4))
    for g in claim.moves:
        moved = g.on_inputs(x - claim.centre) + claim.centre
        after, before = (f(v).reshape(20, -1) for v in (moved, x))
        np.testing.assert_allclose(after, g.on_outputs(before), atol=1e-6)


def test_no_centre_is_made_up() -> None:
    a, b = np.random.default_rng(2).normal(size=(2, 4, 5))
    run = ms.discover(lambda x: np.tanh(x @ a + 0.5) @ b.T[:, :2], draw(4), continuous=False)
    assert not run.verdict.claims


def test_a_function_that_does_not_take_every_point() -> None:
    """Signs cannot be changed where logarithms are taken."""
    draws = np.random.default_rng(4)
    (claim,) = ms.discover(
        lambda x: np.log(x).sum(1) + x.prod(1), draws.uniform(0.5, 2, size=(300, 4)), continuous=False
    ).verdict.claims
    assert claim.size == 24
    assert not any(g.signed for g in claim.moves)


def test_noise_is_measured_and_taken_off() -> None:
    draws = np.random.default_rng(3)
    f = lambda x: np.sin(x).sum(1) + x.sum(1) ** 2 + 0.05 * draws.normal(size=len(x))  # noqa: E731
    run = ms.discover(f, draw(5), continuous=False)
    assert any("repeated calls" in note for note in run.notes)
    assert [claim.size for claim in run.verdict.claims] == [120]


def _set_network(seed: int) -> Callable[[Array], Array]:
    """A sum over 8 inputs of one small network, then another one: S_8 keeps it exactly."""
    weights = np.random.default_rng([seed, 8])
    a, b, c, d = (weights.normal(size=shape) for shape in ((1, 6), 6, (6, 6), (6, 2)))
    return lambda x: np.tanh(np.tanh(x[:, :, None] @ a + b).sum(1) @ c / 4) @ d


@pytest.mark.parametrize("noise", [0.003, 0.01, 0.03])
@pytest.mark.parametrize("seed", range(3))
def test_noise_decides_neither_which_moves_hold_nor_that_none_does(noise: float, seed: int) -> None:
    exact, draws = _set_network(seed), np.random.default_rng([seed, 9])

    def f(x: Array) -> Array:
        y = exact(x)
        return y + noise * y.std() * draws.normal(size=y.shape)

    (claim,) = ms.discover(f, draw(8), continuous=False).verdict.claims
    assert claim.size == 40320


@pytest.mark.parametrize("seed", range(4))
def test_a_function_that_keeps_nothing_claims_nothing_under_noise(seed: int) -> None:
    draws = np.random.default_rng([seed, 11])
    weights = np.array([0.6, -1.1, 1.7, -2.3]) * draws.uniform(0.95, 1.05, size=4)

    def f(x: Array) -> Array:
        y = np.exp(0.4 * x @ weights) + np.sin(x[:, 0] * x[:, 1])
        return y + 0.03 * y.std() * draws.normal(size=len(y))

    verdict = ms.discover(f, draw(4), continuous=False).verdict
    assert not verdict.claims
    kinds = {type(reason) for one in verdict.candidates for reason in one.reasons}
    assert not kinds & {NoneKept}  # what seems to change it may do so by noise


def test_a_module_a_sample_and_a_saved_run(tmp_path: object) -> None:
    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 2))

    class SetNetwork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner
            self.dropout = nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.dropout(inner(x[..., None]).sum(1))

    network = SetNetwork()
    run = ms.discover(network, torch.randn(200, 5), continuous=False)
    assert [claim.size for claim in run.verdict.claims] == [120]
    assert run.model is network
    assert network.training
    run.save(f"{tmp_path}/run")
    again = ms.open_run(f"{tmp_path}/run")
    assert [claim.size for claim in again.verdict.claims] == [120]
    with pytest.raises(ms.MetasymError):
        _ = again.model
    with pytest.raises(ms.MetasymError):
        _ = run.plain


def test_the_chain_of_stabilizers_counts_as_sympy_does() -> None:
    from sympy.combinatorics import Permutation, PermutationGroup

    draws = np.random.default_rng(0)
    for degree in (3, 5, 8, 12):
        for count in (1, 2, 3):
            generators = [np.r_[draws.permutation(degree - 1), degree - 1] for _ in range(count)]
            chain = StabilizerChain(degree)
            for g in generators:
                chain.add(g)
            group = PermutationGroup([Permutation(g.tolist()) for g in generators])
            assert chain.order == group.order()
            other = draws.permutation(degree)
            assert (other in chain) == group.contains(Permutation(other.tolist()))
            assert group.contains(Permutation(chain.random().tolist()))


def _with_a_rare_kink(x: Array, at: float) -> Array:
    return np.asarray((x**2).sum(1) + 10 * np.maximum(x[:, 0] - at, 0))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("at", [2.4, 3.0])
def test_a_kink_that_few_points_see_does_not_take_true_moves_with_it(at: float, seed: int) -> None:
    x = np.random.default_rng(seed).normal(size=(1000, 5))
    run = ms.discover(lambda x: _with_a_rare_kink(x, at), x, continuous=False, seed=seed)
    (claim,) = (claim for claim in run.verdict.claims if claim.defect is not None and claim.defect < 1e-9)
    assert claim.size == 2**4 * math.factorial(4)
    assert 0 not in claim.inputs
    assert claim.rows_upper == pytest.approx(1 - 0.05 ** (1 / 500))  # none of 500 points violates it


def test_an_input_that_few_points_see_is_not_said_to_be_without_effect() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3))
    run = ms.discover(lambda x: x[:, 1] * x[:, 2] + 3 * np.maximum(x[:, 0] - 2.2, 0), x, continuous=False)
    assert not any("does not depend" in note for note in run.notes)


def test_outputs_that_change_by_rounding_alone_are_named() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3))
    small = lambda x: 1e8 + 1e-4 * (x[:, 0] + 2 * x[:, 1] - x[:, 2])  # noqa: E731
    run = ms.discover(lambda x: np.stack([x.sum(1) ** 2, small(x)], 1), x, continuous=False)
    assert any("output 1" in note for note in run.notes)
    both = ms.discover(lambda x: np.stack([x.sum(1) ** 2, small(x) - 1e8], 1), x, continuous=False)
    assert both.verdict.claims[0].size < run.verdict.claims[0].size
    assert not any("output 1" in note for note in both.notes)
