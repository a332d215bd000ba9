"""Signed permutations against the matrices that they stand for."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from metasym.groups.generators import TooLargeError
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation, cycle_notation, cycles
from tests.refusals import refused


@st.composite
def elements(draw: st.DrawFn, m: int = 2, n: int = 3) -> SignedPermutation:
    sides = [tuple(draw(st.permutations(range(size)))) for size in (m, n)]
    signs = [tuple(draw(st.lists(st.sampled_from((1, -1)), min_size=k, max_size=k))) for k in (m, n)]
    return SignedPermutation(sides[0], sides[1], signs[0], signs[1])


def matrices(g: SignedPermutation) -> tuple[np.ndarray, np.ndarray]:
    """``(g y) = out @ y`` and ``(g x) = into @ x``, entry by entry from the definition."""
    found = []
    for images, signs in ((g.outputs, g.output_signs), (g.inputs, g.input_signs)):
        matrix = np.zeros((len(images), len(images)))
        for i, (image, sign) in enumerate(zip(images, signs, strict=True)):
            matrix[image, i] = sign
        found.append(matrix)
    return found[0], found[1]


@given(elements(), elements())
def test_it_acts_composes_and_is_undone_as_its_matrices(a: SignedPermutation, b: SignedPermutation) -> None:
    rng = np.random.default_rng(0)
    x, y, W = rng.normal(size=(4, 3)), rng.normal(size=(4, 2)), rng.normal(size=(2, 3))
    out, into = matrices(a)
    np.testing.assert_allclose(a.on_inputs(x), x @ into.T)
    np.testing.assert_allclose(a.on_outputs(y), y @ out.T)
    np.testing.assert_allclose(a.on_weights(torch.from_numpy(W)).numpy(), out @ W @ into.T)
    for side, product in zip(
        matrices(a @ b), (p @ q for p, q in zip(matrices(a), matrices(b), strict=True)), strict=True
    ):
        np.testing.assert_array_equal(side, product)
    assert (a @ a.inverse).is_identity
    assert (a.inverse @ a) == SignedPermutation.identity(2, 3)
    assert SignedPermutation.from_doubled(a.doubled, 2) == a
    assert SignedPermutation(**{k: tuple(v) for k, v in a.as_dict().items()}) == a


@given(elements())
def test_the_order_is_the_first_power_that_moves_nothing(g: SignedPermutation) -> None:
    power, count = g, 1
    while not power.is_identity:
        power, count = power @ g, count + 1
    assert g.order == count


@given(elements())
def test_what_it_says_of_itself(g: SignedPermutation) -> None:
    out, into = matrices(g)
    assert g.signed == bool((out < 0).any() or (into < 0).any())
    assert g.permutes == (not (np.array_equal(abs(out), np.eye(2)) and np.array_equal(abs(into), np.eye(3))))
    assert g.moved_inputs == tuple(i for i in range(3) if into[i, i] != 1)
    assert g.moved_outputs == tuple(i for i in range(2) if out[i, i] != 1)


def test_the_transform_is_a_label_and_not_part_of_the_element() -> None:
    plain, named = SignedPermutation((1, 0), (0,)), SignedPermutation((1, 0), (0,), transform="a flip")
    assert plain == named
    assert len({plain, named}) == 1


def test_what_is_no_permutation_is_refused() -> None:
    for wrong, about, found in (
        (((0, 0), (0, 1)), "outputs", (0, 0)),
        (((0, 1), (1, 2)), "inputs", (1, 2)),
        (((0, 1), (0, 1), (1, 2)), "output_signs", (1, 2)),
        (((0, 1), (0, 1), (), (1,)), "input_signs", (1,)),
    ):
        with refused(about, found):
            SignedPermutation(*wrong)
    with refused("element", (1, 2)):
        SignedPermutation((0,), (0,)) @ SignedPermutation((0,), (0, 1))


def test_cycles_are_written_with_the_users_names_and_signs() -> None:
    assert list(cycles([1, 2, 0, 3])) == [(0, 1, 2), (3,)]
    assert cycle_notation([1, 2, 0, 3, 5, 4]) == "(0 1 2)(4 5)"
    assert cycle_notation([1, 0, 2], [1, -1, -1]) == "(0 −1)(−2)"
    assert cycle_notation([1, 0], names=("left", "right")) == "(left → right)"
    assert len(cycle_notation([*range(1, 200), 0], most=180)) <= 180
    swap = SignedPermutation((1, 0), (0, 2, 1))
    both = swap.in_cycles(("a", "b"), ("c", "d", "e"))
    assert "(a → b)" in both
    assert "(d → e)" in both
    assert "c" not in both.replace("outputs", "").replace("inputs", "")


@settings(max_examples=25, deadline=None)
@given(elements(), elements())
def test_a_group_is_closed_and_its_averages_are_those_over_all_elements(
    a: SignedPermutation, b: SignedPermutation
) -> None:
    group = SignedGroup((a, b), (2, 3))
    listed = group.elements
    assert listed[0].is_identity
    assert {g @ h for g in listed for h in (a, b)} == set(listed)
    assert group.order == len(listed) == len(set(listed))
    assert group.has_at_most(len(listed))
    assert not SignedGroup((a, b), (2, 3)).has_at_most(len(listed) - 1)
    x, y = np.arange(1.0, 4.0), np.array([0.5, -2.0])
    np.testing.assert_allclose(
        group.average_inputs(x), np.mean([g.on_inputs(x) for g in listed], axis=0), atol=1e-12
    )
    np.testing.assert_allclose(
        group.average_outputs(y), np.mean([g.on_outputs(y) for g in listed], axis=0), atol=1e-12
    )
    W = torch.randn(2, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    mean = torch.stack([g.on_weights(W) for g in listed]).mean(0)
    torch.testing.assert_close(group.orbits.average(W.flatten()).reshape(2, 3), mean)


def test_up_to_sign_an_element_and_its_negative_are_one() -> None:
    minus = SignedPermutation((0, 1), (0, 1, 2), (-1, -1), (-1, -1, -1))
    swap = SignedPermutation((1, 0), (0, 1, 2))
    assert SignedGroup((minus, swap), (2, 3)).order == 4
    assert SignedGroup((minus, swap), (2, 3), up_to_sign=True).order == 2
    assert len(SignedGroup((minus, swap), (2, 3), up_to_sign=True).elements) == 2


def test_names_orders_and_limits() -> None:
    still = (0,)
    ring = [(1, 2, 3, 0), (3, 2, 1, 0)]
    group = SignedGroup(tuple(SignedPermutation(still, images) for images in ring), (1, 4))
    assert (group.name, group.order, group.keeps_outputs, group.transitive) == ("D_4", 8, True, (True, True))
    turn, swap = (*range(1, 30), 0), (1, 0, *range(2, 30))
    large = SignedGroup((SignedPermutation(still, turn), SignedPermutation(still, swap)), (1, 30))
    assert not large.has_at_most(1000)
    assert (large.name, large.order) == ("S_30", math.factorial(30))
    assert len(large.first_elements(50)) == 50
    with refused("elements", kind=TooLargeError):
        large.elements  # noqa: B018
    with refused("generators", (1, 1)):
        SignedGroup((SignedPermutation((0,), (0,)),), (2, 2))
    assert (SignedGroup((), (2, 2)).name, SignedGroup((), (2, 2)).order) == ("Z_1", 1)
