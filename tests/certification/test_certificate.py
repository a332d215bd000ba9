"""What fresh tasks say about a symmetry, beside the weights they were made of."""

import math
from dataclasses import replace

import pytest
import torch

from metasym.certification import SignedPermutation, bounds, certify
from metasym.evidence import TaskStatistics
from tests.evidence.families import examples, generic, shifted

N = 5
TURN = SignedPermutation(tuple((i + 1) % N for i in range(N)), tuple((i + 1) % N for i in range(N)))


def defect(maps):
    return float((maps - TURN.on_weights(maps)).norm() / maps.norm())


@pytest.mark.parametrize("count", [N + 3, 2 * N, 3])
def test_a_symmetry_that_is_there_is_bounded_to_rounding_without_noise(count):
    """Also from three examples of five inputs."""
    found = certify(TaskStatistics.of(*examples(shifted(40, N), count)), [TURN])
    assert not found.refuted
    assert found.bound < 1e-5
    assert found.within(0.2)


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("broken", [0.05, 1.0])
def test_a_symmetry_that_is_broken_is_measured_and_refuted(broken, noise):
    maps = shifted(200, N) + broken * generic(200, N)
    found = certify(TaskStatistics.of(*examples(maps, 4 * N, noise)), [TURN])
    assert found.refuted
    assert found.defect == pytest.approx(defect(maps), rel=0.25)
    assert found.defect_upper >= defect(maps)


def test_the_upper_limit_holds_as_often_as_it_says():
    """A small defect under much noise: one limit in twenty may be below it, so that of 60 at most 7 are."""
    failures = 0
    for seed in range(60):
        maps = shifted(30, 3, seed) + 0.1 * generic(30, 3, seed)
        g = SignedPermutation((1, 2, 0), (1, 2, 0))
        true = float((maps - g.on_weights(maps)).norm() / maps.norm())
        found = certify(TaskStatistics.of(*examples(maps, 8, 0.3, seed)), [g])
        failures += found.defect_upper < true
    assert failures <= 7


@pytest.mark.parametrize("noise", [0.0, 0.1])
@pytest.mark.parametrize("broken", [0.0, 0.05])
def test_very_many_large_tasks_are_bounded_without_a_projection_of_each(broken, noise, monkeypatch):
    """The limits are nearly those that a projection of every task gives, which would take minutes."""
    maps = shifted(2000, N) + broken * generic(2000, N)
    tasks = TaskStatistics.of(*examples(maps, 3 * N, noise))
    slow = certify(tasks, [TURN])
    monkeypatch.setattr(bounds, "LIMITS", replace(bounds.LIMITS, most_projected=1999 * float(N) ** 6))
    monkeypatch.setattr(bounds, "_projected", None)
    found = certify(tasks, [TURN])
    assert found.refuted == slow.refuted == bool(broken)
    assert defect(maps) <= found.defect_upper <= 1.5 * slow.defect_upper + 1e-6
    assert certify(tasks, [TURN], alone=False).refuted == found.refuted


def test_one_odd_task_with_fewer_examples_than_inputs_does_not_hide():
    """All tasks together show a part of any direction that one task alone may hide."""
    failures = 0
    for seed in range(24):
        maps = shifted(100, N, seed)
        maps[0, :, 1] *= 0.5
        found = certify(TaskStatistics.of(*examples(maps, 2, 0.0, seed)), [TURN], noise=1e-10)
        failures += found.defect_upper < defect(maps)
    assert failures <= 1


@pytest.mark.parametrize("kind", ["equal", "constant"])
def test_directions_that_no_input_shows_may_hold_any_defect(kind):
    """Circulant maps: the symmetry is there, but from such inputs nobody can know."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4 * N, N, generator=g, dtype=torch.float64)
    x[..., 1] = x[..., 0] if kind == "equal" else 1.0
    if kind == "constant":
        x[..., 2] = 1.0
    y = x @ shifted(60, N).mT
    found = certify(TaskStatistics.of(x, y), [TURN])
    assert not found.refuted
    assert found.bound > 1e3
    assert not found.within(0.2)


def test_hardly_varying_inputs_leave_much_room_under_noise():
    g = torch.Generator().manual_seed(0)
    x = 30 * torch.randn(60, 20, 1, generator=g, dtype=torch.float64)
    x = x + torch.randn(60, 20, N, generator=g, dtype=torch.float64)
    y = x @ shifted(60, N).mT
    y = y + 0.3 * y.std() * torch.randn(y.shape, generator=g, dtype=torch.float64)
    assert certify(TaskStatistics.of(x, y), [TURN]).bound > 0.5


def test_weak_weights_count_as_strong_ones_do():
    """A defect among weights a hundred times weaker than others is small in all, and large in its class."""
    maps = shifted(60, N) * torch.eye(N, dtype=torch.float64) + 0.01 * generic(60, N)
    found = certify(TaskStatistics.of(*examples(maps, 4 * N)), [TURN])
    assert found.defect < 0.1
    assert found.class_defect > 0.2
    assert found.refuted


def test_no_tasks_no_certificate():
    empty = TaskStatistics.of(*examples(shifted(3, N), 8))[slice(0, 0)]
    assert math.isinf(certify(empty, [TURN], power=torch.ones(N, N)).bound)


def test_a_few_tasks_with_most_of_the_defect_do_not_hide_that_all_have_some():
    """Sizes of a Cauchy law: the mean of the squares is as uncertain as it is large, and yet every task shows it."""
    g = torch.Generator().manual_seed(5)
    sizes = torch.randn(60, generator=g, dtype=torch.float64) / torch.randn(
        60, generator=g, dtype=torch.float64
    )
    maps = shifted(60, N) + 0.1 * sizes[:, None, None] * generic(60, N)
    found = certify(TaskStatistics.of(*examples(maps, 4 * N, 0.001)), [TURN])
    assert found.refuted


def test_noise_alone_refutes_no_more_often_than_it_may():
    refuted = 0
    for seed in range(60):
        tasks = TaskStatistics.of(*examples(shifted(20, 3, seed), 6, 1.0, seed))
        refuted += certify(tasks, [SignedPermutation((1, 2, 0), (1, 2, 0))]).refuted
    assert refuted <= 4


@pytest.mark.parametrize("count", [3, 4 * N])
def test_matrices_of_tasks_that_are_not_kept_are_made_again(monkeypatch, count):
    """Of 40 tasks one at a time, of which 13 are kept: the same certificate as from all at once."""
    found = TaskStatistics.of(*examples(shifted(40, N) + 0.1 * generic(40, N), count, 0.1))
    whole = certify(found, [TURN], noise=0.01)
    monkeypatch.setattr(bounds, "_KEPT", 13 * (N * N - N) ** 2)
    monkeypatch.setattr(bounds, "_AT_ONCE", 1)
    again = certify(found, [TURN], noise=0.01)
    assert (again.refuted, again.tasks) == (whole.refuted, 40)
    for name in ("defect", "defect_upper", "class_defect", "class_defect_upper"):
        assert getattr(again, name) == pytest.approx(getattr(whole, name), rel=1e-10), name
