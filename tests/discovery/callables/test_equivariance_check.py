"""``ms.check_equivariance`` against sums written out."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import metasym as ms
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.function_reports import AdaptedFunctions
from tests.refusals import refused

X = np.random.default_rng(0).normal(size=(800, 6))


def test_shifts_of_a_ring() -> None:
    found = ms.check_equivariance(lambda x: x**2 + np.roll(x, 1, 1), X, "shifts")
    assert len(found.elements) == 6
    assert max(one.worst_output_upper for one in found.elements) < 1e-9
    broken = ms.check_equivariance(lambda x: x**2 + np.roll(x, 1, 1), X, "dihedral")
    turned = {one.name: one.defect for one in broken.elements}
    assert min(turned.values()) < 1e-9
    assert broken.worst.defect > 0.5


def test_the_defect_is_what_it_says() -> None:
    def f(x: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
        return np.stack([x[:, 0] + 1.2 * x[:, 1], x[:, 2]], 1)

    swap = SignedPermutation((0, 1), (1, 0, 2, 3, 4, 5))
    found = ms.check_equivariance(f, X, [swap])
    (one,) = found.elements
    # 0.2 (x_1 - x_0) over an output of variance 1 + 1.44, beside one of variance 1
    assert one.defect == pytest.approx(np.sqrt(0.08 / 3.44), rel=0.2)
    assert one.worst_output == pytest.approx(np.sqrt(0.08 / 2.44), rel=0.2)
    assert np.sqrt(0.08 / 3.44) < one.defect_upper < 1.5 * one.defect


def test_groups_as_objects_and_invariance() -> None:
    shifts = ms.groups.cyclic(6)
    assert ms.check_equivariance(lambda x: np.sin(x).sum(1), X, shifts).worst.defect_upper < 1e-9
    flips = SignedGroup((SignedPermutation((0,), tuple(range(6)), (1,), (-1,) * 6),), (1, 6))
    found = ms.check_equivariance(lambda x: (x**2).sum(1) + 0.1 * x[:, 0], X, flips)
    assert sorted(one.defect > 0.01 for one in found.elements) == [False, True]


class Maps:
    """Tasks with the circulant maps of six points."""

    def __len__(self) -> int:
        return 5

    def episode(self, index: int, generator: torch.Generator) -> ms.Episode:
        drawn = torch.Generator().manual_seed(index)
        x, w = torch.randn(20, 6, generator=drawn), torch.randn(6, generator=drawn)
        y = sum(w[k] * x.roll(k, 1) for k in range(6))
        assert isinstance(y, torch.Tensor)
        return ms.Episode(ms.Batch(x[:8], y[:8]), ms.Batch(x[8:], y[8:]), torch.tensor(index))


def test_the_networks_that_a_learner_adapts() -> None:
    torch.manual_seed(0)
    learner = ms.MAML(torch.nn.Linear(6, 6), inner_steps=1, inner_lr=0.1)
    named = ms.check_equivariance(learner, Maps(), "shifts")
    given = ms.check_equivariance(learner, Maps(), ms.groups.cyclic(6))
    assert named.tasks == 5
    expected = []
    for index in range(5):
        episode = Maps().episode(index, torch.Generator())
        network, x = learner.adapt(episode.support).requires_grad_(False), episode.query.x
        y = network(x)
        expected.append(
            [
                float((network(x.roll(1, 1)) - y.roll(1, 1)).square().mean()),
                float((y - y.mean(0)).square().mean()),
            ]
        )
    changed, spread = np.sum(expected, axis=0)
    for found in (named, given):
        assert found.elements[1].violation == pytest.approx(changed / spread, rel=1e-4)
        assert found.elements[0].violation < 1e-10


def test_calls_propose_a_group() -> None:
    """Found at other points than those that it is asked at; signs are about the centre that was found."""
    weights = np.array([1, 1, 1, 1, 1, 1.05])
    found = ms.check_equivariance(lambda x: ((x - 0.3) ** 2 * weights).sum(1), X)
    assert found.group == "Z_2 wr S_6"
    assert 0.01 < found.worst.defect < found.worst.bound < 0.1
    with pytest.raises(ms.MetasymError) as caught:
        ms.check_equivariance(lambda x: np.exp(x @ [1, 0.3, 0.2, 0.5, -0.4, 0.7]) + x[:, 0] * x[:, 1] ** 2, X)
    assert caught.value.about == "group"


class ManyMaps(Maps):
    def __len__(self) -> int:
        return 24


def test_half_of_the_tasks_propose_a_group() -> None:
    learner = ms.MAML(torch.nn.Linear(6, 6, bias=False), inner_steps=200, inner_lr=0.5)
    torch.nn.init.zeros_(learner.model.weight)
    found = ms.check_equivariance(learner, ManyMaps())
    assert found.tasks == 12  # those that proposed are not asked
    assert found.group in ("Z_6", "Z_6 x Z_2")
    assert found.defect_upper < 0.5
    with pytest.raises(ms.MetasymError) as caught:
        ms.check_equivariance(learner, Maps())
    assert caught.value.about == "group"


def test_bad_questions() -> None:
    with refused("group"):
        ms.check_equivariance(lambda x: x, X, [SignedPermutation.identity(6, 5)])
    with refused("group", "list"):
        ms.check_equivariance(lambda x: x, X, [1, 2])  # type: ignore[list-item]


class Spots:
    """Tasks on 12 x 12 images of a spot near the middle: where it is, to the right and up, with weights."""

    def __len__(self) -> int:
        return 6

    def episode(self, index: int, generator: torch.Generator) -> ms.Episode:
        drawn = torch.Generator().manual_seed(index)
        rows = torch.arange(12.0) - 5.5
        at = torch.randn(40, 2, generator=drawn)
        ink = torch.exp(-((rows - at[:, :, None]) ** 2) / 4)
        x = (ink[:, 0, :, None] * ink[:, 1, None, :])[:, None]
        y = at @ torch.randn(2, 1, generator=drawn)
        return ms.Episode(ms.Batch(x[:20], y[:20]), ms.Batch(x[20:], y[20:]), torch.tensor(index))


def test_ranges_of_a_learner_are_those_of_the_tolerance() -> None:
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 1))
    learner = ms.MAML(network, inner_steps=20, inner_lr=0.05)
    close, wide = (ms.check_equivariance(learner, Spots(), tolerance=t) for t in (0.05, 1.0))
    assert isinstance(close, AdaptedFunctions)
    assert close.elements == wide.elements
    reach = [{one.family: one.most for one in found.ranges}["turns"] for found in (close, wide)]
    assert reach[0] < reach[1]
    assert AdaptedFunctions.from_json(wide.to_json()).ranges == wide.ranges
