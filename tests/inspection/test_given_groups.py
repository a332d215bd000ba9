"""A group as a user gives it, as signed permutations of the outputs and inputs of their data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import metasym as ms
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.given_groups import GivenGroup, hypothesis

TURN = SignedPermutation((1, 2, 3, 0), (1, 2, 3, 0))


@pytest.mark.parametrize(
    ("given", "order"),
    [
        ("shifts", 4),
        ("dihedral", 8),
        ("reflection", 2),
        ("permutations", 24),
        ("grid:2x2", 4),
        ("rotations:4", 4),
        ("rotations-flips:4", 8),
        (ms.groups.cyclic(4), 4),
        (ms.groups.symmetric(4), 24),
        (ms.groups.quaternion(), 8),
        (SignedGroup((TURN,), (4, 4)), 4),
        ([TURN, TURN @ TURN], 4),
    ],
)
def test_every_way_to_give_a_group_has_its_order(given: GivenGroup, order: int) -> None:
    found = hypothesis(given, 4, 4)
    assert found.group.order == order
    assert not found.invariance


def test_signs_of_a_file_are_kept(tmp_path: Path) -> None:
    flip = tmp_path / "flip.json"
    flip.write_text(json.dumps({"outputs": [[[-1.0]]], "inputs": [[[0.0, -1.0], [1.0, 0.0]]]}))
    found = hypothesis(str(flip), 1, 2).group
    assert found.order == 4
    (element,) = found.generators
    assert (element.inputs, element.input_signs, element.output_signs) == ((1, 0), (1, -1), (-1,))


@pytest.mark.parametrize("given", ["permutations", ms.groups.symmetric(3)])
def test_a_group_that_cannot_act_on_the_outputs_leaves_them(given: GivenGroup) -> None:
    found = hypothesis(given, 1, 3)
    assert found.invariance
    assert found.group.order == 6
    assert found.group.keeps_outputs


def test_matrices_that_mix_inputs_are_refused() -> None:
    angle = torch.tensor(torch.pi / 3, dtype=torch.float64)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    with pytest.raises(ms.MetasymError) as refused:
        hypothesis(ms.groups.from_generators([turn]), 2, 2)
    assert refused.value.about == "group"


@pytest.mark.parametrize("given", [ms.groups.cyclic(5), [TURN], "grid:3x3", "nonsense"])
def test_a_group_of_other_sizes_is_refused(given: GivenGroup) -> None:
    with pytest.raises(ms.MetasymError):
        hypothesis(given, 6, 6)
