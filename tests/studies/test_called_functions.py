"""The study's functions have the groups that it says they have, by other means."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from studies.called_functions import Case, arms, burgers, cases, determinant

import metasym as ms
from metasym.verdicts.discovery_reasons import RefutedByCalls

CASES = cases(1)


def test_there_are_enough_of_them() -> None:
    assert len([case for case in CASES if case.control is None]) >= 40
    for off in (0.3, 0.05, 0.01):
        assert len([case for case in CASES if case.control == off]) >= 14
    assert all(8 <= np.prod(case.shape) <= 64 for case in CASES)


@pytest.mark.parametrize("case", [c for c in CASES if c.control == 0.3], ids=lambda c: c.name)
def test_a_control_has_a_part_of_the_group(case: Case) -> None:
    whole = [c.order for c in CASES if c.control is None and c.name == case.name]
    assert all(order % case.order == 0 and order > case.order for order in whole)


@pytest.mark.parametrize(("off", "expected"), [(0.0, 64), (0.3, 32)])
def test_determinants_of_two_by_two(off: float, expected: int) -> None:
    """Of all signed permutations of four entries; the two products may be exchanged where they weigh alike."""
    f, x = determinant(2, off), np.random.default_rng(0).normal(size=(9, 4))
    y = f(x)
    kept = 0
    for images in itertools.permutations(range(4)):
        for signs in itertools.product((1, -1), repeat=4):
            there = np.empty_like(x)
            there[:, images] = x * signs
            after = f(there)
            kept += np.allclose(after, y) or np.allclose(after, -y)
    assert kept == expected


def test_inertia_of_arms_is_symmetric_and_positive() -> None:
    m = arms(3)(np.random.default_rng(0).normal(size=(20, 7)))
    np.testing.assert_allclose(m, m.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(m).min() > 0


def test_burgers_is_kept_by_a_reversal_with_a_sign() -> None:
    x = np.random.default_rng(0).normal(size=(5, 8))
    np.testing.assert_allclose(burgers(8)(-x[:, ::-1]), -burgers(8)(x)[:, ::-1])
    assert not np.allclose(burgers(8, 0.3)(-x[:, ::-1]), -burgers(8, 0.3)(x)[:, ::-1])


def test_noise_refutes_no_true_exchange() -> None:
    """At this seed one input changes the set function less than the noise does, so that defects look large."""
    case = next(one for one in cases(9900) if one.name == "deep set of 8, noise of 1 %")
    verdict = ms.discover(case.f, np.random.default_rng(0).normal(size=(500, 8)), continuous=False).verdict
    refuted = [r for one in verdict.candidates for r in one.reasons if isinstance(r, RefutedByCalls)]
    assert all("−" in r.name for r in refuted)  # a permutation without signs is a true symmetry
