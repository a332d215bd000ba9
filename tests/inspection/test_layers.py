"""Layers with biases, and symmetries that are not dense."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import metasym as ms
from metasym.inspection import pattern, spectrum
from metasym.inspection.layers import inspect_layer
from metasym.inspection.spectrum import effective_size
from metasym.symmetry.field_symmetry import FieldSymmetry
from metasym.verdicts.verdict import NoPermutation, Status
from tests.inspection.planted import seen
from tests.refusals import refused

G = ms.groups


def with_bias(U: torch.Tensor, n: int, m: int) -> nn.Module:
    model = nn.Linear(n, m).double()
    return ms.reparameterize(model, lambda name, module: ms.DenseSymmetry((m, n + 1), U=U), bias="joint")


def test_the_input_of_a_bias_is_not_moved() -> None:
    group = G.cyclic(5)
    U = G.equivariant_basis(group.direct_sum(group.trivial_rep()), group)
    (report,) = ms.inspect(with_bias(U, 5, 5))
    assert report.group is not None
    assert report.group.name == "Z_5"
    assert report.group.generators[0].inputs[5] == 5
    assert not report.notes
    tied = torch.ones(4 * 6, 1, dtype=torch.float64)  # the bias too has the value of all weights
    (all_tied,) = ms.inspect(with_bias(tied, 5, 4))
    assert all_tied.group is not None
    assert (all_tied.group.name, all_tied.group.order) == ("S_4 x S_5", 24 * 120)
    signed = torch.tensor([[1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]], dtype=torch.float64).reshape(6, 1)
    (flipped,) = ms.inspect(with_bias(signed.repeat(1, 2), 2, 2))  # -1 on both sides would flip the bias
    assert flipped.group is None or not flipped.group.signed


def test_a_free_bias_is_told() -> None:
    model = nn.Linear(6, 6).double()
    U = G.equivariant_basis(G.cyclic(6), G.cyclic(6))
    ms.reparameterize(model, lambda name, m: ms.DenseSymmetry((6, 6), U=U))
    (report,) = ms.inspect(model)
    assert report.group is not None
    assert "bias is free" in report.notes[-1]


def test_steerable_layers_stored_as_one_block() -> None:
    basis = G.conv_basis(3, 4, flips=True, fields_out=3)
    conv = ms.reparameterize(
        nn.Conv2d(1, 24, 3, bias=False), lambda name, m: FieldSymmetry.of(basis, torch.float32)
    )
    (report,) = ms.inspect(conv)
    assert report.kind == "field"
    assert report.group is not None
    assert report.group.name == "D_4"
    assert len(report.singular_values) == report.effective_filter_size == basis.dimension
    large = G.conv_basis(3, 8, flips=True, fields_in=4, fields_out=4)
    wide = ms.reparameterize(nn.Conv2d(64, 64, 3, bias=False), lambda name, m: FieldSymmetry.of(large))
    assert ms.inspect(wide)[0].verdict.status is Status.NOT_READ


def test_models_without_symmetries_are_refused() -> None:
    with refused("model", "Linear"):
        ms.inspect(nn.Linear(3, 3))
    model = ms.reparameterize(nn.Sequential(nn.Linear(3, 3)), "dense")
    report = ms.inspect(model)
    with refused("layer", "x"):
        report["x"]
    assert str(report).startswith("0: no symmetry found")
    with torch.no_grad():
        ms.symmetries(model)["0"].matrix()[0, 0] = float("nan")
    with refused("layer '0'", "NaN or infinity"):
        ms.inspect(model)


@pytest.mark.parametrize(
    ("values", "size", "gap"),
    [
        ([5.0, 4.9, 4.8, 0.3, 0.2, 0.1], 3, True),
        ([3.0, 2.8, 2.5, 2.2, 2.0, 1.5], 6, False),
        ([3.0, 2.8, 2.5, 2.2, 2.0, 0.7], 6, False),  # the last value of a square matrix drops by itself
        ([3.0, 2.8, 2.5, 2.2, 2.0, 0.001], 5, True),
        ([1.0, 0.0, 0.0, 0.0], 1, True),
        ([1.0, 0.9, 0.08, 0.07, 0.001], 2, True),  # drops among weak values are noise
        ([0.0, 0.0], 0, False),
    ],
)
def test_effective_size(values: list[float], size: int, gap: bool) -> None:
    assert effective_size(torch.tensor(values, dtype=torch.float64)) == (size, gap)


def dense(U: torch.Tensor, m: int, n: int) -> nn.Module:
    return ms.reparameterize(
        nn.Linear(n, m, bias=False).double(), lambda name, module: ms.DenseSymmetry((m, n), U=U)
    )


@pytest.mark.parametrize(
    ("strength", "approximate"), [(0.0, False), (0.02, False), (0.15, True), (0.3, True)]
)
def test_a_symmetry_that_U_only_nearly_has_is_called_so(strength: float, approximate: bool) -> None:
    """Circulant directions, and all others at some strength: tasks that need those are not equivariant."""
    exact = G.equivariant_basis(G.cyclic(6), G.cyclic(6))
    exact = torch.linalg.qr(exact).Q
    rest = torch.eye(36, dtype=torch.float64) - exact @ exact.T
    whole = ms.inspect(dense(torch.cat([exact, strength * rest], 1), 6, 6))
    (report,) = whole
    assert report.group is not None
    assert report.group.name == "Z_6"
    assert report.group.approximate is approximate
    assert report.verdict.status is Status.READ
    assert whole.to_json()["layers"][0]["group"]["approximate"] is approximate
    found = ms.SymmetryReport.from_json(ms.inspect(dense(exact, 6, 6)).to_json())
    assert found[0].group is not None


def test_signs_of_blocks_that_nothing_connects_are_told() -> None:
    """Two free 3 x 3 blocks commute with diag(1, 1, 1, -1, -1, -1), which no permutation shows."""
    mask = torch.block_diag(torch.ones(3, 3), torch.ones(3, 3)).double()
    U = torch.diag(mask.flatten())[:, mask.flatten() > 0]
    (report,) = ms.inspect(dense(U, 6, 6))
    assert report.group is None
    assert report.verdict.reasons == (NoPermutation(2),)
    (whole,) = ms.inspect(dense(torch.eye(36).double(), 6, 6))
    assert NoPermutation(2) not in whole.verdict.reasons


def test_angles_are_left_out_where_U_is_everything() -> None:
    (report,) = ms.inspect(dense(torch.eye(36).double(), 6, 6), "shifts")
    assert report.errors is not None
    assert not report.errors.angles
    assert "no principal angles" in report.errors.note
    (some,) = ms.inspect(dense(G.equivariant_basis(G.cyclic(6), G.cyclic(6)), 6, 6), "shifts")
    assert some.errors is not None
    assert some.errors.angles is not None
    assert max(some.errors.angles) < 1e-6


def test_only_modules_are_inspected() -> None:
    with refused("model", 3):
        ms.inspect(3)  # type: ignore[arg-type]


def kronecker(*factors: torch.Tensor) -> ms.KroneckerSymmetry:
    made = ms.KroneckerSymmetry([len(f) for f in factors], [f.shape[1] for f in factors]).double()
    for stored, factor in zip(made.factors, factors, strict=True):
        stored.data.copy_(factor)
    return made


@pytest.mark.parametrize("spare", [0.0, 0.02, 1.0])
def test_a_kronecker_product_is_read_from_its_factors_as_it_is_whole(spare: float) -> None:
    """Products and directions come from the factors; the whole matrix is the oracle."""
    draw = torch.Generator().manual_seed(0)
    tied = [torch.randn(3, 12, generator=draw).double().repeat_interleave(4, 0) for _ in range(2)]
    made = kronecker(*(f + spare * torch.randn(12, 12, generator=draw) for f in tied))
    parts, whole = inspect_layer("layer", made), seen(made.matrix().detach(), (12, 12))
    assert parts.pattern is not None
    assert whole.pattern is not None
    assert parts.pattern.clear == whole.pattern.clear == (spare < 1)
    assert parts.pattern.classes == whole.pattern.classes
    for name in ("within", "between", "residual", "dominant_residual"):
        assert getattr(parts.pattern, name) == pytest.approx(getattr(whole.pattern, name), abs=1e-6)
    assert (parts.group is None) == (whole.group is None)
    if parts.group is not None and whole.group is not None:
        assert parts.group.order == whole.group.order


def test_the_number_of_directions_needs_no_decomposition() -> None:
    draw = np.random.default_rng(0)
    for shape in ((40, 7), (7, 40)):
        points = draw.standard_normal(shape) * 0.5 ** np.arange(shape[1])
        powers = np.linalg.svd(points, compute_uv=False) ** 2
        directions = powers.sum() ** 2 / (powers**2).sum()
        assert directions < 4
        assert pattern.caution(points) == pytest.approx((directions / 4) ** 1.5)
    assert pattern.caution(np.zeros((3, 2))) == 0


def test_noise_is_recognised_before_anything_of_cubic_cost(monkeypatch) -> None:
    """Its gaps are no gaps: how wide a class may be is asked of a cut that is clear otherwise."""
    asked = []
    monkeypatch.setattr(pattern, "caution", lambda points: asked.append(len(points)) or 1.0)
    draw = torch.Generator().manual_seed(0)
    made = kronecker(*(torch.randn(16, 16, generator=draw).double() for _ in range(2)))
    assert inspect_layer("layer", made).verdict.status is Status.NONE
    assert asked == []


def test_few_directions_of_a_wide_matrix_are_found_alone(monkeypatch) -> None:
    draw = torch.Generator().manual_seed(0)
    U = torch.randn(90, 80, generator=draw, dtype=torch.float64)
    U = U @ torch.diag(0.1 ** torch.arange(80).clamp(max=4).double())
    expected = spectrum.dominant(U, 4)
    monkeypatch.setattr(spectrum, "_WIDE", 50)
    found = spectrum.dominant(U, 4)
    assert torch.allclose(found @ found.T, expected @ expected.T, atol=1e-10)
