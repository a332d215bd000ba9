"""``equivariant_basis`` against the character formula and against its definition."""

from __future__ import annotations

import itertools

import pytest
import torch

import metasym.groups as mg
from metasym.groups import Group
from tests.refusals import refused


def skewed(group: Group, seed: int) -> Group:
    n = group.degree
    noise = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    change = torch.eye(n, dtype=torch.float64) + 0.3 * noise / n**0.5
    return Group(change @ group.matrices @ torch.linalg.inv(change), group.table, name=f"{group.name} skewed")


def representations(group: Group) -> list[Group]:
    reps = [
        group,
        group.regular(),
        group.trivial_rep(2),
        group.fields(2),
        group.direct_sum(group.trivial_rep()),
    ]
    return [*reps, skewed(group, 1), skewed(group.regular(), 2)]


GROUPS = [
    mg.cyclic(1),
    mg.cyclic(4),
    mg.cyclic(7),
    mg.dihedral(2),
    mg.dihedral(5),
    mg.symmetric(3),
    mg.quaternion(),
    mg.image_rotations_flips(3),
    mg.cyclic(2) * mg.symmetric(3),
]


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_dimension_orthonormality_equivariance(group: Group) -> None:
    for rep_in, rep_out in itertools.product(representations(group), repeat=2):
        basis = mg.equivariant_basis(rep_in, rep_out)
        chi_in = [float(m.trace()) for m in rep_in.matrices]
        chi_out = [float(m.trace()) for m in rep_out.matrices]
        expected = sum(a * b for a, b in zip(chi_in, chi_out, strict=True)) / group.order
        assert basis.shape == (rep_out.degree * rep_in.degree, round(expected))
        assert abs(expected - round(expected)) < 1e-9
        torch.testing.assert_close(
            basis.T @ basis, torch.eye(basis.shape[1], dtype=torch.float64), atol=1e-12, rtol=0
        )
        maps = basis.T.reshape(-1, rep_out.degree, rep_in.degree)
        for g in range(group.order):
            torch.testing.assert_close(
                rep_out.matrices[g] @ maps, maps @ rep_in.matrices[g], atol=1e-12, rtol=0
            )


@pytest.mark.parametrize("group", GROUPS, ids=repr)
def test_every_equivariant_map_is_in_the_span(group: Group) -> None:
    rep_in, rep_out = skewed(group, 3), group.fields(2)
    basis = mg.equivariant_basis(rep_in, rep_out)
    x = torch.randn(rep_out.degree, rep_in.degree, generator=torch.Generator().manual_seed(0)).double()
    averaged = (
        sum(rep_out.matrices[g] @ x @ torch.linalg.inv(rep_in.matrices[g]) for g in range(group.order))
        / group.order
    )
    assert isinstance(averaged, torch.Tensor)
    w = averaged.flatten()
    torch.testing.assert_close(basis @ (basis.T @ w), w, atol=1e-12, rtol=0)


def test_permutations_give_one_shared_weight_per_orbit() -> None:
    basis = mg.equivariant_basis(mg.symmetric(4), mg.symmetric(4))
    patterns = sorted(((basis > 0).T.reshape(-1, 4, 4).int()).tolist())
    diagonal = torch.eye(4, dtype=torch.int32)
    assert patterns == sorted([diagonal.tolist(), (1 - diagonal).tolist()])


def test_no_equivariant_map() -> None:
    group = mg.quaternion()
    assert mg.equivariant_basis(group, group.trivial_rep(3)).shape == (12, 0)


def test_large_permutation_groups_are_quick() -> None:
    assert mg.equivariant_basis(mg.shifts(70), mg.shifts(70)).shape == (4900, 70)


def test_errors() -> None:
    with refused("equivariant_basis", ("C_4", "D_2")):
        mg.equivariant_basis(mg.cyclic(4), mg.dihedral(2))
    with refused("equivariant_basis", "C_8 on 3x3 pixels"):
        mg.equivariant_basis(mg.image_rotations(3, 8, "bilinear"), mg.cyclic(8).regular())
