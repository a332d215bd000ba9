"""Symmetries in everyday words."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.actions import found_action
from metasym.verdicts.group_words import found_words, group_words, tasks_share
from metasym.verdicts.reports import LayerReport
from metasym.verdicts.symmetry_report import SymmetryReport


def read(tied: list[list[int]]) -> LayerReport:
    """The report on a layer whose weights are tied as these classes say."""
    classes = np.array(tied)
    model = torch.nn.Linear(*classes.shape[::-1], bias=False)
    count = int(classes.max()) + 1
    g = torch.Generator().manual_seed(0)
    ms.reparameterize(model, "dense", filter_size=count, std=1.0, generator=g)
    with torch.no_grad():
        ms.symmetries(model)[""].U.copy_(torch.eye(count)[torch.from_numpy(classes.ravel())])
    return ms.inspect(model)[0]


@pytest.mark.parametrize(
    ("tied", "words"),
    [
        ([[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]], "like a ring that may be turned (Z_4)."),
        (
            [[0, 1, 2, 1], [1, 0, 1, 2], [2, 1, 0, 1], [1, 2, 1, 0]],
            "like a ring that may be turned and reflected (D_4).",
        ),
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "the 3 inputs are interchangeable (S_3)."),
        ([[0, 1], [1, 0]], "the 2 inputs may be swapped (Z_2)."),
    ],
)
def test_what_tasks_share(tied: list[list[int]], words: str) -> None:
    assert tasks_share(read(tied)).endswith(words)


def test_the_order_around_a_relabelled_ring_is_told() -> None:
    classes = np.array([[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]])
    moved = classes[[0, 2, 1, 3]][:, [1, 0, 2, 3]]
    told = tasks_share(read(moved.tolist()))
    inputs, outputs = (
        [int(i) for i in part.split(", ")]
        for part in told.split("the inputs are ")[1].rstrip(".").split(" and the outputs ")
    )
    # Turning both by one place in that order keeps the classes.
    turn = [dict(zip(ring, ring[1:] + ring[:1], strict=True)) for ring in (outputs, inputs)]
    for o in range(4):
        for i in range(4):
            assert moved[turn[0][o], turn[1][i]] == moved[o, i]
    assert "Around" not in tasks_share(read(classes.tolist()))


def test_one_move_is_told_in_the_users_names_as_they_are_spelled() -> None:
    layer = dataclasses.replace(
        read([[0, 1], [1, 0]]), input_names=("Left", "Right"), output_names=("x", "y")
    )
    assert tasks_share(layer, "Layer 1") == (
        "The tasks share a symmetry (in Layer 1): Left and Right may be swapped, along with x and y (Z_2)."
    )


TORQUES = tuple(f"torque_{i}" for i in range(6))


def test_a_wreath_product_is_a_sentence_about_the_users_own_inputs() -> None:
    """Order 72: six torques in two blocks. It was 72 ways to rearrange, and 22 elements without a name."""
    block = np.full((3, 3), 2)
    np.fill_diagonal(block, 1)
    tied = np.block([[block, np.zeros((3, 3), int)], [np.zeros((3, 3), int), block]])
    layer = dataclasses.replace(read(tied.tolist()), input_names=TORQUES)
    words = found_words(layer)
    assert layer.group is not None
    assert (layer.group.name, layer.group.order) == ("S_3 wr Z_2", 72)
    assert words == (
        "torque_0, torque_1 and torque_2 are interchangeable; torque_3, torque_4 and torque_5 too; the two blocks "
        "may be swapped (S_3 wr Z_2, order 72)"
    )
    assert SymmetryReport((layer,)).to_json()["layers"][0]["group"]["words"] == words


@pytest.mark.parametrize("names", [(), TORQUES])
def test_names_are_used_wherever_they_are_given(names: tuple[str, ...]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        moves = tuple(
            SignedPermutation.of(rng.permutation(2), rng.permutation(6)) for _ in range(rng.integers(1, 3))
        )
        group = SignedGroup(moves, (2, 6))
        if group.order == 1:
            continue
        words = group_words(group, names, ("left", "right") if names else ())
        moved = {j for g in moves for j in g.moved_inputs}
        if names and len(moved) < 4:
            assert all(names[j] in words for j in moved)
        assert ("inputs" in words) <= (not names)


def test_elements_that_move_only_inputs_are_named_by_them() -> None:
    """S_3 on three inputs of an invariant function: six names, one of them that of the identity."""
    moves = [SignedPermutation((0,), (1, 0, 2)), SignedPermutation((0,), (0, 2, 1))]
    action = found_action("S_3", moves)
    assert len(set(action.element_names)) == 6
