"""The group of a pattern against all permutations, tried one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from metasym.groups.pattern_groups import pattern_group


def named(classes: np.ndarray) -> tuple[str, int]:
    group = pattern_group(classes)
    return group.name, group.order


def brute_force(classes: np.ndarray, *, signed: bool) -> int:
    """How many pairs of (signed) permutations keep every class; signed, modulo -1 on both sides."""
    m, n = classes.shape
    signs_out = list(itertools.product((1, -1), repeat=m)) if signed else [(1,) * m]
    signs_in = list(itertools.product((1, -1), repeat=n)) if signed else [(1,) * n]
    count = 0
    for rows in itertools.permutations(range(m)):
        for columns in itertools.permutations(range(n)):
            moved = classes[np.ix_(rows, columns)]
            if not np.array_equal(abs(moved), abs(classes)):
                continue
            for s in signs_out:
                for t in signs_in:
                    count += np.array_equal(np.outer(s, t) * moved, classes)
    return count // 2 if signed else count


@pytest.mark.parametrize("seed", range(40))
def test_unsigned_patterns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, size=2))
    classes = rng.integers(0, rng.integers(1, 5), size=shape)
    group = pattern_group(classes)
    assert not group.up_to_sign
    count = brute_force(classes, signed=False)
    assert group.known_order == group.order == count


@pytest.mark.parametrize("seed", range(25))
def test_signed_patterns(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(2, 4, size=2))
    classes = rng.integers(0, rng.integers(2, 4), size=shape) * rng.choice([1, -1], size=shape)
    group = pattern_group(classes)
    if group.up_to_sign:
        assert group.known_order == group.order == brute_force(classes, signed=True)


def test_the_classes_are_kept_one_by_one_not_only_as_a_partition() -> None:
    """A circulant keeps its shifts alone; turning classes into each other would add many more."""
    classes = 1 + (np.arange(7)[None, :] - np.arange(7)[:, None]) % 7
    assert named(classes) == ("Z_7", 7)


def test_transitivity_is_told_for_each_side() -> None:
    group = pattern_group(np.array([[1, 1, 2], [1, 1, 2]]))
    assert group.transitive == (True, False)
    assert (group.name, group.order) == ("Z_2 x Z_2", 4)


def test_large_groups_have_exact_orders_and_names() -> None:
    ones = np.ones((12, 12), dtype=np.int64)
    assert named(ones + np.eye(12, dtype=np.int64)) == ("S_12", 479001600)
    name, order = named(np.kron(np.eye(6, dtype=np.int64), np.ones((2, 2), dtype=np.int64)))
    assert order == 2**6 * 2**6 * 720  # 6 blocks, rows and columns swapped in each
    assert name == f"a group of order {order}"


def test_signed_groups_that_are_large() -> None:
    eye = np.eye(5, dtype=np.int64)
    eye[0, 0] = -1
    name, order = named(eye)
    assert order == 120 * 2**5 // 2  # all signed permutations, modulo -1
    assert name == "a group of order 1920"
