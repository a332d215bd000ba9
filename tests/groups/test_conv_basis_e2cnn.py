"""Side by side with e2cnn's ``R2Conv``: the same span, the same order and axes, the same start."""

from __future__ import annotations

import types
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import metasym.groups as mg

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # what e2cnn itself warns of while it is imported
    pytest.importorskip("e2cnn", reason="e2cnn, the oracle for steerable kernels, is not installed")
    from e2cnn import gspaces, kernels
    from e2cnn import nn as e2nn

pytestmark = [  # both e2cnn's own
    pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8:UserWarning"),
    pytest.mark.filterwarnings("ignore:tostring:DeprecationWarning"),
]


@pytest.fixture(autouse=True)
def numpy_1_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """e2cnn calls ``np.array(x, copy=False)`` as numpy 1 meant it; numpy 2 refuses that for plain floats."""

    def array(x: Any, copy: bool = True) -> Any:
        return np.array(x) if copy else np.asarray(x)

    monkeypatch.setattr(kernels.utils, "np", types.SimpleNamespace(**{**vars(np), "array": array}))


def oracle(size: int, rotations: int, flips: bool, fields_in: int | None, fields_out: int) -> Any:
    space = gspaces.FlipRot2dOnR2(rotations) if flips else gspaces.Rot2dOnR2(rotations)
    inputs = [space.trivial_repr] if fields_in is None else [space.regular_repr] * fields_in
    return e2nn.R2Conv(
        e2nn.FieldType(space, inputs),
        e2nn.FieldType(space, [space.regular_repr] * fields_out),
        size,
        bias=False,
        initialize=False,
    )


def probed(layer: Any) -> torch.Tensor:
    """e2cnn's basis ``[out * in * k * k, d]``, one unit coefficient at a time."""
    units = torch.eye(layer.basisexpansion.dimension())
    return torch.stack([layer.basisexpansion(unit).flatten() for unit in units], dim=1).double()


def largest_angle(a: torch.Tensor, b: torch.Tensor) -> float:
    """The largest principal angle between two spans, from its sine, which is accurate near 0."""
    q, _ = torch.linalg.qr(a)
    p, _ = torch.linalg.qr(b)
    return float(torch.linalg.svdvals(p - q @ (q.T @ p)).max().clamp(max=1).asin())


CASES = [
    (size, rotations, flips, fields_in)
    for rotations, flips in ((8, False), (8, True), (4, False), (4, True), (2, False), (3, True), (5, False))
    for size in (3, 5)
    for fields_in in (None, 1)
] + [(3, 8, False, 2), (4, 8, True, None), (7, 8, False, None)]


@pytest.mark.parametrize(("size", "rotations", "flips", "fields_in"), CASES)
def test_same_span_and_same_start(size: int, rotations: int, flips: bool, fields_in: int | None) -> None:
    fields_out = 3 if fields_in is None else 1
    layer = oracle(size, rotations, flips, fields_in, fields_out)
    theirs = probed(layer)
    ours = mg.conv_basis(size, rotations, flips, fields_in=fields_in, fields_out=fields_out)
    assert ours.dimension == theirs.shape[1]
    assert largest_angle(ours.orthonormal(), theirs) < 1e-4
    # e2cnn calls the standard deviations "variances"; generalized_he_init multiplies N(0, 1) by them.
    std = e2nn.init._generalized_he_init_variances(layer.basisexpansion).double()
    basis = ours.basis
    difference = (basis * ours.he_std**2) @ basis.T - (theirs * std**2) @ theirs.T
    assert float(difference.abs().max()) < 1e-6  # the kernels' covariances; e2cnn's basis is float32


@pytest.mark.parametrize(("rotations", "flips"), [(8, False), (8, True)])
def test_elements_are_in_the_same_order(rotations: int, flips: bool) -> None:
    space = gspaces.FlipRot2dOnR2(rotations) if flips else gspaces.Rot2dOnR2(rotations)
    ours = mg.dihedral(rotations) if flips else mg.cyclic(rotations)
    theirs = [space.regular_repr(element) for element in space.fibergroup.elements]
    np.testing.assert_allclose(ours.regular().matrices.numpy(), np.stack(theirs), atol=1e-12)
    assert tuple(space.fibergroup.elements_names) == ours.element_names


def test_their_start_draws_what_ours_draws() -> None:
    layer = oracle(3, 8, False, None, 3)
    ours = mg.conv_basis(3, 8, fields_out=3)
    torch.manual_seed(0)
    draws = []
    for _ in range(2000):
        weights = torch.empty(layer.basisexpansion.dimension())
        e2nn.init.generalized_he_init(weights, layer.basisexpansion, cache=True)
        draws.append(weights)
    theirs = probed(layer) @ torch.stack(draws, 1).double()
    mine = ours.sample(2000, torch.Generator().manual_seed(1)).flatten(1)
    assert float(theirs.square().sum(0).mean()) == pytest.approx(float(mine.square().sum(1).mean()), rel=0.05)
