"""beta against samples whose answer is known."""

from __future__ import annotations

import numpy as np

from metasym.certification.beta import beta


def test_a_true_symmetry_has_beta_zero_though_the_model_is_poor() -> None:
    covered = 0
    for seed in range(200):
        draw = np.random.default_rng(seed)
        left, breaking = draw.normal(size=(100, 2)), 3 * draw.normal(size=(100, 2))
        found = beta(left, breaking, 2.0)
        covered += found.low <= 0 <= found.high
    assert covered >= 190  # 99 % intervals: fewer than 190 of 200 has a probability below 1e-4


def test_a_real_violation_is_seen_and_measured() -> None:
    draw = np.random.default_rng(0)
    violation = draw.normal(size=(2000, 1))
    breaking = violation + 0.5 * draw.normal(size=(2000, 1))  # what a flexible model makes of it
    found = beta(violation + 0.1 * draw.normal(size=(2000, 1)), breaking, 4.0)
    assert found.refutes
    assert abs(found.value - 0.8) < 0.05  # regression of the violation on its noisy image: 1 / 1.25
    assert abs(found.violation_upper - found.high * found.moved) < 1e-12


def test_an_undetermined_beta_refutes_nothing() -> None:
    draw = np.random.default_rng(0)
    breaking = 1e-2 * draw.normal(size=(60, 1))
    left = 100 * breaking + draw.normal(size=(60, 1))
    found = beta(left, breaking, 1.0)
    assert found.low > 0
    assert found.contradicts
    assert not found.refutes
    assert beta(left / 100, breaking, 1.0).refutes


def test_nothing_that_breaks_leaves_its_own_size_as_the_bound() -> None:
    found = beta(np.ones((50, 1)), np.zeros((50, 1)), 1.0)
    assert (found.value, found.violation_upper, found.refutes) == (0.0, 0.0, False)
