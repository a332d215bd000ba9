"""Both directions of Proposition 1, for every group of order at most 24 that the package can make."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metasym.groups as mg
from metasym.groups import Group


def conjugated(group: Group, seed: int = 0) -> Group:
    """The same representation in a skewed basis: no longer orthogonal."""
    n = group.degree
    change = torch.eye(n, dtype=torch.float64) + 0.4 * torch.randn(
        n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)
    ) / math.sqrt(n)
    return Group(change @ group.matrices @ torch.linalg.inv(change), group.table, name=f"{group.name} skewed")


def catalogue() -> list[Group]:
    named = [mg.quaternion(), *(mg.trivial(n) for n in range(1, 6)), *(mg.symmetric(n) for n in range(1, 5))]
    named += [mg.cyclic(n) for n in range(1, 25)] + [mg.shifts(n) for n in range(1, 25)]
    named += [mg.dihedral(n) for n in range(1, 13)]
    images = [
        make(size, order=order)
        for make in (mg.image_rotations, mg.image_rotations_flips)
        for size in range(1, 5)
        for order in (1, 2, 4)
    ]
    factors = [mg.cyclic(2), mg.cyclic(3), mg.cyclic(4), mg.symmetric(3), mg.dihedral(4), mg.quaternion()]
    factors += [mg.image_rotations(2), mg.dihedral(2)]
    products = [
        mg.direct_product(a, b, action)
        for a, b in itertools.product(factors, factors)
        for action in ("product", "sum")
        if a.order * b.order <= 24
    ]
    sums = [
        mg.cyclic(6).regular().direct_sum(mg.cyclic(6)),
        mg.symmetric(3).fields(2),
        mg.quaternion().regular(),
    ]
    skewed = [conjugated(g) for g in (mg.cyclic(5), mg.symmetric(3), mg.quaternion(), mg.image_rotations(3))]
    rotation = torch.tensor([[0.5, -math.sqrt(0.75)], [math.sqrt(0.75), 0.5]], dtype=torch.float64)
    generated = [
        mg.from_generators([[1, 2, 0, 3], [1, 0, 3, 2]], name="A_4"),
        mg.from_generators([rotation, [1, 0]], name="rotations and a swap", max_order=24),
        mg.from_generators([[[0, -1], [1, 0]]], name="quarter turns of the plane"),
        mg.from_generators([[[0, -1], [1, 1]], [[0, 1], [1, 0]]], name="integer matrices"),
    ]
    groups = named + images + products + sums + skewed + generated
    assert all(group.order <= 24 for group in groups)
    return groups


EVERY = catalogue()


def left_regular(group: Group, h: int) -> torch.Tensor:
    """``e_g -> e_{h g}``, entry by entry from the table."""
    matrix = torch.zeros(group.order, group.order, dtype=torch.float64)
    for g in range(group.order):
        matrix[int(group.table[h, g]), g] = 1.0
    return matrix


def g_convolution(group: Group, x: list[float], psi: list[float]) -> list[float]:
    """The paper's Eq. 1 as sums over indices; nothing but the action of g on the points is used."""
    if group.permutations is not None:
        out = []
        for g in range(group.order):
            action = group.permutations[g].tolist()
            inverse = {action[i]: i for i in range(group.degree)}
            out.append(sum(x[i] * psi[inverse[i]] for i in range(group.degree)))
        return out
    # x . pi(g)^-T psi, the same for a representation that does not permute indices
    dual = torch.linalg.inv(group.matrices).mT.tolist()
    n = range(group.degree)
    return [sum(x[i] * dual[g][i][j] * psi[j] for i in n for j in n) for g in range(group.order)]


def check_proposition(group: Group) -> None:
    generator = torch.Generator().manual_seed(group.order * 100 + group.degree)
    x, v = torch.randn(2, group.degree, dtype=torch.float64, generator=generator)
    symmetry = mg.symmetry_matrix(group)
    assert symmetry.shape == (group.order * group.degree, group.degree)
    weight = (symmetry @ v).reshape(group.order, group.degree)
    for h in range(group.order):
        torch.testing.assert_close(
            weight @ group.matrices[h], left_regular(group, h) @ weight, atol=1e-10, rtol=0
        )
    expected = torch.tensor(g_convolution(group, x.tolist(), v.tolist()), dtype=torch.float64)
    torch.testing.assert_close(weight @ x, expected, atol=1e-10, rtol=0)
    # The other direction: the weight of a G-convolution, probed one input at a time, gives its filter back.
    probes = torch.eye(group.degree, dtype=torch.float64)
    columns = [g_convolution(group, probe.tolist(), v.tolist()) for probe in probes]
    probed = torch.tensor(columns, dtype=torch.float64).T.reshape(-1, 1)
    found = torch.linalg.lstsq(symmetry, probed, driver="gelsd").solution
    torch.testing.assert_close(symmetry @ found, probed, atol=1e-10, rtol=0)
    torch.testing.assert_close(found.flatten(), v, atol=1e-10, rtol=0)


@pytest.mark.parametrize("group", EVERY, ids=repr)
def test_every_group(group: Group) -> None:
    check_proposition(group)


@pytest.mark.parametrize("group", EVERY, ids=repr)
def test_symmetry_matrix_spans_all_equivariant_maps(group: Group) -> None:
    basis = mg.equivariant_basis(group, group.regular())
    assert basis.shape[1] == group.degree  # the dimension of Hom(pi, regular)
    q, _ = torch.linalg.qr(mg.symmetry_matrix(group))
    torch.testing.assert_close(q @ (q.T @ basis), basis, atol=1e-10, rtol=0)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.data())
def test_random_permutation_groups(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 5))
    generators = data.draw(st.lists(st.permutations(range(n)), min_size=1, max_size=3))
    group = mg.from_generators(generators)
    assert group.exact
    assert math.factorial(n) % group.order == 0  # Lagrange
    check_proposition(group)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(st.data())
def test_random_matrix_groups(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 4))
    signs = st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n)
    seed = data.draw(st.integers(0, 1000))
    change = torch.randn(n, n, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    change = change / 4 + torch.eye(n, dtype=torch.float64)
    if torch.linalg.cond(change) > 50:
        change = torch.eye(n, dtype=torch.float64)
    generators = []
    for _ in range(data.draw(st.integers(1, 2))):
        signed = torch.eye(n, dtype=torch.float64)[data.draw(st.permutations(range(n)))]
        signed = signed * torch.tensor(data.draw(signs), dtype=torch.float64)
        generators.append(change @ signed @ torch.linalg.inv(change))
    group = mg.from_generators(generators)
    assert (2**n * math.factorial(n)) % group.order == 0
    assert group.homomorphism_error < 1e-11
    check_proposition(group)


def test_s2_of_the_papers_figure() -> None:
    expected = [[1, 0], [0, 1], [0, 1], [1, 0]]
    for group in (mg.symmetric(2), mg.cyclic(2)):
        assert mg.symmetry_matrix(group).tolist() == expected
    weight = (mg.symmetry_matrix(mg.symmetric(2)) @ torch.tensor([3.0, 5.0], dtype=torch.float64)).reshape(
        2, 2
    )
    assert weight.tolist() == [[3, 5], [5, 3]]


def test_c4_on_the_3x3_image_of_appendix_b() -> None:
    # Turning  0 1 2      2 5 8      8 7 6      6 3 0
    #          3 4 5  to  1 4 7  to  5 4 3  to  7 4 1: row i of a block says which pixel arrives at i.
    #          6 7 8      0 3 6      2 1 0      8 5 2
    blocks = [
        [
            [1, 0, 0, 0, 0, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 1, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 1, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 1, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 1, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 1, 0],
            [0, 0, 0, 0, 0, 0, 0, 0, 1],
        ],
        [
            [0, 0, 1, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 1, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0, 1],
            [0, 1, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 1, 0],
            [1, 0, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 1, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 1, 0, 0],
        ],
        [
            [0, 0, 0, 0, 0, 0, 0, 0, 1],
            [0, 0, 0, 0, 0, 0, 0, 1, 0],
            [0, 0, 0, 0, 0, 0, 1, 0, 0],
            [0, 0, 0, 0, 0, 1, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0, 0, 0],
            [0, 0, 0, 1, 0, 0, 0, 0, 0],
            [0, 0, 1, 0, 0, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0, 0, 0],
        ],
        [
            [0, 0, 0, 0, 0, 0, 1, 0, 0],
            [0, 0, 0, 1, 0, 0, 0, 0, 0],
            [1, 0, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 1, 0],
            [0, 0, 0, 0, 1, 0, 0, 0, 0],
            [0, 1, 0, 0, 0, 0, 0, 0, 0],
            [0, 0, 0, 0, 0, 0, 0, 0, 1],
            [0, 0, 0, 0, 0, 1, 0, 0, 0],
            [0, 0, 1, 0, 0, 0, 0, 0, 0],
        ],
    ]
    group = mg.image_rotations(3, order=4)
    assert mg.symmetry_matrix(group).tolist() == [row for block in blocks for row in block]


def test_a_skewed_representation_needs_the_inverse_transpose() -> None:
    group = conjugated(mg.symmetric(3))
    v = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    h = group.generators[0]
    stacked = (group.matrices @ v).reshape(group.order, group.degree)
    assert (stacked @ group.matrices[h] - left_regular(group, h) @ stacked).abs().max() > 0.1
    check_proposition(group)


def test_interpolated_rotations_stack_pi_itself() -> None:
    group = mg.image_rotations(3, order=8, interpolation="bilinear")
    assert torch.equal(mg.symmetry_matrix(group), group.matrices.reshape(8 * 9, 9))
