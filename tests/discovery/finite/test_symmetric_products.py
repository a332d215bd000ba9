"""Groups that are too large to be written out: all permutations of some inputs."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
import torch
from studies.function_attacks import judge, make

import metasym as ms
from metasym.discovery.finite.symmetric_products import (
    gap,
    interchangeable,
    subgroups,
    swap,
)
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation


@pytest.mark.parametrize("count", [3, 7, 8, 10])
def test_subgroups_generate_all_permutations(count: int) -> None:
    shape = (1, count)
    found = subgroups(tuple(range(count)), shape)
    for some in found:
        assert SignedGroup(tuple(some), shape).has_at_most(720)
    whole = SignedGroup(tuple(g for some in found for g in some), shape)
    assert whole.order == math.factorial(count)
    assert 0.01 < gap(count) <= 1


def test_subgroups_bound_what_all_permutations_do_not_keep() -> None:
    """By brute force: functions on the 5,040 orders of seven things, averaged over every element of a subgroup."""
    count = 7
    orders = np.array(list(permutations(range(count))))
    keys = orders @ 10 ** np.arange(count)
    sorted_by = np.argsort(keys)
    tables = []
    for some in subgroups(tuple(range(count)), (1, count)):
        moves = [list(g.inputs) for g in SignedGroup(tuple(some), (1, count)).elements]
        moved = np.stack([orders[:, g] @ 10 ** np.arange(count) for g in moves])
        tables.append(sorted_by[np.searchsorted(keys, moved, sorter=sorted_by)])
    draw = np.random.default_rng(0)
    used = 0.0
    for rough in (0.0, 0.1, 1.0):
        linear = draw.normal(size=(count, count))
        f = linear[np.arange(count), orders].sum(1) + rough * draw.normal(size=len(orders))
        f = f + 3 * orders[:, 3] * rough
        parts = [float(((f - f[table].mean(0)) ** 2).mean()) for table in tables]
        used = max(used, float(f.var()) * gap(count) / float(np.mean(parts)))
    assert 0.4 < used <= 1 + 1e-9  # a bound, and not a vacuous one


def test_which_groups_are_all_permutations() -> None:
    shape = (1, 9)
    seven = [swap((i, i + 1), shape) for i in range(6)]
    assert interchangeable(SignedGroup(tuple(seven), shape)) == [tuple(range(7))]
    both = SignedGroup((*seven, swap((7, 8), shape)), shape)
    assert interchangeable(both) == [tuple(range(7)), (7, 8)]
    ring = SignedPermutation.of([0], [*np.roll(np.arange(9), 1)])
    assert interchangeable(SignedGroup((ring,), shape)) is None


def test_seven_inputs_that_may_be_interchanged() -> None:
    made = make("sums-S7", 0)
    run = ms.discover(made.x, made.y, continuous=False)
    [claim] = run.symmetries
    assert (claim["name"], claim["order"], claim["inputs"]) == ("S_7", 5040, list(range(7)))
    assert judge(made, run)["outcome"] == "claimed"
    points = torch.tensor(made.law(np.random.default_rng(1), 20))
    torch.testing.assert_close(run.model(points[:, [3, 0, 6, 1, 5, 2, 4]]), run.model(points))
