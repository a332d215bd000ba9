"""Bends that all tasks share, against files whose bend is known."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import metasym as ms
from metasym.diagnosis.samples import Floats

TASKS, EXAMPLES, INPUTS = 40, 20, 6


def _file(bend: Callable[[Floats, Floats], Floats], seed: int) -> tuple[Floats, Floats]:
    """Ring-shaped tasks with 10 % noise, and ``bend(x, maps)`` added to the outputs."""
    draw = np.random.default_rng(seed)
    filters = draw.standard_normal((TASKS, INPUTS))
    places = (np.arange(INPUTS)[None, :] - np.arange(INPUTS)[:, None]) % INPUTS
    maps = filters[:, places]
    x = draw.standard_normal((TASKS, EXAMPLES, INPUTS))
    y = np.einsum("tmn,ten->tem", maps, x) + bend(x, maps)
    return x, y + 0.1 * float(np.sqrt(np.mean(y**2))) * draw.standard_normal(y.shape)


def _added(term: Callable[[Floats], Floats]) -> Callable[[Floats, Floats], Floats]:
    def bend(x: Floats, maps: Floats) -> Floats:
        found = np.zeros((TASKS, EXAMPLES, INPUTS))
        found[..., 0] = 0.1 * np.sqrt(INPUTS) * term(x)
        return found

    return bend


def _sensor(x: Floats, maps: Floats) -> Floats:
    bent = np.zeros_like(x)
    bent[..., 1] = 0.1 * (x[..., 1] ** 3 - 3 * x[..., 1])
    return np.einsum("tmn,ten->tem", maps, bent)


BENDS = {
    "a square added to one output": _added(lambda x: x[..., 0] ** 2 - 1),
    "a product added to one output": _added(lambda x: 1.4 * x[..., 2] * x[..., 4]),
    "a cube added to one output": _added(lambda x: 0.6 * (x[..., 3] ** 3 - 3 * x[..., 3])),
    "a sensor that is not linear": _sensor,
}


def _kinds(x: Floats, y: Floats) -> set[str]:
    run = ms.learn(x, y, baseline=False)
    findings = {finding["kind"] for finding in run.config["findings"]}
    return findings | {reason["kind"] for reason in run.symmetry.to_json()["layers"][0]["verdict"]["reasons"]}


@pytest.mark.parametrize("name", BENDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_bend_that_all_tasks_share_is_found(name: str, seed: int) -> None:
    assert "not_linear" in _kinds(*_file(BENDS[name], seed))


def test_linear_tasks_have_no_bend() -> None:
    for seed in range(8):
        assert "not_linear" not in _kinds(*_file(lambda x, maps: np.zeros((TASKS, EXAMPLES, INPUTS)), seed))
