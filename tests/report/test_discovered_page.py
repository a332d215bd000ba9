"""Moves and the first paragraph in words on the page of a discover run."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from metasym.report.discovered_lead import lead
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


def found(*symmetries: dict[str, Any], **changes: Any) -> dict[str, Any]:
    plain = {"metric": "mse", "mean": 0.02, "ci95": 0.001}
    return {"symmetries": list(symmetries), "held_out": 240, "plain": plain, **changes}


TURNS = {"kind": "continuous", "name": "so(2)", "dimension": 1, "inputs": [0, 2], "violation_upper": 0.0004}
SWAP = {"kind": "finite", "name": "Z_2", "order": 2, "inputs": [1, 3], "violation_upper": 0.002}


def test_the_first_paragraph_says_what_was_found_how_sure_and_what_it_buys() -> None:
    better = {"metric": "mse", "mean": 0.01, "ci95": 0.002}
    assert lead(found(TURNS, SWAP, symmetric=better), ["east", "mass", "north"]) == [
        "The function behind the data keeps its answers under so(2) (continuous, of dimension 1, moving east, north) "
        "and Z_2 (2 moves, moving mass, input 3).",
        "How sure: at most 0.2 % of the variance of y breaks them (95 %).",
        "What it is worth: on 240 held-out examples the mean squared error is 0.0100 ± 0.0020 with the symmetry "
        "built in, and 0.0200 ± 0.0010 for a model without symmetry.",
    ]
    (named, sure) = lead(found(TURNS, family=True), [])
    assert named.startswith("The functions behind the tasks keep their answers under so(2) (")
    assert sure.endswith("at most 0.04 % of the variance of y breaks it (95 %).")


def test_without_a_symmetry_the_first_paragraph_claims_none() -> None:
    (only,) = lead(found(), [])
    assert only.startswith("No symmetry of the function behind the data is claimed")
