"""How a group moves an orbit, and names of wreath products, against all elements of small groups."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sympy.combinatorics import Permutation
from sympy.combinatorics.perm_groups import PermutationGroup

from metasym.groups.action_parts import action_of
from metasym.groups.block_systems import block_systems
from metasym.groups.identification import identify
from metasym.groups.orbit_actions import Shape, group_order, orbit_action
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation

Move = tuple[int, ...]


def swaps(n: int) -> list[Move]:
    return [tuple(i + 1 if p == i else i if p == i + 1 else p for p in range(n)) for i in range(n - 1)]


def turn(n: int) -> list[Move]:
    return [tuple((i + 1) % n for i in range(n))]


def reflected(n: int) -> list[Move]:
    return [*turn(n), tuple(-i % n for i in range(n))]


def even(n: int) -> list[Move]:
    return [tuple({0: 1, 1: i, i: 0}.get(p, p) for p in range(n)) for i in range(2, n)]


def wreath(inner: list[Move], outer: list[Move]) -> list[Move]:
    """Generators of the wreath product on blocks that follow each other."""
    b, k = len(inner[0]), len(outer[0])
    return [
        *((*g, *range(b, b * k)) for g in inner),
        *(tuple(b * g[i // b] + i % b for i in range(b * k)) for g in outer),
    ]


def grid(rows: list[Move], columns: list[Move]) -> list[Move]:
    r, c = len(rows[0]), len(columns[0])
    return [
        *(tuple(c * g[i // c] + i % c for i in range(r * c)) for g in rows),
        *(tuple(c * (i // c) + g[i % c] for i in range(r * c)) for g in columns),
    ]


def relabelled(moves: list[Move], seed: int) -> list[Move]:
    """The same group on points in a random order, from random products of its generators too."""
    rng = np.random.default_rng(seed)
    n = len(moves[0])
    order = rng.permutation(n)
    back = np.argsort(order)
    arrays = [np.array(g) for g in moves]
    arrays += [arrays[rng.integers(len(arrays))][arrays[rng.integers(len(arrays))]] for _ in range(2)]
    return [tuple(order[g[back]].tolist()) for g in arrays]


PLANTED = {
    "S_3 wr Z_2": (wreath(swaps(3), turn(2)), 72),
    "Z_3 wr Z_2": (wreath(turn(3), turn(2)), 18),
    "S_3 wr S_3": (wreath(swaps(3), swaps(3)), 1296),
    "Z_2 wr Z_3": (wreath(turn(2), turn(3)), 24),
    "D_5 wr Z_2": (wreath(reflected(5), turn(2)), 200),
    "S_4 wr Z_2": (wreath(swaps(4), turn(2)), 1152),
    "S_5 wr Z_2": (wreath(swaps(5), turn(2)), 28800),
    "Z_3 wr S_4": (wreath(turn(3), swaps(4)), 1944),
    "Z_2 wr S_5": (wreath(turn(2), swaps(5)), 3840),
    "A_4 wr Z_2": (wreath(even(4), turn(2)), 288),
    "(S_3 wr Z_2) wr Z_2": (wreath(wreath(swaps(3), turn(2)), turn(2)), 2 * 72**2),
    "Z_3 wr D_4": (wreath(turn(3), reflected(4)), 8 * 81),
}
# Z_2 wr Z_3 is A_4 x Z_2, and Z_3 wr D_4 has blocks of six too: (Z_3 wr Z_2) wr Z_2. Isomorphic groups have one name.
OTHER_NAMES = {"Z_2 wr Z_3": "A_4 x Z_2", "Z_3 wr D_4": "(Z_3 wr Z_2) wr Z_2", "Z_3 wr Z_2": "S_3 x Z_3"}


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("seed", [0, 1])
def test_wreath_products_have_names(name: str, seed: int) -> None:
    moves, order = PLANTED[name]
    assert identify(relabelled(moves, seed)) == (OTHER_NAMES.get(name, name), order)


def test_a_wreath_product_beside_another_factor_is_in_brackets() -> None:
    moves = wreath(swaps(3), turn(2))
    both = [*((*g, 6, 7, 8) for g in moves), (*range(6), 7, 8, 6)]
    assert identify(both) == ("(S_3 wr Z_2) x Z_3", 216)


def test_a_group_that_is_only_inside_a_wreath_product_has_not_its_name() -> None:
    """Both blocks by the same permutation, and a swap: S_3 x Z_2 = D_6 of order 12, not 72. And parity: order 36."""
    same = [(*g, *(3 + i for i in g)) for g in swaps(3)]
    assert identify([*same, (3, 4, 5, 0, 1, 2)]) == ("D_6", 12)
    thirds = [(1, 2, 0, 3, 4, 5), (1, 0, 2, 4, 3, 5), (3, 4, 5, 0, 1, 2)]
    assert identify(thirds)[1] == 36
    assert " wr " not in identify(thirds)[0]


@pytest.mark.parametrize(
    ("moves", "shape"),
    [
        (swaps(5), Shape.ANY),
        (even(5), Shape.EVEN),
        (turn(12), Shape.RING),
        (reflected(9), Shape.REFLECTED),
        (wreath(swaps(3), turn(2)), Shape.BLOCKS),
        (grid(swaps(3), turn(4)), Shape.GRID),
        (grid(turn(2), turn(2)), Shape.GRID),
        ([(1, 2, 3, 4, 0), (0, 2, 4, 1, 3)], Shape.OTHER),  # x -> 2 x + 1 modulo 5
        ([tuple((i + 1) % 8 for i in range(8)), tuple(3 * i % 8 for i in range(8))], Shape.OTHER),
    ],
)
def test_shapes(moves: list[Move], shape: Shape) -> None:
    for seed in range(3):
        mixed = relabelled(moves, seed)
        action = orbit_action(mixed, range(len(mixed[0])))
        assert action.shape is shape
        assert action.order == PermutationGroup([Permutation(list(g)) for g in mixed]).order()


def test_the_points_of_a_ring_are_in_the_order_around_it() -> None:
    mixed = relabelled(reflected(7), 3)
    ring = orbit_action(mixed, range(7)).points
    neighbours = {frozenset(pair) for pair in itertools.pairwise((*ring, ring[0]))}
    assert all(frozenset(g[i] for i in pair) in neighbours for g in mixed for pair in neighbours)


@pytest.mark.parametrize("n", [4, 6])
def test_block_systems_against_all_partitions(n: int) -> None:
    """Brute force: every partition into blocks of one size that all generators keep."""

    def partitions(points: list[int], size: int) -> list[list[tuple[int, ...]]]:
        if not points:
            return [[]]
        first, *rest = points
        found = []
        for others in itertools.combinations(rest, size - 1):
            left = [p for p in rest if p not in others]
            found += [[(first, *others), *more] for more in partitions(left, size)]
        return found

    groups = [turn(n), reflected(n), swaps(n), wreath(swaps(n // 2), turn(2)), wreath(turn(2), swaps(n // 2))]
    for moves in groups:
        expected = set()
        for size in (s for s in range(2, n) if n % s == 0):
            for blocks in partitions(list(range(n)), size):
                kept = {frozenset(b) for b in blocks}
                if all(frozenset(g[i] for i in b) in kept for g in moves for b in blocks):
                    expected.add(frozenset(kept))
        found = {frozenset(map(frozenset, blocks)) for blocks in block_systems(moves, n)}
        assert found == expected


def test_parts_are_direct_factors_and_linked_orbits_are_one_part() -> None:
    # Outputs 0, 1 swap with inputs 0, 1; inputs 2, 3, 4 are permuted for themselves.
    moves = [
        SignedPermutation((1, 0), (1, 0, 2, 3, 4)),
        SignedPermutation((0, 1), (0, 1, 3, 2, 4)),
        SignedPermutation((1, 0), (1, 0, 2, 4, 3)),
    ]
    action = action_of(SignedGroup(tuple(moves), (2, 5)))
    assert action is not None
    seen = {
        tuple(sorted((one.side, one.action.points) for one in (*part.leading, *part.following)))
        for part in action.parts
    }
    assert seen == {(("inputs", (0, 1)), ("outputs", (0, 1))), (("inputs", (2, 3, 4)),)}


def test_parity_links_what_pairs_do_not_show() -> None:
    """Three swaps of which only two at a time are made: any two are independent, the three are not."""
    moves = [SignedPermutation((0,), (1, 0, 3, 2, 4, 5)), SignedPermutation((0,), (0, 1, 3, 2, 5, 4))]
    action = action_of(SignedGroup(tuple(moves), (1, 6)))
    assert action is not None
    (part,) = action.parts
    assert len(part.leading) == 2
    assert math.prod(one.action.order for one in part.leading) == 4


def test_sign_changes_generate_what_moves_nothing() -> None:
    flip = SignedPermutation((0,), (0, 1, 2), (1,), (-1, 1, 1))
    swap = SignedPermutation((0,), (1, 0, 2), (-1,), (1, 1, -1))
    group = SignedGroup((flip, swap), (1, 3))
    action = action_of(group)
    assert action is not None
    still = [g for g in group.elements if not g.permutes]
    assert len(still) == 2 ** len(action.sign_changes)
    assert action.signed


def test_orders_do_not_depend_on_the_order_of_generators() -> None:
    """S_5 x Z_2 on ten points came out with 120 elements: random products stayed in one half of it."""
    moves = grid(swaps(5), turn(2))
    for order in itertools.permutations(range(len(moves))):
        assert group_order([moves[i] for i in order]) == 240
    for name, (planted, size) in PLANTED.items():
        for seed in range(4):
            assert group_order(relabelled(planted, seed)) == size, name


def test_sign_changes_of_a_large_group_are_all_found() -> None:
    """Three equal blocks of three inputs, each with its signs: 6 moves, and 2^9 changes of sign."""
    flips = [
        SignedPermutation((0,), tuple(range(9)), (1,), tuple(1 - 2 * (j == i) for j in range(9)))
        for i in range(3)
    ]
    turn = SignedPermutation((0,), (3, 4, 5, 6, 7, 8, 0, 1, 2), (1,), (1,) * 9)
    swap = SignedPermutation((0,), (3, 4, 5, 0, 1, 2, 6, 7, 8), (1,), (1,) * 8 + (-1,))
    group = SignedGroup((*flips, turn, swap), (1, 9))
    assert group.order == 6 * 2**9
    action = action_of(group)
    assert action is not None
    assert [g.moved_inputs for g in action.sign_changes or ()] == [(i,) for i in range(9)]
    assert not action.signed


def test_a_sign_change_of_every_point_is_none_up_to_sign() -> None:
    flip = SignedPermutation((0, 1), (0, 1), (-1, 1), (1, 1))
    other = SignedPermutation((0, 1), (0, 1), (1, -1), (-1, -1))
    action = action_of(SignedGroup((flip, other), (2, 2), up_to_sign=True))
    assert action is not None
    assert [(g.moved_outputs, g.moved_inputs) for g in action.sign_changes or ()] == [((0,), ())]
