"""Lie algebras: axioms, names in any coordinates, equivariant maps against the finite oracle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metasym as ms
from metasym.groups import LieAlgebra, name_of_algebra, so
from tests.refusals import refused


def turned(algebra: LieAlgebra, seed: int, *, orthogonal: bool = True) -> LieAlgebra:
    n = algebra.degree
    matrix = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    if orthogonal:
        matrix = torch.linalg.qr(matrix)[0]
    return LieAlgebra(matrix @ algebra.generators @ torch.linalg.inv(matrix))


def special_linear(n: int) -> LieAlgebra:
    found = []
    for i in range(n):
        for j in range(n):
            matrix = torch.zeros(n, n, dtype=torch.float64)
            if i != j:
                matrix[i, j] = 1
            elif i < n - 1:
                matrix[i, i], matrix[i + 1, i + 1] = 1, -1
            else:
                continue
            found.append(matrix)
    return LieAlgebra(torch.stack(found))


@settings(max_examples=20, deadline=None)
@given(n=st.integers(2, 6), seed=st.integers(0, 1000))
def test_rotations_are_named_in_any_coordinates(n: int, seed: int) -> None:
    assert name_of_algebra(turned(so(n), seed)) == f"so({n})"


@pytest.mark.parametrize(("p", "q"), [(1, 2), (1, 3), (1, 4), (2, 3)])
def test_indefinite_forms_are_named_by_the_killing_form(p: int, q: int) -> None:
    assert name_of_algebra(turned(so(p, q), 1, orthogonal=False)) == f"so({p},{q})"


@pytest.mark.parametrize("n", [2, 3])
def test_special_and_general_linear(n: int) -> None:
    special = special_linear(n)
    assert name_of_algebra(special) == f"sl({n})"
    general = torch.cat([special.generators, torch.eye(n, dtype=torch.float64)[None]])
    assert name_of_algebra(LieAlgebra(general)) == f"gl({n})"


def test_copies_and_sums_are_told_apart() -> None:
    five, three = so(5), so(3)
    copies = LieAlgebra(five.direct_sum(five).generators)
    assert name_of_algebra(turned(copies, 2)) == "so(5)"
    zero5, zero3 = torch.zeros(5, 5, dtype=torch.float64), torch.zeros(3, 3, dtype=torch.float64)
    both = [torch.block_diag(g, zero3) for g in five.generators]
    both += [torch.block_diag(zero5, g) for g in three.generators]
    assert name_of_algebra(turned(LieAlgebra(torch.stack(both)), 3)) == "so(5)+so(3)"


def test_motions_of_space() -> None:
    moves = [torch.nn.functional.pad(g, (0, 1, 0, 1)) for g in so(3).generators]
    for i in range(3):
        shift = torch.zeros(4, 4, dtype=torch.float64)
        shift[i, 3] = 1
        moves.append(shift)
    assert name_of_algebra(LieAlgebra(torch.stack(moves))) == "so(3)+R^3 (translations)"
    assert name_of_algebra(LieAlgebra(torch.stack(moves[3:]))) == "R^3 (translations)"


def test_one_parameter_groups() -> None:
    assert name_of_algebra(so(2)) == "so(2)"
    scaling = torch.diag(torch.tensor([1.0, 2.0, 0.0], dtype=torch.float64))
    assert name_of_algebra(LieAlgebra(scaling[None])) == "R (a scaling)"


def test_what_is_no_algebra_is_refused() -> None:
    with refused("generators", pytest.approx(0.5**0.5)):
        LieAlgebra(so(3).generators[:2])
    with refused("generators", (4, 3)):
        LieAlgebra(torch.cat([so(3).generators, so(3).generators[:1]]))
    with refused("generators", (2, 3, 4)):
        LieAlgebra(torch.zeros(2, 3, 4))
    with refused("p", 0):
        so(0)


def test_equivariant_maps_of_a_continuous_group_commute_with_its_elements() -> None:
    vectors = so(4).direct_sum(so(4))
    basis = ms.groups.equivariant_basis(vectors, vectors)
    assert basis.shape[1] == 4  # 2 x 2 multiples of one, by Schur's lemma
    g = vectors.element(torch.randn(6, generator=torch.Generator().manual_seed(0)))
    for column in basis.T:
        W = column.reshape(8, 8)
        torch.testing.assert_close(g @ W, W @ g, atol=1e-9, rtol=0)
    assert ms.groups.equivariant_basis(vectors, vectors.trivial_rep(2)).shape == (16, 0)


def test_so2_has_the_maps_of_a_fine_finite_rotation_group() -> None:
    angle = torch.tensor(2 * torch.pi / 7, dtype=torch.float64)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
    finite = ms.groups.from_generators([turn])
    oracle = ms.groups.equivariant_basis(finite, finite)
    found = ms.groups.equivariant_basis(so(2), so(2))
    torch.testing.assert_close(found @ found.T, oracle @ oracle.T, atol=1e-9, rtol=0)


def test_finite_and_continuous_do_not_mix() -> None:
    with refused("equivariant_basis", ("LieAlgebra", "Group")):
        ms.groups.equivariant_basis(so(2), ms.groups.cyclic(3))
