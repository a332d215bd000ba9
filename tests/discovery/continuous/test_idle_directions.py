"""Translations, and scalings of functions that are no polynomials."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from studies.function_attacks import judge, make

import metasym as ms
from metasym.discovery.algebra.polynomial_invariants import stabiliser
from metasym.discovery.algebra.vector_fields import affine
from metasym.discovery.continuous.idle_directions import along, apart

Array = npt.NDArray[np.float64]


def test_a_translation_is_claimed() -> None:
    made = make("translation", 0)
    run = ms.discover(made.x, made.y, finite=False)
    [claim] = run.symmetries
    assert (claim["name"], claim["dimension"], claim["inputs"]) == ("R (a translation)", 1, [0, 1])
    np.testing.assert_allclose(claim["generators"][0][0][-1], claim["generators"][0][1][-1], rtol=0.02)
    assert judge(made, run)["outcome"] == "claimed"


def test_an_input_that_does_not_matter_is_no_translation() -> None:
    x = np.random.default_rng(0).normal(size=(150, 3))
    run = ms.discover(x, np.exp(x[:, 0]) + np.sin(2 * x[:, 1]), finite=False)
    assert run.symmetries == []


def test_a_scaling_of_a_ratio_is_claimed_and_built_in() -> None:
    made = make("scaling-ratio", 0)
    run = ms.discover(made.x, made.y, finite=False)
    [claim] = run.symmetries
    assert (claim["name"], claim["inputs"]) == ("R (a scaling)", [0, 1])
    field = np.array(claim["generators"][0])
    np.testing.assert_allclose(field[0, 0], field[1, 1], rtol=0.02)
    assert np.count_nonzero(np.abs(field) > 1e-3) == 2
    assert judge(made, run)["outcome"] == "claimed"
    points = torch.tensor(made.law(np.random.default_rng(1), 20))
    scaled = points * torch.tensor([1.2, 1.2, 1.0])
    torch.testing.assert_close(run.model(scaled), run.model(points), atol=0.02, rtol=0)
    assert run.symmetric.relative < run.plain.relative


def test_fields_along_a_direction_are_one_translation() -> None:
    polynomials = np.zeros((2, 3, 4))
    polynomials[0, 0, 3], polynomials[0, 1, 3] = 1, -1  # x0 - x1
    polynomials[1, 2, 2] = 1  # x2^2
    kept = stabiliser(polynomials, affine(3))
    assert len(kept) == 4  # whatever flows along (1, 1, 0), at affine speeds
    directions, others = apart(kept, polynomials)
    np.testing.assert_allclose(np.abs(directions), [[0.5**0.5, 0.5**0.5, 0]], atol=1e-9)
    assert len(others) == 0
    assert along(directions).shape == (1, 3, 4)
