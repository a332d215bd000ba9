"""Signed permutations of inputs and outputs as a group."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from metasym.discovery.moves import Move, generated, move


@st.composite
def moves(draw: st.DrawFn) -> Move:
    sides = [draw(st.permutations(range(size))) for size in (3, 2)]
    signs = [
        draw(st.lists(st.sampled_from((1, -1)), min_size=len(side), max_size=len(side))) for side in sides
    ]
    return move(sides[0], signs[0], sides[1], signs[1])


@given(moves())
def test_what_a_move_did_is_taken_back(g: Move) -> None:
    y = np.arange(6.0).reshape(3, 2) + 1
    np.testing.assert_array_equal(g.back(g.outer(y)), y)


@settings(max_examples=25, deadline=None)
@given(moves(), moves())
def test_a_group_is_closed_and_its_settled_numbers_stay(a: Move, b: Move) -> None:
    group = generated([a, b])
    assert group is not None
    x, y = np.arange(1.0, 4.0)[None], np.arange(1.0, 3.0)[None]
    images = {(*g.inner(x)[0], *g.outer(y)[0]) for g in group.elements}
    assert len(images) == len(group.elements)
    for g in (a, b):  # multiplying by a generator permutes the elements
        assert {
            (*g.inner(np.array([one[:3]]))[0], *g.outer(np.array([one[3:]]))[0]) for one in images
        } == images
    settled_x, settled_y = group.settled(x[0], y[0])
    for g in group.elements:
        np.testing.assert_allclose(g.inner(settled_x[None])[0], settled_x, atol=1e-12)
        np.testing.assert_allclose(g.outer(settled_y[None])[0], settled_y, atol=1e-12)


def test_names_and_limits() -> None:
    group = generated([move([1, 2, 3, 0], None, [0]), move([3, 2, 1, 0], None, [0])])
    assert group is not None
    assert (group.name, len(group.elements), group.keeps_outputs) == ("D_4", 8, True)
    assert generated([move(np.roll(np.arange(30), 1)), move([1, 0, *range(2, 30)])]) is None
