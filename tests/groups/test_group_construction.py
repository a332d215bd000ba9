"""The class ``Group``, the named groups, generated groups and image groups."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import metasym.groups as mg
from metasym.groups import Group
from tests.refusals import refused


def every_product_holds(group: Group) -> None:
    pi = group.matrices
    for g in range(group.order):
        for h in range(group.order):
            torch.testing.assert_close(pi[g] @ pi[h], pi[group.table[g, h]], atol=1e-12, rtol=0)


@pytest.mark.parametrize(
    ("group", "order", "degree"),
    [
        (mg.cyclic(8), 8, 8),
        (mg.dihedral(1), 2, 1),
        (mg.dihedral(2), 4, 2),
        (mg.dihedral(5), 10, 5),
        (mg.symmetric(4), 24, 4),
        (mg.quaternion(), 8, 4),
        (mg.trivial(3), 1, 3),
        (mg.shifts(6), 6, 6),
        (mg.image_rotations(4), 4, 16),
        (mg.image_rotations_flips(3, order=2), 4, 9),
        (mg.quaternion() * mg.cyclic(3), 24, 12),
        (mg.direct_product(mg.quaternion(), mg.cyclic(3), action="sum"), 24, 7),
        (mg.direct_product(mg.dihedral(3), mg.cyclic(3)), 18, 9),
        (mg.direct_product(mg.dihedral(3), mg.cyclic(3), action="sum"), 18, 6),
    ],
    ids=repr,
)
def test_named_groups(group: Group, order: int, degree: int) -> None:
    assert (group.order, group.degree, group.identity) == (order, degree, 0)
    assert group.exact
    assert group.is_orthogonal
    assert group.homomorphism_error < 1e-14
    every_product_holds(group)
    every_product_holds(group.regular())
    every_product_holds(group.fields(2).direct_sum(group.trivial_rep(2)))
    for g in range(order):
        assert int(group.table[g, group.inverse(g)]) == group.identity


def test_convention_of_permutations() -> None:
    group = mg.from_generators([[1, 2, 0]])
    v = torch.tensor([10.0, 20.0, 30.0], dtype=torch.float64)
    assert (group.matrices[1] @ v).tolist() == [30, 10, 20]  # point 0 went to 1: (pi v)[1] = v[0]
    assert (mg.shifts(3).matrices[1] @ v).tolist() == [30, 10, 20]
    assert torch.equal(Group(group.matrices, group.table).matrices, group.matrices)
    assert Group(group.matrices, group.table).is_permutation


def test_the_tables_are_the_right_groups() -> None:
    def orders(group: Group) -> list[int]:
        found = []
        for g in range(group.order):
            power, n = g, 1
            while power != group.identity:
                power, n = int(group.table[power, g]), n + 1
            found.append(n)
        return sorted(found)

    assert orders(mg.quaternion()) == [1, 2, 4, 4, 4, 4, 4, 4]
    assert orders(mg.dihedral(4)) == [1, 2, 2, 2, 2, 2, 4, 4]
    assert orders(mg.dihedral(2)) == [1, 2, 2, 2]  # although it acts on two points only
    assert orders(mg.symmetric(3)) == [1, 2, 2, 2, 3, 3]
    assert orders(mg.cyclic(2) * mg.cyclic(3)) == orders(mg.cyclic(6))
    q = mg.quaternion()
    names = dict(zip(q.element_names, range(8), strict=True))
    for left, right, product in (("i", "j", "k"), ("j", "k", "i"), ("k", "i", "j"), ("j", "i", "-k")):
        assert q.element_names[int(q.table[names[left], names[right]])] == product


def test_restrict_and_same_group() -> None:
    d4 = mg.dihedral(4)
    rotations = d4.restrict([0, 1, 2, 3])
    assert rotations.same_group(mg.cyclic(4))
    assert torch.equal(rotations.matrices, mg.cyclic(4).matrices)
    assert not d4.same_group(mg.quaternion())
    assert d4.regular().same_group(d4)
    quarter_turns = mg.image_rotations(3, order=8, interpolation="bilinear").restrict([0, 2, 4, 6])
    assert quarter_turns.exact
    assert torch.equal(quarter_turns.matrices, mg.image_rotations(3).matrices)


def test_repr_and_names() -> None:
    assert repr(mg.cyclic(3)) == "Group(C_3, order=3, degree=3, permutations)"
    assert "not exact" in repr(mg.image_rotations(3, 8, "bilinear"))
    assert mg.dihedral(3).element_names == ("e", "r1", "r2", "f", "r1f", "r2f")


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_image_groups_are_rot90_and_flip(size: int) -> None:
    image = torch.randn(size, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    group = mg.image_rotations_flips(size)
    for g in range(8):
        start = image.flip(1) if g >= 4 else image
        expected = torch.rot90(start, g % 4, (0, 1))
        assert torch.equal((group.matrices[g] @ image.flatten()).reshape(size, size), expected)
    assert torch.equal(mg.image_rotations(size, 2).matrices, group.matrices[[0, 2]])


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("flips", [False, True])
def test_interpolated_rotations_say_how_wrong_they_are(interpolation: str, flips: bool) -> None:
    make = mg.image_rotations_flips if flips else mg.image_rotations
    group = make(7, order=8, interpolation=interpolation)
    assert not group.exact
    assert not group.is_orthogonal
    assert 0.1 < group.homomorphism_error < 2
    exact = make(7)
    right_angles = [g for g in range(group.order) if g % 2 == 0]
    assert torch.equal(group.matrices[right_angles], exact.matrices)
    assert group.same_group(mg.dihedral(8) if flips else mg.cyclic(8))
    # Both kernels reproduce a linear function, where all the pixels that they take are inside the image.
    along = torch.arange(7, dtype=torch.float64) - 3
    x, y = along.repeat(7), -along.repeat_interleave(7)
    inside = torch.hypot(x, y) <= 1.5
    turned = group.matrices[1] @ (x + 2 * y)
    c = math.sqrt(0.5)
    expected = (c * x + c * y) + 2 * (-c * x + c * y)  # (pi(g) f)(p) = f(g^-1 p)
    torch.testing.assert_close(turned[inside], expected[inside], atol=1e-9, rtol=0)


def test_interpolation_is_not_needed_at_right_angles() -> None:
    assert torch.equal(mg.image_rotations(4, 4, "bicubic").matrices, mg.image_rotations(4).matrices)


def test_generated_groups() -> None:
    assert mg.from_generators([[1, 0, 2], [1, 2, 0]]).order == 6
    assert mg.from_generators([[0, 1, 2]]).order == 1
    assert mg.from_generators([torch.tensor([1, 2, 3, 4, 5, 0]), [5, 4, 3, 2, 1, 0]]).order == 12
    tetrahedron = mg.from_generators([[[0, 0, 1], [1, 0, 0], [0, 1, 0]], [[-1, 0, 0], [0, -1, 0], [0, 0, 1]]])
    assert (tetrahedron.order, tetrahedron.degree) == (12, 3)
    mixed = mg.from_generators([[1, 0], [[-1.0, 0.0], [0.0, 1.0]]])
    assert mixed.order == 8
    cycle = mg.from_generators([[1, 2, 0], torch.eye(3)])
    assert torch.equal(cycle.matrices[cycle.generators[0]], mg.cyclic(3).matrices[1])
    every_product_holds(mixed)


def test_lists_of_floats_are_read_in_double_precision() -> None:
    cos, sin = math.cos(math.pi / 7), math.sin(math.pi / 7)
    group = mg.from_generators([[[cos, -sin], [sin, cos]]])
    assert group.order == 14
    assert group.is_orthogonal
    assert float(group.matrices[group.generators[0], 0, 0]) == pytest.approx(cos, abs=1e-15)


def test_rounded_generators_are_refined() -> None:
    angle = 2 * math.pi / 360
    rotation = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    assert rotation.dtype == torch.float32
    group = mg.from_generators([rotation, torch.tensor([[1.0, 0.0], [0.0, -1.0]])])
    assert group.order == 720
    assert group.homomorphism_error < 1e-13
    assert (group.matrices[group.generators[0]] - rotation).abs().max() < 1e-6


def test_groups_of_order_1000_are_quick() -> None:
    assert mg.shifts(1000).order == 1000
    assert mg.dihedral(500).regular().degree == 1000


def table(*rows: list[int]) -> torch.Tensor:
    return torch.tensor(rows)


C2 = table([0, 1], [1, 0])
SWAP = torch.tensor([[0, 1], [1, 0]])
FIVE = torch.tensor(  # identity and inverses, but not associative
    [[0, 1, 2, 3, 4], [1, 0, 3, 4, 2], [2, 4, 0, 1, 3], [3, 2, 4, 0, 1], [4, 3, 1, 2, 0]]
)
NAN = float("nan")

BAD: list[tuple[str, object, Callable[[], object]]] = [
    ("cyclic(n)", 0, lambda: mg.cyclic(0)),
    ("dihedral(n)", 2.5, lambda: mg.dihedral(2.5)),  # type: ignore[arg-type]
    ("symmetric(n)", 20, lambda: mg.symmetric(20)),
    ("trivial(n)", True, lambda: mg.trivial(True)),
    ("shifts(n)", "3", lambda: mg.shifts("3")),  # type: ignore[arg-type]
    (
        "action",
        "tensor",
        lambda: mg.cyclic(2).product(mg.cyclic(2), "tensor"),
    ),
    ("interpolation", None, lambda: mg.image_rotations(3, order=8)),
    ("interpolation", None, lambda: mg.image_rotations_flips(3, order=3)),
    ("order", -4, lambda: mg.image_rotations(3, order=-4)),
    ("size", 0, lambda: mg.image_rotations(0)),
    ("interpolation", "nearest", lambda: mg.image_rotations(3, 8, "nearest")),
    ("generators", None, lambda: mg.from_generators([])),
    (
        "generator 0",
        [0, 0, 1],
        lambda: mg.from_generators([[0, 0, 1]]),
    ),
    ("generator 1", [0, 3], lambda: mg.from_generators([[1, 0], [0, 3]])),
    ("generator 0", [0.5, 1.0], lambda: mg.from_generators([torch.tensor([0.5, 1.0])])),
    ("generator 0", (2, 3), lambda: mg.from_generators([torch.ones(2, 3)])),
    ("generator 0", (0,), lambda: mg.from_generators([[]])),
    ("generator 0", (1, 2, 2), lambda: mg.from_generators([torch.ones(1, 2, 2)])),
    ("generator 0", "NaN or infinity", lambda: mg.from_generators([[[NAN, 0.0], [0.0, 1.0]]])),
    ("generator 0", "singular", lambda: mg.from_generators([[[1.0, 0.0], [0.0, 0.0]]])),
    ("generator 0", 0.5, lambda: mg.from_generators([[[1.0, 0.0], [0.0, 0.5]]])),
    ("max_order", 2000, lambda: mg.from_generators([[[1.0, 1.0], [0.0, 1.0]]])),
    ("max_order", 100, lambda: mg.from_generators([[1, 2, 3, 4, 5, 0], [1, 0, 2, 3, 4, 5]], 100)),
    ("max_order", 0, lambda: mg.from_generators([[0]], max_order=0)),
    ("generators", [2, 3], lambda: mg.from_generators([[1, 0], [1, 0, 2]])),
    ("generator 0", "str", lambda: mg.from_generators(["ab"])),  # type: ignore[list-item]
    ("generator 0", "list", lambda: mg.from_generators([[[1, 2], [3]]])),
    ("generator 0", torch.complex64, lambda: mg.from_generators([torch.eye(2, dtype=torch.complex64)])),
    ("table", (1, 2), lambda: Group(SWAP, table([0, 1]))),
    ("table", torch.float32, lambda: Group(SWAP, C2.float())),
    ("table", "list", lambda: Group(SWAP, [[0]])),  # type: ignore[arg-type]
    ("closure", (2, (1, 1)), lambda: Group(SWAP, table([0, 1], [1, 2]))),
    ("identity", None, lambda: Group(SWAP, table([1, 1], [1, 1]))),
    ("inverse of g1", None, lambda: Group(SWAP, table([0, 1], [1, 1]))),
    ("associativity", ("g1", "g1", "g2"), lambda: Group(torch.arange(5).expand(5, 5), FIVE)),
    (
        "pi(a) pi(a)",
        2.0,
        lambda: Group(table([0, 1, 2], [1, 2, 0]), C2, element_names=["e", "a"]),
    ),
    ("pi(g0)", None, lambda: Group(table([1, 0], [1, 0]), C2)),
    (
        "pi(g1) pi(g1)",
        pytest.approx(2.0),
        lambda: Group(torch.tensor([[[1.0]], [[3**0.5]]]), C2),
    ),
    ("representation", 1, lambda: Group(SWAP[:1], C2)),
    ("representation", torch.complex64, lambda: Group(torch.ones(2, 1, 1, dtype=torch.complex64), C2)),
    ("representation", (2, 2, 3), lambda: Group(torch.ones(2, 2, 3), C2)),
    (
        "representation of element 1",
        "NaN or infinity",
        lambda: Group(torch.tensor([[[1.0]], [[NAN]]]), C2, exact=False),
    ),
    ("representation", (2,), lambda: Group(torch.ones(2), C2)),
    ("permutations", torch.float32, lambda: Group(SWAP.float(), C2)),
    ("permutations", [1, 1], lambda: Group(table([0, 1], [1, 1]), C2)),
    ("element_names", 1, lambda: Group(SWAP, C2, element_names=["e"])),
    (
        "generators",
        [2],
        lambda: Group(table([0, 1], [1, 0]), C2, generators=[2]),
    ),
    ("direct_sum", "C_3", lambda: mg.cyclic(2).direct_sum(mg.cyclic(3))),
    ("fields(count)", 0, lambda: mg.cyclic(2).fields(0)),
    ("trivial_rep(n)", -1, lambda: mg.cyclic(2).trivial_rep(-1)),
    ("restrict", ("r1", "r1"), lambda: mg.cyclic(4).restrict([0, 1])),
    ("restrict", [4], lambda: mg.cyclic(4).restrict([4])),
    ("restrict", [0, 0], lambda: mg.cyclic(4).restrict([0, 0])),
]


@pytest.mark.parametrize(("about", "found", "make"), BAD)
def test_bad_input_is_one_line(about: str, found: object, make: Callable[[], object]) -> None:
    with refused(about, found):
        make()


@pytest.mark.parametrize(
    "generator",
    [
        [[1.0, 1e-6], [0.0, 1.0]],  # a shear
        [[math.cos(1e-6), -math.sin(1e-6)], [math.sin(1e-6), math.cos(1e-6)]],  # a rotation of huge order
    ],
)
def test_a_generator_near_the_identity_is_not_taken_for_it(generator: list[list[float]]) -> None:
    with refused("generator 0", pytest.approx(1e-6)):
        mg.from_generators([generator])
