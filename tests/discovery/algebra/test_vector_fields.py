"""Fields, invariants and algebras against hand formulas."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metasym.discovery.algebra.nearest_algebra import closure_defect, nearest_algebra
from metasym.discovery.algebra.polynomial_invariants import (
    evaluate,
    invariants,
    moved_polynomials,
    rounded,
    stabiliser,
)
from metasym.discovery.algebra.vector_fields import (
    Array,
    affine,
    angle,
    derivative,
    moved_by,
    orthonormal,
    rotations,
    shifts_and_scalings,
    values,
)
from metasym.discovery.models.shared_units import coordinates


def pairs_of_vectors(copies: int, n: int) -> Array:
    """so(n) acting on ``copies`` vectors at once."""
    found = []
    for i in range(n):
        for j in range(i):
            A = np.zeros((n, n))
            A[i, j], A[j, i] = 1, -1
            found.append(np.c_[np.kron(np.eye(copies), A), np.zeros(copies * n)])
    return orthonormal(np.array(found))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), n=st.integers(2, 5))
def test_derivatives_are_those_of_the_polynomials(seed: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    field, x, step = draw.normal(size=(1, n, n + 1)), draw.normal(size=(1, n)), 1e-6
    p = draw.normal(size=(1, n, n + 1))
    p[0, :, :n] = p[0, :, :n] + p[0, :, :n].T
    along = values(field, x)[:, 0]
    slope = (evaluate(p, x + step * along) - evaluate(p, x - step * along))[0, 0] / (2 * step)
    coefficients = derivative(field, p)[0, 0]
    Q, c, constant = coefficients[: n * n].reshape(n, n), coefficients[n * n : -1], coefficients[-1]
    exact = x[0] @ Q @ x[0] + c @ x[0] + constant
    assert slope == pytest.approx(exact, rel=1e-4, abs=1e-6)


def test_the_invariants_of_two_vectors_are_their_products() -> None:
    fields = pairs_of_vectors(2, 4)
    found = invariants(fields)
    assert len(found) == 3
    draw = np.random.default_rng(0)
    x, turn = draw.normal(size=(5, 8)), np.linalg.qr(draw.normal(size=(4, 4)))[0]
    turn[0] *= np.linalg.det(turn)
    np.testing.assert_allclose(evaluate(found, x @ np.kron(np.eye(2), turn).T), evaluate(found, x), atol=1e-9)
    assert len(stabiliser(found, affine(8))) == 6
    assert angle(fields, stabiliser(found, rotations(8))) < 1e-5


def test_products_of_linear_invariants_are_not_counted_again() -> None:
    fields = np.zeros((1, 3, 4))
    fields[0, 0, 1], fields[0, 1, 0] = 1, -1  # turns the first two of three inputs
    found = invariants(fields)
    assert len(found) == 2  # the third input, and the length of the first two


def test_a_noisy_algebra_is_closed_and_round_numbers_are_found() -> None:
    true = pairs_of_vectors(2, 3)
    draw = np.random.default_rng(0)
    noisy = orthonormal(true + 0.05 * draw.normal(size=true.shape) @ np.eye(7))
    assert closure_defect(noisy) > 0.02
    closed = nearest_algebra(noisy)
    assert closed.is_algebra
    assert closed.degrees < 25
    assert closure_defect(closed.fields) < 1e-4
    inside = orthonormal(
        np.einsum("kd,dij->kij", np.eye(15)[:, :], rotations(6))
    )  # all rotations: the noise below stays an algebra of rotations
    small = np.eye(7)
    small[:6, :6] += 0.03 * (np.tril(np.ones((6, 6)), -1) - np.triu(np.ones((6, 6)), 1)) * draw.normal()
    moved = moved_polynomials(invariants(true), small)
    assert angle(true, stabiliser(rounded(moved), inside)) < 1e-5


def test_a_random_space_is_not_taken_for_an_algebra_near_it() -> None:
    draw = np.random.default_rng(1)
    found = nearest_algebra(orthonormal(draw.normal(size=(3, 4, 5))))
    assert not found.is_algebra or found.degrees > 25


def test_fields_return_from_other_coordinates() -> None:
    draw = np.random.default_rng(2)
    x = draw.normal(size=(200, 3)) * [1.0, 1.05, 30.0] + [0.0, 0.01, 100.0]
    place = coordinates(x)
    assert place.scale[0] == place.scale[1] != place.scale[2]
    assert place.centre[0] == place.centre[1] == 0 < place.centre[2]
    turn = np.zeros((1, 3, 4))
    turn[0, 0, 1], turn[0, 1, 0] = 1, -1
    assert angle(place.back(turn), turn) < 1e-5  # equal units: a rotation stays one
    shift = shifts_and_scalings(3, np.zeros(3))[:3]
    assert angle(place.back(shift), shift) < 1e-5
    assert len(moved_by(turn, place.matrix)) == 1
