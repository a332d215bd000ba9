"""Polynomials with few terms: recovery, the algebra that they keep, the certificate, the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.discovery.algebra.vector_fields import angle, beside, rotations
from metasym.discovery.continuous.coefficient_ties import with_tied_sizes
from metasym.discovery.continuous.polynomial_algebra import algebra_of, jackknifed, kept_by, rotations_in
from metasym.discovery.continuous.polynomial_claims import certified
from metasym.discovery.models.polynomial_recovery import recover
from metasym.discovery.models.polynomials import Monomial, Support, all_monomials, columns
from metasym.verdicts.discovery_reasons import AffineFunction

Array = npt.NDArray[np.float64]


def drawn(seed: int, count: int, n: int) -> Array:
    """Normal inputs."""
    return np.random.default_rng(seed).normal(size=(count, n))


def test_derivatives_are_those_of_autograd() -> None:
    support = Support((((), (0, 0, 2), (1,)), ((0, 1, 1, 2), (2, 2))))
    c = np.array([1.0, 2.0, -3.0, 0.5, 4.0])
    x = drawn(0, 7, 3)

    def function(p: torch.Tensor) -> torch.Tensor:
        return torch.stack(
            [1 + 2 * p[0] ** 2 * p[2] - 3 * p[1], 0.5 * p[0] * p[1] ** 2 * p[2] + 4 * p[2] ** 2]
        )

    points = torch.tensor(x)
    np.testing.assert_allclose(support.values(c, x), torch.stack([function(p) for p in points]))
    slopes = torch.stack([torch.autograd.functional.jacobian(function, p) for p in points])
    np.testing.assert_allclose(support.jacobian(c, x), slopes)
    inner, outer = drawn(1, 3, 4), drawn(2, 2, 3)
    first, second = support.broken(inner, outer, x)
    moved = np.einsum("pmi,pi->pm", slopes, np.c_[x, np.ones(7)] @ inner.T)
    turned = np.c_[support.values(c, x), np.ones(7)] @ outer.T
    np.testing.assert_allclose(first @ c - second, moved - turned, atol=1e-12)


def test_few_terms_come_out_of_fewer_examples_than_monomials() -> None:
    draw = np.random.default_rng(3)
    monomials = all_monomials(7, 4)  # 330 of them
    assert len(monomials) == 330
    chosen = sorted(draw.choice(np.arange(1, 330), 12, replace=False))
    true = [monomials[j] for j in chosen]
    x = drawn(4, 140, 7)
    y = columns(x, true) @ draw.uniform(1, 3, 12)
    found = recover(x, y[:, None], 1e-3)
    assert found is not None
    assert set(found.monomials[0]) - {()} == set(true)
    # With noise of a hundredth of the deviation, too; and a function that is no polynomial has none.
    found = recover(x, (y + 0.01 * y.std() * draw.normal(size=140))[:, None], 1e-3)
    assert found is not None
    assert set(true) <= set(found.monomials[0])
    assert recover(x, np.tanh(3 * x[:, :1]) * x[:, 1:2], 1e-3) is None


def brute_force(function: Callable[[Array], Array], n: int) -> Array:
    """Affine fields along which a function of one output does not change, by differences at many points."""
    x = drawn(5, 400, n)
    slopes = np.stack([(function(x + h) - function(x - h)) / 2e-5 for h in 1e-5 * np.eye(n)], axis=1)
    rows = np.einsum("pi,pj->pij", slopes, np.c_[x, np.ones(len(x))]).reshape(len(x), -1)
    _, sizes, basis = np.linalg.svd(rows)
    return np.asarray(basis[sizes < 1e-6 * sizes[0]].reshape(-1, n, n + 1))


@pytest.mark.parametrize(
    ("terms", "values", "dimension"),
    [
        ([(0, 0), (1, 1), (2, 2)], [1.0, 1.0, -1.0], 3),  # so(1,2)
        ([(0, 0, 2), (1, 1, 2)], [1.0, 1.0], 2),  # a turn, and a scaling against another
        ([(0, 0), (1, 1), (2, 2), (0, 1, 2)], [1.0, 1.0, 1.0, 1.0], 0),
        ([(0, 0), (1, 1), (2, 2), (0, 0, 1)], [1.0, 1.0, 1.0, 0.01], 0),
    ],
)
def test_the_algebra_is_that_of_brute_force(
    terms: list[Monomial], values: list[float], dimension: int
) -> None:
    def function(x: Array) -> Array:
        return columns(x, terms) @ np.array(values)

    x = drawn(6, 150, 3)
    y = function(x)[:, None]
    support = Support((((), *terms),))
    found, _ = algebra_of(support, jackknifed(support, x, y, np.random.default_rng(0)), x)
    true = brute_force(function, 3)
    assert len(found) == len(true) == dimension
    if dimension:
        inner = np.concatenate([found[:, :3, :3], found[:, :3, -1:]], axis=2)
        assert angle(inner, true) < 1e-3


def test_polynomials_that_rotations_keep_are_functions_of_the_length() -> None:
    support = Support((tuple(all_monomials(3, 4)),))
    pairs = beside(rotations(3), np.zeros((0, 1, 2)))
    x = drawn(7, 200, 3)
    kept = kept_by(pairs, support, x)
    assert kept.basis.shape[1] == 3  # 1, |x|^2 and |x|^4
    length = (x**2).sum(1)
    true = np.stack([np.ones(200), length, length**2], axis=1)
    found = columns(x, support.monomials[0]) @ kept.basis
    left = found - true @ np.linalg.lstsq(true, found, rcond=None)[0]
    assert np.abs(left).max() < 1e-6 * np.abs(found).max()
    assert len(rotations_in(pairs, 3)) == 3


@pytest.mark.parametrize(
    ("off", "noise", "passes"), [(0.0, 0.0, True), (0.0, 0.01, True), (0.01, 0.0, False), (0.03, 0.01, False)]
)
def test_near_symmetries_are_refuted_as_far_as_the_data_tell_them(
    off: float, noise: float, passes: bool
) -> None:
    draw = np.random.default_rng(8)
    x = drawn(9, 500, 3)
    y = x[:, :1] ** 2 + x[:, 1:2] ** 2 + (1 + off) * x[:, 2:] ** 2 + noise * draw.normal(size=(500, 1))
    support = Support((((), (0, 0), (1, 1), (2, 2)),))
    pairs = beside(rotations(3), np.zeros((0, 1, 2)))
    claim, why = certified(pairs, support, (x[:400], y[:400]), (x[400:], y[400:]))
    assert (claim is not None) == passes, why
    if claim is not None:
        assert claim.name == "so(3)"
        assert noise**2 / float(y.var()) <= claim.violation_upper < 2 * noise**2 / float(y.var()) + 1e-12


def test_sizes_within_their_errors_are_tied() -> None:
    support = Support((((0,), (1,), (2,), (0, 0), (1, 1)),))
    c = np.array([2.01, -1.99, 4.02, 0.02, -0.9])
    errors = np.full(5, 0.02)
    found = with_tied_sizes(support, c, errors, np.ones(5))
    assert found[0] == -found[1] > 0
    assert found[3] == 0
    np.testing.assert_allclose(found[2], 2 * found[0])  # a whole multiple, as it is within errors
    assert abs(found[4] + 0.9) < 3 * 0.02


def cubic(x: Array, off: float = 0.0) -> Array:
    """``|x|^2 x`` in the plane, which turns and grows with x; ``off`` breaks the turns, not the growing."""
    found = (x**2).sum(1, keepdims=True) * x
    found[:, 0] += off * x[:, 0] ** 3
    return found


def test_a_pair_is_named_stored_and_loaded(tmp_path: Path) -> None:
    x = drawn(10, 120, 2)
    np.savez(tmp_path / "data.npz", x=x, y=cubic(x))
    command = ["discover", str(tmp_path / "data.npz"), "--no-finite", "--progress", "silent", "--out"]
    assert main([*command, str(tmp_path / "run")]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    whole, turns = result["symmetries"]
    assert (whole["dimension"], turns["name"], turns["dimension"]) == (2, "so(2)", 1)
    inner, outer = (np.array(turns[key][0])[:, :2] for key in ("generators", "output_generators"))
    np.testing.assert_allclose(inner, -inner.T, atol=1e-8)
    np.testing.assert_allclose(outer, inner, atol=1e-8)
    assert result["symmetric"]["relative"] < 1e-20
    model = ms.open_run(tmp_path / "run").model
    assert isinstance(model, torch.nn.Module)
    x_new = torch.tensor(drawn(11, 30, 2))
    np.testing.assert_allclose(model(x_new).numpy(), cubic(x_new.numpy()), atol=1e-10)
    exported = torch.export.export(model, (x_new,)).module()
    np.testing.assert_allclose(exported(x_new).numpy(), model(x_new).numpy())
    assert main(["report", str(tmp_path / "run")]) == 0
    for left in ("result.json", "model.safetensors"):
        (tmp_path / "run" / left).unlink()
    assert main([*command, str(tmp_path / "run"), "--resume"]) == 0
    again = json.loads((tmp_path / "run" / "result.json").read_text())
    assert again["symmetries"] == result["symmetries"]


def test_a_pair_that_is_one_percent_off_is_not_named() -> None:
    x = drawn(12, 120, 2)
    found = ms.discover(x, cubic(x, 0.01), finite=False)
    assert not any("so(" in one["name"] for one in found.symmetries)
    generators = [np.array(g)[:, :2] for one in found.symmetries for g in one["generators"]]
    for g in generators:  # what is left is the growing
        np.testing.assert_allclose(g, g[0, 0] * np.eye(2), atol=1e-6)


@pytest.mark.parametrize("outputs", [1, 2])
def test_nothing_is_claimed_of_an_affine_function(outputs: int) -> None:
    x = drawn(13, 60, 3)
    y = x @ drawn(14, 3, outputs) + 1
    found = ms.discover(x, y, finite=False)
    assert found.symmetries == []
    assert found.verdict.reasons[0] == AffineFunction()
    assert found.plain.relative < 1e-20
