"""Functions that are defined on a part of space: what keeps that part is found, and nothing fails beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import metasym as ms

DRAW = np.random.default_rng(0)
DIRECTIONS = DRAW.normal(size=(400, 3))
BALL = (
    0.95 * DIRECTIONS / np.linalg.norm(DIRECTIONS, axis=1)[:, None] * DRAW.uniform(0, 1, (400, 1)) ** (1 / 3)
)
SIMPLEX = DRAW.dirichlet(np.ones(4), 400)


def depth(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.sqrt(1 - (x**2).sum(1))  # NaN outside the ball


def uneven_depth(x: Any) -> Any:
    return depth(x) + 0.2 * x[:, 0]


def entropy(x: Any) -> Any:
    if np.abs(x.sum(1) - 1).max() > 1e-6 or x.min() < 0:
        raise ValueError("no distribution")
    return -(x * np.log(x + 1e-12)).sum(1)


def test_in_a_ball() -> None:
    run = ms.discover(depth, BALL)
    assert [(claim.name, claim.size) for claim in run.verdict.claims if claim.kind == "continuous"] == [
        ("so(3)", 3)
    ]
    assert [claim.size for claim in run.verdict.claims if claim.kind == "finite"] == [48]
    # Only exchanges and signs of the last two inputs are left.
    broken = ms.discover(uneven_depth, BALL, continuous=False)
    assert [claim.size for claim in broken.verdict.claims] == [8]


def test_on_a_simplex() -> None:
    run = ms.discover(entropy, SIMPLEX)
    assert [(claim.kind, claim.size) for claim in run.verdict.claims] == [("finite", 24)]
    assert "no_points_beside" in [reason["kind"] for refused in run.refused for reason in refused["reasons"]]
    assert any("mix the inputs of two" in note for note in run.notes)


def test_a_small_part_does_not_hide_on_a_ball() -> None:
    """Inputs 2 and 3 weigh a thousandth: their exchange is refuted on their own scale, which needs shorter ways."""
    weights = np.array([1, 1, 1e-3, 3e-3])
    found = ms.discover(lambda x: depth(x * weights), BALL_4, continuous=False)
    for claim in found.verdict.claims:
        for g in claim.moves:
            assert g.inputs[2] == 2


BALL_4 = DRAW.uniform(-0.7, 0.7, (400, 4))


def test_a_function_that_ends_the_program_is_one_line() -> None:
    def ends(x: Any) -> Any:
        raise SystemExit(3)

    with pytest.raises(ms.MetasymError) as caught:
        ms.discover(ends, BALL)
    assert (caught.value.about, caught.value.found) == ("f", "SystemExit")
