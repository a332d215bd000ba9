"""What a function or its inputs must not be: one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import metasym as ms
from tests.refusals import refused

X = np.random.default_rng(0).normal(size=(100, 3))
DRAWS = np.random.default_rng(1)


def raises(x: Any) -> Any:
    raise ValueError("no such\nplace")


def changes(x: Any) -> Any:
    x += 1
    return x.sum(1)


def sometimes_nan(x: Any) -> Any:
    with np.errstate(invalid="ignore"):
        return np.log(x[:, 0])


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "raises": raises,
    "NaN": sometimes_nan,
    "another number of points": lambda x: x[:-1].sum(1),
    "one number for all": lambda x: x.sum(),
    "text": lambda x: np.array(["a"] * len(x)),
    "nothing": lambda _: None,
    "complex": lambda x: x.sum(1) * 1j,
    "no outputs": lambda x: x[:, :0],
    "random": lambda x: DRAWS.normal(size=len(x)),
    "changes its input": changes,
    "another shape each time": lambda x: np.ones((len(x), 1 + int(DRAWS.integers(1, 50)))) * x[:, :1],
    "constant": lambda x: np.ones(len(x)),
    "mixes points": lambda x: (x - x.mean(0)).sum(1) * 3,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_functions(name: str) -> None:
    with pytest.raises(ms.MetasymError) as caught:
        ms.discover(FUNCTIONS[name], X, continuous=False)
    assert caught.value.about == "f"
    assert "\n" not in str(caught.value)


INPUTS: dict[str, Any] = {
    "few points": X[:5],
    "one axis": X[:, 0],
    "NaN": np.where(X > 2, np.nan, X),
    "text": np.array([["a", "b"]] * 50),
    "draws with one argument": lambda count: np.zeros((count, 3)),
    "draws too few": lambda count, generator: generator.normal(size=(count - 1, 3)),
}


@pytest.mark.parametrize("name", INPUTS)
def test_bad_inputs(name: str) -> None:
    with pytest.raises(ms.MetasymError) as caught:
        ms.discover(lambda x: x.sum(1), INPUTS[name], continuous=False)
    assert caught.value.about == "x"
    assert "\n" not in str(caught.value)


def test_a_width_that_the_function_does_not_take() -> None:
    weights = np.ones(4)
    with refused("f"):
        ms.discover(lambda x: x @ weights, X, continuous=False)


def test_a_centre_of_another_width_and_options_for_data() -> None:
    with refused("centre"):
        ms.discover(lambda x: x.sum(1) ** 2, X, centre=[1.0, 2.0], continuous=False)
    with refused("centre, matrix_output", "data"):
        ms.discover(X, X[:, 0], centre=[0.0, 0.0, 0.0])
