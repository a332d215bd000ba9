"""Signed permutations that keep polynomials, compared with all of them tried one by one."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import numpy.typing as npt
import pytest

from metasym.discovery.finite.group_certificate import generated
from metasym.discovery.finite.term_automorphisms import kept_by
from metasym.discovery.models.matching_pursuit import Term, degree_for, sparse_polynomial
from metasym.groups.signed_permutations import SignedPermutation

Array = npt.NDArray[np.float64]


def evaluated(terms: list[Term], x: Array, m: int) -> Array:
    found = np.zeros((len(x), m))
    for term in terms:
        found[:, term.output] += term.value * x[:, list(term.inputs)].prod(1)
    return found


def every_move(n: int, m: int) -> list[SignedPermutation]:
    return [
        SignedPermutation(q, p, t, s)
        for p in permutations(range(n))
        for s in product((1, -1), repeat=n)
        for q in permutations(range(m))
        for t in product((1, -1), repeat=m)
    ]


def term(output: int, inputs: tuple[int, ...], value: float) -> Term:
    return Term(output, inputs, value, 1e-9)


POLYNOMIALS = [
    # Two outputs that change places with two inputs.
    [
        term(0, (0, 2), 1.0),
        term(1, (1, 2), 1.0),
        term(0, (0, 0), 0.5),
        term(1, (1, 1), 0.5),
        term(0, (2,), 2.0),
        term(1, (2,), 2.0),
    ],
    # A field of the plane with rotations by quarters and no reflection, beside a third input.
    [
        term(0, (0, 2), 1.0),
        term(0, (1,), -2.0),
        term(1, (1, 2), 1.0),
        term(1, (0,), 2.0),
        term(0, (0, 0, 1), 0.7),
        term(1, (0, 1, 1), -0.7),
    ],
    # Nothing but the identity.
    [
        term(0, (0,), 1.0),
        term(0, (1,), 2.0),
        term(0, (2,), 3.0),
        term(0, (0, 1), 1.5),
        term(0, (0, 0), 0.7),
        term(1, (1, 1), 0.9),
        term(1, (0,), 0.3),
        term(1, (2, 2), 0.4),
    ],
]


@pytest.mark.parametrize("terms", POLYNOMIALS)
def test_all_moves_that_keep_a_polynomial_are_generated(terms: list[Term]) -> None:
    x = np.random.default_rng(0).normal(size=(12, 3))
    y = evaluated(terms, x, 2)
    true = {
        g
        for g in every_move(3, 2)
        if np.abs(evaluated(terms, g.on_inputs(x), 2) - g.on_outputs(y)).max() < 1e-9
    }
    found = kept_by(terms, [0, 0, 0], 2)
    exact = [
        g for some in found for g in some if g in true
    ]  # with weak terms left out others are suggested too
    group = generated(exact) if exact else None
    assert (1 if group is None else len(group.elements)) == len(true)


def test_inputs_of_different_kinds_do_not_change_places() -> None:
    terms = [term(0, (0,), 1.0), term(0, (1,), 1.0)]
    assert any(g.permutes for some in kept_by(terms, [0, 0], 1) for g in some)
    assert not any(g.permutes for some in kept_by(terms, [0, 1], 1) for g in some)


def test_a_sparse_polynomial_is_recovered_from_noisy_examples() -> None:
    draw = np.random.default_rng(1)
    x = draw.normal(size=(300, 8))
    planted = [term(0, (0, 1, 2), 1.0), term(0, (3,), -0.8), term(1, (4, 4), 0.6), term(1, (0, 7), -1.2)]
    y = evaluated(planted, x, 2) + 0.05 * draw.normal(size=(300, 2))
    found = sparse_polynomial(x, y)
    assert {(t.output, t.inputs) for t in found} == {(t.output, t.inputs) for t in planted}
    for one in found:
        [true] = [t for t in planted if (t.output, t.inputs) == (one.output, one.inputs)]
        assert abs(one.value - true.value) < 5 * one.error + 1e-3


def test_noise_has_hardly_a_term() -> None:
    draw = np.random.default_rng(2)
    assert len(sparse_polynomial(draw.normal(size=(200, 6)), draw.normal(size=(200, 3)))) <= 1


def test_the_degree_falls_with_the_number_of_inputs() -> None:
    assert [degree_for(n) for n in (3, 24, 40, 1000, 5000)] == [3, 3, 2, 1, 0]
