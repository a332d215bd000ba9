"""The frozen symmetry between stacks of fields, against the dense U that it stands for."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.func import vmap

from metasym.groups import conv_basis
from metasym.symmetry.field_symmetry import FieldSymmetry
from metasym.symmetry.reparam import bake, reparameterize, split
from tests.refusals import refused

CASES = [{"fields_in": 2, "fields_out": 3}, {"in_channels": 2, "fields_out": 2}]


@pytest.mark.parametrize("sizes", CASES)
def test_it_is_the_dense_basis_without_its_zeros(sizes):
    basis = conv_basis(3, 4, flips=True, **sizes)
    symmetry = FieldSymmetry.of(basis, torch.float64)
    U = basis.orthonormal()
    assert torch.equal(symmetry.matrix(), U)
    v = torch.randn(symmetry.filter_shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    W = symmetry(v)
    assert W.shape == basis.shape
    torch.testing.assert_close(W.flatten(), U @ v.flatten(), rtol=0, atol=1e-14)
    other = torch.randn(W.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(symmetry.right_inverse(other).flatten(), U.T @ other.flatten())
    many = torch.stack([v, 2 * v])
    torch.testing.assert_close(vmap(symmetry)(many)[1], 2 * W)


def test_what_it_costs():
    basis = conv_basis(3, 8, flips=True, fields_in=4, fields_out=4)
    cost = FieldSymmetry.of(basis).cost()
    d = len(basis.block)
    assert (cost.plain_entries, cost.filter_entries) == (64 * 64 * 9, 16 * d)
    assert cost.symmetry_entries == 16 * 16 * 9 * d
    assert cost.build_multiply_adds == 16 * 16 * 16 * 9 * d
    # What the dense U would take: 16 x 16 times as much.
    assert 64 * 64 * 9 * basis.dimension == 256 * cost.symmetry_entries


def test_it_is_frozen_and_bakes():
    basis = conv_basis(3, 4, fields_in=1, fields_out=2)
    layer = nn.Conv2d(basis.channels_in, basis.channels_out, 3, bias=False)
    reparameterize(layer, lambda name, module: FieldSymmetry.of(basis))
    parts = split(layer)
    assert not parts.U
    assert len(parts.v) == len(parts.frozen) == 1
    x = torch.randn(2, basis.channels_in, 5, 5)
    before = layer(x)
    torch.testing.assert_close(bake(layer)(x), before)


def test_bad_blocks():
    with refused("block", (3, 3)):
        FieldSymmetry(torch.zeros(3, 3), 1, 1)
    with refused("block", 18):
        FieldSymmetry(torch.full((1, 1, 3, 3, 2), float("nan")), 1, 1)
