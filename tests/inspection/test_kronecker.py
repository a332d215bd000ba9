"""Kronecker symmetries: the factors tell what the product does."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import metasym as ms
from metasym.inspection import layers
from metasym.inspection.kronecker import read_factors
from metasym.verdicts.verdict import NoTiesInFactors, Status


def factor(classes: list[int], columns: int, seed: int) -> Tensor:
    """Rows that are equal where the classes are, opposite where they are opposite."""
    rows = torch.randn(10, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.stack([rows[abs(c)] * (1 if c > 0 else -1) for c in classes])


def test_factors_tell_what_the_product_does() -> None:
    """Where the product can be formed it is read entry by entry: an independent way to the same group."""
    factors = [factor([1, 1, 2, 3, 2, 2], 4, 0), factor([1, 2, 3, 3, 4, 5, 5], 6, 1)]
    dense = layers.inspect_layer("", ms.KroneckerSymmetry((6, 7), factors=factors)).group
    group, notes = read_factors(factors, [0, 0])
    assert dense is not None
    assert group is not None
    assert (group.order, dense.order) == (2 * 6 * 4, 2 * 6 * 4)
    assert group.name == "S_3 x Z_2 x Z_2 x Z_2" == dense.name
    assert group.error < 1e-12
    assert notes[0].startswith("6 outputs in 3 classes")


def test_large_layers_are_read_from_their_factors() -> None:
    out = factor([1 + i % 4 for i in range(120)], 8, 0)
    inp = factor([(-1) ** i * (1 + i % 8) for i in range(100)], 16, 1)
    net = nn.Sequential(nn.Linear(100, 120, bias=False).double())
    ms.reparameterize(net, lambda name, m: ms.KroneckerSymmetry((120, 100), factors=[out, inp]))
    (report,) = ms.inspect(net)
    assert report.pattern is None
    assert report.group is not None
    assert "S_30^4" in report.group.name
    assert report.filter_size == 8 * 16
    assert report.verdict.status is Status.READ


def test_convolutions_too_large_to_compare() -> None:
    conv = ms.reparameterize(nn.Conv2d(64, 64, 3))
    (report,) = ms.inspect(conv)
    assert report.group is None
    assert report.verdict.reasons == (NoTiesInFactors(),)
    assert report.effective_filter_size == 64 * 64 * 9
    dense = ms.reparameterize(nn.Linear(600, 500), "dense", filter_size=3)
    (large,) = ms.inspect(dense)
    assert large.group is None
    assert "300,000 entries are too many" in large.notes[0]
