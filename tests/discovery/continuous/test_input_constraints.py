"""Inputs that fulfil an equation leave a function open elsewhere: fields that lead there are no symmetry."""

import numpy as np
import pytest

from metasym.discovery.algebra.vector_fields import affine, moved_inputs, rotations, written
from metasym.discovery.continuous.input_constraints import FEWEST, constraint_left, equations_of
from metasym.verdicts.discovery_reasons import FewValues, LeavesInputs


def _shift(n, i):
    field = np.zeros((1, n, n + 1))
    field[0, i, n] = 1
    return field


def test_on_a_sphere_rotations_stay_and_all_else_leads_away():
    x = np.random.default_rng(0).normal(size=(200, 3))
    sphere = x / np.linalg.norm(x, axis=1)[:, None]
    assert constraint_left("it", rotations(3), sphere) is None
    assert constraint_left("it", _shift(3, 0), sphere) == LeavesInputs("it")
    assert constraint_left("it", affine(3), sphere) == LeavesInputs("it")
    assert constraint_left("it", affine(3), x) is None


def test_fractions_that_sum_to_one_may_be_exchanged_but_not_grow():
    x = np.random.default_rng(1).dirichlet([2, 2, 2], 200)
    exchanged = _shift(3, 0) - _shift(3, 1)
    assert constraint_left("it", exchanged, x) is None
    assert constraint_left("it", _shift(3, 0), x) == LeavesInputs("it")
    monomials, found = equations_of(x)
    # x0 + x1 + x2 - 1, and its product with each input
    assert len(found) == 4
    assert monomials[0] == ()


def test_an_input_with_few_values_does_not_move():
    draw = np.random.default_rng(2)
    x = np.c_[draw.integers(0, FEWEST - 1, 300), draw.integers(0, FEWEST, 300), draw.normal(size=300)].astype(
        float
    )
    assert constraint_left("it", _shift(3, 0), x) == FewValues("it", FEWEST - 1)
    assert constraint_left("it", _shift(3, 1), x) is None
    assert constraint_left("it", _shift(3, 2), x) is None


def test_too_few_examples_tell_no_equation():
    x = np.random.default_rng(3).normal(size=(12, 8))
    assert constraint_left("it", affine(8), x) is None


@pytest.mark.parametrize("unit", [1.0, 1e3, 1e6])
def test_generators_keep_their_digits_whatever_the_units(unit):
    turn = rotations(2, np.array([30 * unit, 0.1]), np.array([unit, 1.0]))
    units = np.array([unit, 1.0])
    largest = np.abs(turn[0, 1, 0]) * unit  # in comparable units
    noisy = turn + 1e-12 * largest * units[:, None] / np.append(units, 1.0)
    back = np.array(written(noisy, units))
    np.testing.assert_allclose(back[0][back[0] != 0], turn[0][turn[0] != 0], rtol=1e-8)
    assert (back[0] != 0).sum() == 4
    assert moved_inputs(noisy, units) == (0, 1)
