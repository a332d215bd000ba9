"""Which lengths and products a space of invariants is made of, in whatever coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from metasym.discovery.algebra.polynomial_invariants import lengths, separated
from metasym.discovery.algebra.vector_fields import Array, orthonormal
from metasym.discovery.models.invariant_features import definite, products


def _turned(forms: Array, seed: int) -> Array:
    """Forms ``[k, 2, 2]`` of two numbers as forms of two vectors of five, in turned coordinates."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(10, 10)))[0]
    return np.array([np.c_[turn.T @ np.kron(f, np.eye(5)) @ turn, np.zeros(10)] for f in forms])


FIRST, SECOND, ACROSS = np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), np.array([[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize("seed", range(5))
def test_mixed_lengths_come_apart(seed):
    mixed = np.random.default_rng(100 + seed).normal(size=(2, 2))
    found = lengths(_turned([a * FIRST + b * SECOND for a, b in mixed], seed))
    wanted = [w / np.linalg.norm(w) for w in _turned([FIRST, SECOND], seed)]
    for one in found:
        assert min(np.abs(one - w).max() for w in wanted) < 1e-9
    assert definite(found) == [0, 1]


@pytest.mark.parametrize("seed", range(5))
def test_an_algebra_found_before_says_which_vectors_are_meant(seed):
    draw = np.random.default_rng(200 + seed)
    mixed = [a * FIRST + b * SECOND + c * ACROSS for a, b, c in draw.normal(size=(3, 3))]
    near = _turned([FIRST, SECOND], seed)
    near[:, :, :10] += 0.02 * (lambda e: e + e.swapaxes(1, 2))(draw.normal(size=(2, 10, 10)) / 10)
    found = separated(_turned(mixed, seed), near)
    assert definite(found) == [0, 1]
    assert products(found, [0, 1]) == {2: (0, 1)}
    span = orthonormal(_turned(mixed, seed)).reshape(3, -1)
    flat = found.reshape(3, -1)
    np.testing.assert_allclose(flat @ span.T @ span, flat, atol=1e-9)  # the same space of forms
    wanted = _turned([FIRST], seed)[0]
    assert np.abs(found[0] - wanted / np.linalg.norm(wanted)).max() < 0.05


def test_forms_that_do_not_commute_stay_as_they_are():
    forms = _turned([FIRST + 0.3 * ACROSS, SECOND, ACROSS], 0)
    np.testing.assert_array_equal(lengths(forms), forms)


def test_a_form_with_a_diagonal_part_is_no_product():
    forms = _turned([FIRST, SECOND, ACROSS + 0.2 * FIRST], 1)
    assert products(forms, [0, 1]) == {}
