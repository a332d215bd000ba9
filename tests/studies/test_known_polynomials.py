"""Judging by the whole algebra of a function: what is true, what is only a part, and what is wrong."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest
from studies.discover import judged
from studies.known_polynomials import inertia_function, lorentz, lorentz_function, true_algebra

Array = npt.NDArray[np.float64]


def claimed(fields: Array, outputs: Array | None = None) -> Any:
    """As ``ms.discover`` gives it back."""
    one = {"kind": "continuous", "name": "any", "generators": fields.tolist()}
    if outputs is not None:
        one["output_generators"] = outputs.tolist()
    return SimpleNamespace(symmetries=[one])


@pytest.mark.parametrize(("kind", "dimension"), [("", 7), ("metric", 4), ("linear", 3), ("near-1", 4)])
def test_the_algebra_of_lorentz_and_of_its_controls(kind: str, dimension: int) -> None:
    assert len(true_algebra(lorentz_function(kind), 16)) == dimension


def test_the_algebra_of_moments_of_inertia_is_gl_3_with_scalings() -> None:
    found = true_algebra(inertia_function("", bodies=2), 8)
    assert len(found) == 9 + 2
    assert len(true_algebra(inertia_function("wind", bodies=2), 8)) < 9


def test_every_generator_has_to_be_true() -> None:
    truth = lorentz()(0)
    boosts = truth.fields
    assert judged(truth, cast(Any, SimpleNamespace(symmetries=[])))[0] == "refused"
    assert judged(truth, claimed(boosts))[0] == "right"
    assert judged(truth, claimed(boosts[:2]))[0] == "part"
    off = boosts.copy()
    off[0, 0, 1] *= 1.3
    verdict, degrees = judged(truth, claimed(off))
    assert verdict == "wrong"
    assert degrees is not None
    assert degrees > 3
    assert judged(truth, claimed(np.concatenate([boosts, np.eye(16, 17)[None]])))[0] == "wrong"
