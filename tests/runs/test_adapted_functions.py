"""What the networks of a run do, from input to output, after they adapted to test tasks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import metasym as ms
from metasym.runs.adapted_functions import adapted_functions
from metasym.verdicts.function_reports import Held
from tests.refusals import refused


class Images:
    """Random images with random targets, the same ones at every visit."""

    def __init__(self, labels: bool, shape: tuple[int, ...] = (1, 5, 5), tasks: int = 6) -> None:
        self.labels, self.shape, self.tasks = labels, shape, tasks

    def __len__(self) -> int:
        return self.tasks

    def episode(self, index: int, generator: torch.Generator) -> ms.Episode:
        drawn = torch.Generator().manual_seed(index)
        x = torch.randn(12, *self.shape, generator=drawn)
        y = torch.randint(3, (12,), generator=drawn) if self.labels else torch.randn(12, 3, generator=drawn)
        return ms.Episode(ms.Batch(x[:4], y[:4]), ms.Batch(x[4:], y[4:]), torch.tensor(index))


class Fixed(nn.Module):
    """``[examples, 3]`` from a weight for every pixel."""

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x.flatten(1) @ self.weight.flatten(1).T)


@dataclass
class Learner:
    """Adapts by giving the same network to every task."""

    model: nn.Module

    def adapt(self, support: ms.Batch) -> nn.Module:
        return self.model


@dataclass(frozen=True)
class Asked:
    """A run, as far as it is asked."""

    learner: Any
    input_shape: tuple[int, ...]
    tasks: Any
    labels: bool
    test_seed: int = 0

    def test_tasks(self) -> Any:
        return self.tasks


def opened(weight: Tensor, *, labels: bool = True, **changes: Any) -> Asked:
    family = Images(labels, **changes)
    learner: Any = Learner(Fixed(weight))
    return Asked(learner, family.shape, family, labels)


def weights(seed: int = 0) -> Tensor:
    return torch.randn(3, 5, 5, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("labels", [True, False])
def test_weights_that_are_alike_left_and_right_keep_exactly_that_flip(labels: bool) -> None:
    weight = weights()
    found = adapted_functions(opened(weight + weight.flip(-1), labels=labels), "rotations-flips:4")
    proposed = adapted_functions(opened(weight + weight.flip(-1), labels=labels))
    assert proposed.group == "images"
    assert [one.name for one in proposed.elements if one.held is Held.EXACTLY] == ["left-right flip"]
    assert proposed.ranges[0].some_hold
    held = {element.name: element.held for element in found.elements}
    assert [name for name, one in held.items() if one is Held.EXACTLY] == [
        "rotation by 0 degrees",
        "left-right flip, then rotation by 0 degrees",
    ]
    assert set(held.values()) == {Held.EXACTLY, Held.NOT}
    flip = next(e for e in found.elements if e.name.startswith("left-right flip, then rotation by 0"))
    assert flip.score == pytest.approx(found.score)
    assert flip.same_class == (1.0 if labels else None)


def test_a_small_break_is_bounded_and_not_called_exact() -> None:
    weight = weights()
    turned = sum(torch.rot90(weight, k, (-2, -1)) for k in range(4))
    found = adapted_functions(opened(turned + 0.02 * weights(1), labels=False), "rotations:4")
    assert [element.held for element in found.elements] == [Held.EXACTLY, *[Held.NEARLY] * 3]
    for element in found.elements[1:]:
        assert 1e-6 < element.violation < element.violation_upper < 0.04


def test_the_violation_is_that_of_a_loop_over_tasks_and_queries() -> None:
    run = opened(weights(), labels=False, tasks=3)
    found = adapted_functions(run, "rotations:4")
    changed = spread = 0.0
    for index in range(3):
        x = run.test_tasks().episode(index, torch.Generator()).query.x
        y = [run.learner.adapt(ms.Batch(x, x))(one[None])[0].double() for one in x]
        mean = sum(y) / len(y)
        for one, answer in zip(x, y, strict=True):
            moved = run.learner.adapt(ms.Batch(x, x))(torch.rot90(one, 1, (-2, -1))[None])[0].double()
            changed += float((moved - answer).square().sum())
            spread += float((answer - mean).square().sum())
    assert found.elements[1].violation == pytest.approx(changed / spread, rel=1e-6)


def test_vectors_are_asked_about_the_group_that_is_named() -> None:
    class Circle(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x + 2 * x.roll(1, -1))

    run = opened(torch.zeros(1))
    family = Images(True, shape=(7,))
    learner: Any = Learner(Circle())
    run = Asked(learner, (7,), Vectors(family), False)
    shifts = adapted_functions(run, "shifts")
    assert len(shifts.elements) == 7
    assert {element.held for element in shifts.elements} == {Held.EXACTLY}
    assert Held.NOT in {e.held for e in adapted_functions(run, "reflection").elements}


class Vectors:
    """A family whose targets are as long as its inputs."""

    def __init__(self, family: Images) -> None:
        self.family = family

    def __len__(self) -> int:
        return len(self.family)

    def episode(self, index: int, generator: torch.Generator) -> ms.Episode:
        found = self.family.episode(index, generator)
        support, query = (ms.Batch(part.x, part.x.clone()) for part in (found.support, found.query))
        return ms.Episode(support, query, found.ids)


def test_what_cannot_be_asked_is_one_line() -> None:
    with refused("group"):
        adapted_functions(opened(weights(), shape=(25,)))
    with refused("tasks", 1):
        adapted_functions(opened(weights(), tasks=1))
    with refused("answers"):
        adapted_functions(opened(torch.zeros(3, 5, 5)))


def test_the_upper_limit_covers_the_truth_in_most_repeats() -> None:
    """Tasks that differ: each has its own share of an even weight, so violations vary from task to task."""

    @dataclass
    class Mixed:
        model: nn.Module

        def adapt(self, support: ms.Batch) -> nn.Module:
            share = float(support.x.abs().mean())
            weight = weights()
            return Fixed(0.1 * (share * weight + weight.flip(-1)))

    def run(first: int, tasks: int) -> Asked:
        class Later(Images):
            def episode(self, index: int, generator: torch.Generator) -> ms.Episode:
                return super().episode(first + index, generator)

        family = Later(False, tasks=tasks)
        learner: Any = Mixed(nn.Identity())
        return Asked(learner, family.shape, family, False)

    def flip(first: int, tasks: int) -> Any:
        return adapted_functions(run(first, tasks), "rotations-flips:1", tasks=tasks).elements[1]

    truth = flip(0, 600).violation
    uppers = [flip(1000 + 20 * i, 20).violation_upper for i in range(60)]
    assert math.isfinite(truth)
    assert sum(upper >= truth for upper in uppers) >= 0.85 * 60
