"""The noise of single examples, against matrices of examples by examples; and what it takes for many examples."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from metasym.diagnosis import linear_part
from metasym.diagnosis.example_noise import example_noise, hat_times_maker, left_of
from metasym.diagnosis.linear_part import fit_tasks
from metasym.diagnosis.samples import Samples

TASKS, OUTPUTS = 6, 2


def spanning(examples: int, columns: int, heavy: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Orthonormal columns of tasks with different lengths, which rows are there, and something to fit."""
    draw = np.random.default_rng(examples)
    there = np.arange(examples) < draw.integers(examples // 2, examples + 1, TASKS)[:, None]
    x = draw.standard_normal((TASKS, examples, columns))
    x[::2, 3] *= heavy
    return np.linalg.qr(x * there[..., None])[0], there, draw.standard_normal((TASKS, examples, OUTPUTS))


@pytest.mark.parametrize(
    ("examples", "columns", "heavy"), [(9, 4, 1.0), (60, 3, 1.0), (60, 3, 4.0), (60, 3, 100.0)]
)
def test_the_noise_solves_the_system_of_squares(examples: int, columns: int, heavy: float) -> None:
    """Few examples; many; many of which one has much leverage, so that some tasks have no small one alone."""
    spanned, there, values = spanning(examples, columns, heavy)
    values = values * there[..., None]
    noise, known = example_noise(values, spanned, there)
    told = []
    for task in range(TASKS):
        count = int(there[task].sum())
        hat = spanned[task, :count] @ spanned[task, :count].T
        maker = np.eye(count) - hat
        told.append(bool(np.linalg.eigvalsh(maker**2)[0] > 0.01))
        left = left_of(values, spanned)[task, :count]
        np.testing.assert_allclose(left, maker @ values[task, :count], atol=1e-12)
        found = hat_times_maker(values, spanned)[task, :count]
        np.testing.assert_allclose(found, (hat * maker) @ values[task, :count], atol=1e-12)
        if told[-1]:
            wanted = np.linalg.solve(maker**2, values[task, :count] ** 2)
            np.testing.assert_allclose(noise[task, :count], wanted, rtol=1e-8, atol=1e-10)
            assert not noise[task, count:].any()
    assert known.tolist() == told
    assert heavy == 100.0 or all(told) or examples == 9


def bent(tasks: int, examples: int) -> Samples:
    draw = np.random.default_rng(0)
    x = draw.standard_normal((tasks, examples, 3))
    y = x @ draw.standard_normal((tasks, 3, 2)) + 0.2 * draw.standard_normal((tasks, examples, 2))
    y[..., 0] += 0.3 * x[..., 1] ** 3
    return Samples(x, y, np.ones((tasks, examples), dtype=bool), np.arange(tasks))


def test_tasks_are_taken_some_at_a_time(monkeypatch) -> None:
    samples = bent(20, 30)
    whole = fit_tasks(samples, np.ones(1)).bend
    assert whole > 0
    monkeypatch.setattr(linear_part, "_NUMBERS", 1)
    assert fit_tasks(samples, np.ones(1)).bend == pytest.approx(whole, rel=1e-12)


def test_tasks_of_which_none_tells_its_noise() -> None:
    """8 examples for 5 unknowns each: nothing is said about bends, in no task and in all."""
    draw = np.random.default_rng(1)
    x, y = draw.standard_normal((40, 8, 4)), draw.standard_normal((40, 8, 4))
    spanned = np.linalg.qr(np.concatenate([x, np.ones((40, 8, 1))], 2))[0]
    there = np.ones((40, 8), dtype=bool)
    assert not example_noise(y, spanned, there)[1].any()
    assert fit_tasks(Samples(x, y, there, np.arange(40)), np.ones(1)).bend == 0


def test_memory_grows_with_the_examples_not_with_their_square() -> None:
    """All of it takes less than the matrix of examples by examples of one task, 50 MB."""
    samples = bent(20, 2500)
    tracemalloc.start()
    assert fit_tasks(samples, np.ones(1)).bend > 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * 2500**2
