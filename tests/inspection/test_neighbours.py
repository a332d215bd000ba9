"""Large layers are read by neighbours: the same classes as by all pairs, and names of large groups."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import metasym as ms
from metasym.inspection import pattern as reading
from metasym.inspection import reading_thresholds as thresholds
from metasym.inspection.neighbours import cut_tree, distances, spanning_tree
from tests.fast_layers import patterns


def scattered(classes: np.ndarray, noise: float, k: int, seed: int) -> np.ndarray:
    """Rows of U of a pattern: a random point a class, up to sign, zeros at the origin, with scatter."""
    draw = np.random.default_rng(seed)
    labels, signs = np.abs(classes).ravel(), np.sign(classes).ravel()
    points = draw.standard_normal((int(labels.max()) + 1, k)) / np.sqrt(k)
    points[0] = 0
    return points[labels] * signs[:, None] + noise * draw.standard_normal((len(labels), k)) / np.sqrt(k)


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    pairs = {(int(x), int(y)) for x, y in zip(a.ravel(), b.ravel(), strict=True)}
    return len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs})


@settings(max_examples=10, deadline=None)
@given(
    n=st.integers(6, 14), k=st.integers(4, 9), seed=st.integers(0, 1000), noise=st.sampled_from([0.0, 0.01])
)
def test_neighbours_give_the_cut_of_all_pairs(n: int, k: int, seed: int, noise: float) -> None:
    U = scattered(patterns.negacyclic(n), noise, k, seed)
    near, all_pairs = reading.near_cut(U), reading.best_cut(U)
    assert near is not None
    assert all_pairs is not None
    assert same_partition(near.labels, all_pairs.labels)
    assert near.margin == pytest.approx(all_pairs.margin, rel=0.3) or noise == 0


def test_the_tree_joins_everything_and_measures_up_to_sign() -> None:
    points = scattered(patterns.negacyclic(80), 0.02, 12, 0).astype(np.float32)
    tree = spanning_tree(points)
    assert len(tree[0]) == len(points)  # with the origin: one join fewer than points
    assert cut_tree(len(points), tree, len(points)).max() == 0
    a, b = np.array([0]), np.array([5])
    expected = min(np.linalg.norm(points[0] - points[5]), np.linalg.norm(points[0] + points[5]))
    assert distances(points, a, b)[0] == pytest.approx(expected, rel=1e-5)


def layer(classes: np.ndarray, noise: float, k: int, seed: int = 0) -> nn.Module:
    U = torch.from_numpy(scattered(classes, noise, k, seed)).float()
    m, n = classes.shape
    return ms.reparameterize(nn.Linear(n, m, bias=False), lambda *_: ms.DenseSymmetry((m, n), U=U))


@pytest.mark.parametrize(
    ("classes", "name", "order", "seed"),
    [
        (patterns.circular(90), "Z_90", 90, 0),
        (patterns.torus(9, 10), "Z_90", 90, 0),
        (patterns.torus(10, 10), "Z_10 x Z_10", 100, 0),
        (patterns.dihedral(84), "D_84", 168, 0),
        # Of seed 0 the point of the large class is short: the same noise is 2 % of it, and not read.
        (patterns.symmetric(80), "S_80", None, 1),
    ],
    ids=["circle", "coprime torus", "torus", "dihedral", "symmetric"],
)
def test_large_groups_are_named(classes: np.ndarray, name: str, order: int | None, seed: int) -> None:
    moved = patterns.relabelled(classes, np.random.default_rng(1))
    report = ms.inspect(layer(moved, 0.01, min(24, int(classes.max())), seed))[0]
    assert report.group is not None, report.verdict
    assert report.group.name == name
    assert order is None or report.group.order == order
    assert same_partition(np.array(report.pattern.classes), moved)
    if order is None:  # 80!, of 119 digits
        assert (report.group.name, report.group.order_in_words) == (name, "about 7.1e118")


def test_entries_that_only_lie_near_one_another_are_not_one_class() -> None:
    """Weights about 1, all different, in one direction: near a place is not at it."""
    draw = np.random.default_rng(0)
    U = np.stack([1 + 0.05 * draw.standard_normal(6400), np.zeros(6400)], axis=1)
    for points, read in ((U, reading.near_cut), (U[:900], reading.best_cut)):
        cut = read(points)
        assert (
            cut is None
            or cut.margin < thresholds.PATTERN.margin
            or cut.within > reading.widest(points, cut.labels)
        )


def test_a_valid_convolution_of_90_points_is_read() -> None:
    report = ms.inspect(layer(patterns.valid(90, 5), 0.02, 5))[0]
    assert report.pattern.clear
    assert [p.description for p in report.partial] == ["shift by 1 on 85 of 86 rows"]


def test_points_without_structure_stay_without() -> None:
    U = torch.randn(90 * 90, 12, generator=torch.Generator().manual_seed(0))
    model = ms.reparameterize(nn.Linear(90, 90, bias=False), lambda *_: ms.DenseSymmetry((90, 90), U=U))
    report = ms.inspect(model)[0]
    assert report.group is None
    assert not report.pattern.clear
