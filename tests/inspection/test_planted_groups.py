"""Planted symmetries are named, whatever the gauge; what is not there is not."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import metasym as ms
from metasym.verdicts.verdict import NothingLearned, Status, Verdict
from tests.inspection.planted import (
    alternating,
    blocks_of_three,
    convolution,
    convolution_2d,
    noisy,
    of_group,
    seen,
    signed_cycle,
    turned,
)

G = ms.groups
REVERSAL = [list(range(9, -1, -1))]
PLANTED = {
    "Z_12": (of_group(G.cyclic(12)), 12, True),
    "D_10": (of_group(G.dihedral(10)), 20, True),
    "Z_2": (of_group(G.from_generators(REVERSAL)), 2, False),
    "S_3": (of_group(blocks_of_three()), 6, False),
    "Z_10": (of_group(G.cyclic(2) * G.cyclic(5)), 10, True),
    "Z_2 x Z_4": (of_group(G.cyclic(2) * G.cyclic(4)), 8, True),
    "Z_8": (of_group(signed_cycle(8)), 8, True),
    "S_4": (of_group(alternating(4)), 24, True),
    "S_5": (of_group(alternating(5)), 120, True),
    "Q_8": (of_group(G.quaternion().regular()), 8, True),
    "A_4": (of_group(alternating(4).regular()), 12, True),
    "S_3 x Z_3": (of_group(G.symmetric(3).regular() * G.cyclic(3)), 18, True),
    "D_5": (of_group(G.dihedral(5)), 10, True),
    "Z_6": (of_group(G.cyclic(6), G.cyclic(6).regular()), 6, True),
    "D_4": (of_group(G.dihedral(4).regular(), G.dihedral(4)), 8, True),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_group_is_named(name: str) -> None:
    (U, shape), order, transitive = PLANTED[name]
    report = seen(U, shape)
    assert report.group is not None
    assert (report.group.name, report.group.order) == (name, order)
    assert report.group.transitive == transitive
    assert report.pattern is not None
    assert report.pattern.count == U.shape[1] == report.effective_filter_size
    assert report.pattern.residual < 1e-12
    assert report.group.error < 1e-12
    assert report.verdict == Verdict(Status.READ)
    assert report.errors is not None
    assert max(report.errors.errors) < 1e-12
    assert report.errors.dimension == U.shape[1]
    assert report.errors.angles is not None
    assert max(report.errors.angles) < 1e-6


@pytest.mark.parametrize("name", PLANTED)
def test_generators_preserve_every_planted_weight(name: str) -> None:
    """An oracle of its own: the generators commute with random weights of the planted space."""
    (U, shape), _, _ = PLANTED[name]
    group = seen(U, shape).group
    assert group is not None
    W = (U @ torch.randn(U.shape[1], generator=torch.Generator().manual_seed(1), dtype=U.dtype)).reshape(
        shape
    )
    for g in group.generators:
        moved = torch.zeros_like(W)
        for i in range(shape[0]):
            for j in range(shape[1]):
                sign = g.output_signs[i] * g.input_signs[j]
                moved[g.outputs[i], g.inputs[j]] = sign * W[i, j]
        assert torch.allclose(moved, W)


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(["Z_12", "S_3", "Z_8", "Z_2"]),
    seed=st.integers(0, 10_000),
    extra=st.integers(0, 60),
    scale=st.floats(1e-3, 1e3),
)
def test_the_gauge_does_not_matter(name: str, seed: int, extra: int, scale: float) -> None:
    (U, shape), order, _ = PLANTED[name]
    report = seen(scale * turned(U, U.shape[1] + extra, seed), shape)
    plain = seen(U, shape)
    assert report.group is not None
    assert (report.group.name, report.group.order) == (name, order)
    assert report.effective_filter_size == U.shape[1]
    assert report.pattern is not None
    assert plain.pattern is not None
    assert report.pattern.classes == plain.pattern.classes


@pytest.mark.parametrize("name", ["Z_12", "D_10", "Z_2", "S_3", "Z_10", "Z_8"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_points_in_any_order(name: str, seed: int) -> None:
    (U, shape), order, _ = PLANTED[name]
    rng = np.random.default_rng(seed)
    rows, columns = rng.permutation(shape[0]), rng.permutation(shape[1])
    mixed = U.reshape(*shape, -1)[rows][:, columns].reshape(U.shape)
    group = seen(mixed, shape).group
    assert group is not None
    assert (group.name, group.order) == (name, order)


def divides(found: int, planted: int) -> bool:
    return planted % found == 0


@pytest.mark.parametrize("name", ["Z_12", "D_10", "Z_2", "S_3", "Z_10", "Z_8"])
def test_under_noise_the_verdict_weakens_before_it_is_wrong(name: str) -> None:
    (U, shape), order, _ = PLANTED[name]
    named = []
    for amount in (0.02, 0.05, 0.1, 0.2, 0.4, 0.8, 1.6):
        for seed in range(3):
            report = seen(noisy(turned(U, shape[0] * shape[1]), amount, seed), shape)
            named.append(report.group is not None)
            if report.group is not None:
                assert divides(report.group.order, order), (amount, seed, report.verdict)
                # A subgroup of the planted group leaves the planted weights alone.
                for g in report.group.generators:
                    grid = U.reshape(*shape, -1)
                    signs = torch.tensor(np.outer(g.output_signs, g.input_signs))[:, :, None]
                    assert torch.allclose(grid[list(g.outputs)][:, list(g.inputs)] * signs, grid)
            else:
                assert report.verdict.status in (Status.NONE, Status.UNDECIDED)
    assert named[:9] == [True] * 9  # up to a tenth of a row's length
    assert named[-6:] == [False] * 6


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 20, 64])
def test_random_matrices_have_no_symmetry(columns: int) -> None:
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        report = seen(torch.randn(64, columns, generator=generator), (8, 8))
        assert report.group is None
        assert not report.partial
        assert report.verdict.status in (Status.NONE, Status.UNDECIDED)


def test_a_family_without_symmetry() -> None:
    report = seen(noisy(torch.eye(49, dtype=torch.float64), 0.3), (7, 7))
    assert report.group is None
    assert report.effective_filter_size == 49
    assert report.verdict.status is Status.NONE


def test_all_weights_tied() -> None:
    report = seen(torch.ones(5 * 9, 1), (5, 9))
    assert report.group is not None
    assert (report.group.name, report.group.order) == ("S_5 x S_9", 120 * 362880)
    assert report.effective_filter_size == 1
    big = seen(torch.ones(40 * 30, 1), (40, 30)).group
    assert big is not None
    assert big.name == "S_30 x S_40"
    assert big.order == 815915283247897734345611269596115894272000000000 * 265252859812191058636308480000000


def test_a_layer_of_zeros_and_dead_inputs() -> None:
    zero = seen(torch.zeros(16, 3), (4, 4))
    assert zero.group is None
    assert zero.verdict.reasons == (NothingLearned(),)
    U, _ = of_group(ms.groups.cyclic(5))
    padded = torch.zeros(5, 8, U.shape[1], dtype=U.dtype)
    padded[:, :5] = U.reshape(5, 5, -1)
    report = seen(padded.reshape(40, -1), (5, 8))
    assert report.group is not None
    assert (report.group.name, report.group.order) == ("Z_5", 5)
    assert not report.group.transitive_inputs
    assert report.notes == ("3 inputs are dead: all their weights are zero",)


def test_translation_with_borders() -> None:
    U, shape = convolution(70, 3)
    report = seen(noisy(U, 0.02), shape)
    assert report.group is None
    assert [p.description for p in report.partial] == ["shift by 1 on 67 of 68 rows"]
    assert [(p.outputs, p.inputs, p.rows, p.of) for p in report.partial][:1] == [(1, 1, 67, 68)]
    assert report.effective_filter_size == 3


def test_translation_of_a_grid_and_strides() -> None:
    report = seen(*convolution_2d(7, 6, 3))
    assert [(p.outputs, p.inputs, p.rows) for p in report.partial] == [(1, 1, 15), (4, 6, 16)]
    U, (m, n) = convolution(21, 3)
    strided = U.reshape(m, n, -1)[::2].reshape(-1, 3)
    found = seen(strided, (10, n)).partial
    assert [(p.outputs, p.inputs, p.rows) for p in found] == [(1, 2, 9)]
    assert found[0].description == "shift of the outputs by 1 and the inputs by 2 on 9 of 10 rows"


def test_a_symmetric_filter_has_both() -> None:
    U, shape = convolution(20, 3)
    mirrored = torch.stack([U[:, 0] + U[:, 2], U[:, 1]], dim=1)
    report = seen(mirrored, shape)
    assert report.group is not None
    assert report.group.name == "Z_2"
    assert [p.description for p in report.partial] == ["shift by 1 on 17 of 18 rows"]


@pytest.mark.parametrize("seed", range(5))
def test_no_translation_by_chance(seed: int) -> None:
    """Random patterns with few classes and many zeros have no shifts."""
    generator = torch.Generator().manual_seed(seed)
    for zeros in (0.0, 0.5, 0.9):
        classes = torch.randint(0, 4, (20, 22), generator=generator)
        classes[torch.rand(classes.shape, generator=generator) < zeros] = 0
        U = torch.nn.functional.one_hot(classes.flatten(), 4)[:, 1:].double()
        assert not seen(U, (20, 22)).partial


def test_reports_survive_json() -> None:
    for name in ("Z_12", "Z_8"):
        report = ms.SymmetryReport((seen(*PLANTED[name][0]),))
        again = ms.SymmetryReport.from_json(report.to_json())
        assert again == report
        layer = report.to_json()["layers"][0]
        assert layer["group"]["name"] == name
        assert {"name", "weight_shape", "filter_size", "effective_filter_size", "partial"} <= set(layer)
        assert {"residual", "margin", "verdict"} <= set(layer)


@pytest.mark.parametrize("name", ["Z_12", "D_10", "Z_8", "S_3"])
def test_few_or_unequal_tasks_never_give_too_large_a_group(name: str) -> None:
    """Families that vary along few directions, or hardly along some, tie weights that are not tied, by chance."""
    (U, shape), _, _ = PLANTED[name]
    rng = np.random.default_rng(5)
    grid = U.reshape(*shape, -1)
    for trial in range(40):
        d = U.shape[1]
        strengths = np.exp(-rng.choice([0.0, 1.0, 6.0]) * np.arange(d) / d)
        strengths[int(rng.choice([1, 2, 3, d])) :] = 0
        varied = U.numpy() @ (np.linalg.qr(rng.normal(size=(d, d)))[0] * strengths)
        report = seen(noisy(torch.from_numpy(varied), float(rng.choice([0.01, 0.05, 0.2])), trial), shape)
        for g in report.group.generators if report.group else ():
            signs = torch.tensor(np.outer(g.output_signs, g.input_signs))[:, :, None]
            moved = grid[list(g.outputs)][:, list(g.inputs)] * signs
            assert torch.allclose(moved, grid), (trial, report.verdict)
