"""Symmetries in everyday words."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.verdicts.group_words import tasks_share
from metasym.verdicts.reports import LayerReport


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
        ([[0, 1, 1], [1, 0, 1], [1, 1, 0]], "the 3 inputs may be permuted at will (S_3)."),
        ([[0, 1], [1, 0]], "2 ways to rearrange inputs and outputs together, the group Z_2."),
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
        "The tasks share a symmetry (in Layer 1): 2 ways to rearrange inputs and outputs together, the group Z_2 "
        "(outputs: swaps x and y; inputs: swaps Left and Right)."
    )
