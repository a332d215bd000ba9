"""Claims are compared by their generators: names do not help a wrong one."""

from __future__ import annotations

import numpy as np
import pytest
from studies.scoring import elements, score
from studies.true_group import Element, order

N = 6
SHIFT = Element(
    tuple((i + 1) % N for i in range(N)), tuple((i + 1) % N for i in range(N)), (1,) * N, (1,) * N
)


def twice(g: Element) -> Element:
    return Element(
        tuple(g.outputs[i] for i in g.outputs), tuple(g.inputs[i] for i in g.inputs), (1,) * N, (1,) * N
    )


@pytest.fixture
def circulant() -> np.ndarray:
    rows = np.random.default_rng(0).standard_normal((5, N))
    return rows[:, (np.arange(N)[:, None] - np.arange(N)) % N]


def test_outcomes(circulant: np.ndarray) -> None:
    swap = Element((1, 0, 2, 3, 4, 5), (1, 0, 2, 3, 4, 5), (1,) * N, (1,) * N)
    assert score([SHIFT], circulant).outcome == "right"
    assert score([twice(SHIFT)], circulant).outcome == "subgroup"
    assert score([], circulant).outcome == "nothing"
    assert score([SHIFT, swap], circulant).outcome == "wrong"
    mirror = Element(tuple(range(N))[::-1], tuple(range(N))[::-1], (1,) * N, (1,) * N)
    assert score([SHIFT, mirror], circulant).outcome == "wrong"  # transposes a circulant map
    assert score([SHIFT, mirror], circulant + circulant.transpose(0, 2, 1)).outcome == "right"


def test_a_small_breach_is_wrong(circulant: np.ndarray) -> None:
    circulant[0, 0, 0] *= 1 + 1e-3
    found = score([SHIFT], circulant)
    assert found.outcome == "wrong"
    assert 1e-5 < found.true_defect < 1e-2


def test_no_symmetry_and_none_claimed_is_right() -> None:
    maps = np.random.default_rng(1).standard_normal((3, 4, 5))
    assert score([], maps).outcome == "right"
    assert score([], maps, nothing_is_true=True).outcome == "right"
    assert score([SHIFT], np.zeros((2, N, N)), nothing_is_true=True).outcome == "wrong"


def test_order_counts_opposite_signs_once() -> None:
    assert order([]) == 1
    assert order([SHIFT]) == 6
    turned = Element(SHIFT.outputs, SHIFT.inputs, (1,) * 5 + (-1,), (1,) * 5 + (-1,))
    assert order([turned]) == 6  # of order 12, but its sixth power is -1 on both sides


def test_elements_are_read_from_json() -> None:
    group = {
        "name": "S_100",
        "generators": [
            {"outputs": [1, 0], "inputs": [0, 1, 2], "output_signs": [1, -1], "input_signs": [1, 1, -1]}
        ],
    }
    assert elements(group) == [Element((1, 0), (0, 1, 2), (1, -1), (1, 1, -1))]
    assert elements(None) == []
