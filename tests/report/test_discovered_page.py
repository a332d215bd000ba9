"""Moves in words on the page of a discover run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from metasym.report.discovered_page import _move


def test_moves_are_told_with_names_cycles_and_signs() -> None:
    g = {
        "inputs": [1, 0, 2, 4, 5, 3],
        "input_signs": [1, 1, -1, 1, 1, 1],
        "outputs": [1, 0],
        "output_signs": [-1, 1],
    }
    names = ["mass", "load"]
    assert _move(g, names, []) == (
        "inputs: mass ↔ load, x2 → -x2, x3 → x4 → x5 → x3; outputs: y0 → -y1 → -y0"
    )


def test_many_cycles_are_cut_short() -> None:
    images = [i ^ 1 for i in range(64)]
    assert _move({"inputs": images, "input_signs": [1] * 64}, [], []).endswith("and 16 more")


@given(st.lists(st.integers(0, 4), max_size=5), st.lists(st.sampled_from((1, -1)), max_size=5))
def test_whatever_a_file_holds_is_words(images: list[int], signs: list[int]) -> None:
    assert isinstance(_move({"inputs": images, "input_signs": signs}, [], []), str)
