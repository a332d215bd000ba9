"""Names of groups, against sympy's constructions and against each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sympy.combinatorics.named_groups import (
    AbelianGroup,
    AlternatingGroup,
    CyclicGroup,
    DihedralGroup,
    SymmetricGroup,
)

import metasym as ms
from metasym.groups.names import invariant_factors, name_of

G = ms.groups


def table(group: ms.groups.Group, seed: int = 0) -> np.ndarray:
    """The table with its elements, but the identity, in a random order."""
    rng = np.random.default_rng(seed)
    order = np.concatenate([[0], 1 + rng.permutation(group.order - 1)])
    place = np.argsort(order)
    return place[group.table.numpy()[np.ix_(order, order)]]


def from_sympy(group: object) -> ms.groups.Group:
    return G.from_generators([list(g.array_form) for g in group.generators], max_order=3000)  # type: ignore[attr-defined]


SYMPY = {
    **{f"Z_{n}": CyclicGroup(n) for n in range(2, 31)},
    **{f"D_{n}": DihedralGroup(n) for n in range(4, 25)},
    "S_3": SymmetricGroup(3),
    "S_4": SymmetricGroup(4),
    "S_5": SymmetricGroup(5),
    "S_6": SymmetricGroup(6),
    "A_4": AlternatingGroup(4),
    "A_5": AlternatingGroup(5),
    "A_6": AlternatingGroup(6),
    "Z_2 x Z_2": AbelianGroup(2, 2),
    "Z_12": AbelianGroup(3, 4),
    "Z_2 x Z_6": AbelianGroup(2, 2, 3),
    "Z_2 x Z_4": AbelianGroup(4, 2),
    "Z_2 x Z_2 x Z_2": AbelianGroup(2, 2, 2),
    "Z_3 x Z_3": AbelianGroup(3, 3),
    "Z_6 x Z_6": AbelianGroup(6, 6),
    "Z_2 x Z_60": AbelianGroup(4, 6, 5),
    "Z_4 x Z_8": AbelianGroup(4, 8),
}


@pytest.mark.parametrize("name", SYMPY)
def test_sympy_groups(name: str) -> None:
    assert str(name_of(table(from_sympy(SYMPY[name])))) == name


PRODUCTS = {
    "S_3 x Z_3": (G.symmetric(3), G.cyclic(3)),
    "S_3^2": (G.symmetric(3), G.symmetric(3)),
    "D_6": (G.symmetric(3), G.cyclic(2)),
    "D_10": (G.dihedral(5), G.cyclic(2)),
    "D_4 x Z_2": (G.dihedral(4), G.cyclic(2)),
    "Q_8 x Z_6": (G.quaternion(), G.cyclic(6)),
    "S_4 x Z_2": (G.symmetric(4), G.cyclic(2)),
    "D_5 x S_4": (G.dihedral(5), G.symmetric(4)),
    "S_3 x Z_2 x Z_2": (G.dihedral(6), G.cyclic(2)),
    "D_5 x Z_2 x Z_4": (G.dihedral(10), G.cyclic(4)),
    "D_4 x Z_3": (G.dihedral(4), G.cyclic(3)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_direct_products(name: str) -> None:
    left, right = PRODUCTS[name]
    assert str(name_of(table(G.direct_product(left, right, action="sum")))) == name


def semidirect(n: int, m: int, by: int) -> ms.groups.Group:
    """Z_n with Z_m acting on it by multiplication with ``by``."""
    points = n * m
    shift = [((i // m + 1) % n) * m + i % m for i in range(points)]  # left multiplication by (1, 0)
    turn = [(by * (i // m) % n) * m + (i % m + 1) % m for i in range(points)]  # and by (0, 1)
    return G.from_generators([shift, turn])


@pytest.mark.parametrize(("n", "m", "by"), [(3, 4, 2), (7, 3, 2), (5, 4, 2), (9, 3, 4), (8, 2, 3), (8, 2, 5)])
def test_groups_without_a_name_get_none(n: int, m: int, by: int) -> None:
    """Dicyclic, Frobenius, modular and semidihedral groups: no name rather than a near one."""
    group = semidirect(n, m, by)
    assert group.order == n * m
    assert name_of(table(group)) is None


def test_semidirect_products_that_are_dihedral() -> None:
    assert str(name_of(table(semidirect(7, 2, 6)))) == "D_7"
    assert str(name_of(table(G.quaternion()))) == "Q_8"
    assert str(name_of(torch.zeros(1, 1, dtype=torch.int64).numpy())) == "trivial"


def test_invariant_factors() -> None:
    assert invariant_factors((3, 4)) == [12]
    assert invariant_factors((2, 3, 4, 9)) == [6, 36]
    assert invariant_factors(()) == []
