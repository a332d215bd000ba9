"""Continuous symmetries of functions that are called: known algebras, and flows written out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import torch

import metasym as ms
from metasym.verdicts.claims import Claim

X = torch.randn(600, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def cross(x: Any) -> Any:
    a, b = x[:, :3], x[:, 3:]
    return np.cross(a, b) * (1 + (a**2).sum(1, keepdims=True) * (b**2).sum(1, keepdims=True))


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Any, int]] = {
    "sphere": (lambda x: torch.exp(-(x**2).sum(1) / 6), X, 15),
    "stretched": (lambda x: torch.exp(-(x**2 * torch.tensor([1, 1, 1, 1, 1, 1.05])).sum(1) / 6), X, 15),
    "time and place": (
        lambda x: torch.tanh(x[:, 0] ** 2 - (x[:, 1:4] ** 2).sum(1)) + x[:, 4] * x[:, 5] ** 2,
        X,
        7,
    ),
    "vectors, numpy": (cross, X.numpy(), 4),
    "none": (lambda x: torch.tanh(x).pow(2).sum(1) + (x * x.roll(1, 1)).sum(1) + (0.3 * x[:, 0]).exp(), X, 0),
}


def along(f: Callable[[Any], Any], claim: Claim, x: Any) -> float:
    """The largest difference of ``f(exp(t A) x)`` and ``exp(t B) f(x)`` for every generator."""
    worst = 0.0
    y = np.asarray(f(x)).reshape(len(x), -1)
    turned = claim.output_generators or [None] * len(claim.generators)
    for a, b in zip(claim.generators, turned, strict=True):
        inner = np.r_[np.array(a), np.zeros((1, x.shape[1] + 1))]
        outer = np.zeros((y.shape[1] + 1,) * 2)
        if b is not None:
            outer[:-1] = np.array(b)
        there = (np.c_[np.asarray(x), np.ones(len(x))] @ scipy.linalg.expm(0.3 * inner).T)[:, :-1]
        goal = (np.c_[y, np.ones(len(x))] @ scipy.linalg.expm(0.3 * outer).T)[:, :-1]
        given = torch.from_numpy(there) if isinstance(x, torch.Tensor) else there
        worst = max(worst, float(np.abs(np.asarray(f(given)).reshape(len(x), -1) - goal).max()))
    return worst


@pytest.mark.parametrize("name", FUNCTIONS)
def test_dimension_and_flow(name: str) -> None:
    f, x, dimension = FUNCTIONS[name]
    claims = ms.discover(f, x, finite=False).verdict.claims
    assert sum(claim.size for claim in claims) == dimension
    for claim in claims:
        assert along(f, claim, x[:50]) < 1e-5


def test_derivatives_of_a_noisy_or_affine_function_are_not_used() -> None:
    draws = np.random.default_rng(0)
    noisy = ms.discover(lambda x: (x**2).sum(1) + 0.01 * draws.normal(size=len(x)), X.numpy(), finite=False)
    assert [one["reasons"][0]["kind"] for one in noisy.refused] == ["noisy_function"]
    plain = ms.discover(lambda x: x[:, :2] + 1, X, finite=False)
    assert [one["reasons"][0]["kind"] for one in plain.refused] == ["affine_function"]


@pytest.mark.parametrize("levels", [1, 100])
def test_steps_are_not_called_affine(levels: int) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 4)) / levels
    run = ms.discover(lambda x: np.round(levels * x) @ np.array([1, 1, 1, 1.5]), x, finite=False)
    assert [one["reasons"][0]["kind"] for one in run.refused] == ["step_function"]
