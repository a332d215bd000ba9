"""A learner of the user's own that gives back something else is told so in one line."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import metasym as ms
from tests.refusals import refused


class Own(ms.Learner):
    """One network for all tasks, which does not adapt; ``gives`` replaces what its methods give back."""

    def __init__(self, **gives: Any) -> None:
        super().__init__(nn.Linear(3, 2), F.mse_loss)
        self.gives = gives

    def _given(self, method: str, value: Any) -> Any:
        return self.gives[method](value) if method in self.gives else value

    def outer_parameters(self) -> Any:
        return self._given("parameters", {f"model.{n}": p for n, p in self.model.named_parameters()})

    def outer_loss(self, episodes: ms.Episode) -> Any:
        query = episodes.query
        losses = ((self.model(query.x) - query.y) ** 2).mean((1, 2))
        return self._given("loss", ms.OuterLoss(losses, losses.detach(), losses.detach()))

    def adapt(self, support: ms.Batch, **_: Any) -> nn.Module:
        return copy.deepcopy(self.model)

    def predict(self, support: ms.Batch, x: torch.Tensor, **_: Any) -> torch.Tensor:
        return self.model(x)

    def scores(self, episodes: ms.Episode, metric: Any, **_: Any) -> Any:
        found = [metric(self.model(x), y).detach() for x, y in zip(*episodes.query, strict=True)]
        return self._given("scores", torch.stack(found))


def tasks() -> ms.tasks.ArrayTasks:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(5, 6, 3, generator=draw)
    return ms.tasks.ArrayTasks(x, x @ torch.randn(3, 2, generator=draw), support=2)


def trained(**gives: Any) -> ms.Score:
    learner = Own(**gives)
    for _ in ms.train(learner, tasks(), outer_steps=2, progress="silent", average=0.5):
        pass
    return ms.evaluate(learner, tasks())


def test_a_learner_that_gives_what_is_asked_for_trains_and_is_scored() -> None:
    assert len(trained().per_task) == 5


@pytest.mark.parametrize(
    ("gives", "about", "found"),
    [
        ({"parameters": lambda found: list(found.values())}, "outer_parameters of Own", "list"),
        (
            {"parameters": lambda found: {n.removeprefix("model."): p for n, p in found.items()}},
            "outer_parameters of Own",
            "weight",
        ),
        (
            {"parameters": lambda found: {**found, "model.bias": 1.0}},
            "outer_parameters of Own: model.bias",
            "float",
        ),
        ({"loss": lambda found: found.query}, "outer_loss of Own", "a tensor [5]"),
        ({"loss": lambda found: tuple(found)}, "outer_loss of Own", "tuple"),
        (
            {"loss": lambda found: found._replace(query=found.query.mean())},
            "outer_loss of Own: query",
            "a tensor []",
        ),
        ({"loss": lambda found: found._replace(after=None)}, "outer_loss of Own: after", "NoneType"),
        (
            {"loss": lambda found: found._replace(query=found.before)},
            "outer_loss of Own: query",
            "no gradient",
        ),
        ({"scores": lambda found: found.mean()}, "scores of Own", "a tensor []"),
        ({"scores": lambda found: found.tolist()}, "scores of Own", "list"),
    ],
)
def test_what_it_gives_instead_is_one_line(gives: dict[str, Any], about: str, found: str) -> None:
    with refused(about, found):
        trained(**gives)
