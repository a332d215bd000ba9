"""What every engine offers: whether it can compute a step, what that would cost, and the step itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from metasym.engines.description import Description, Setting
from metasym.engines.plan import Plan
from metasym.types import Batch, Episode, Loss, OuterLoss, Params

Ways = Mapping[str, str]
"""The ways that were chosen, by the name of the decision (see ``plan.WAYS``)."""


class Engine(ABC):
    """One way of computing the steps that a description asks for.

    An engine belongs to one learner and may remember what it has found out about the learner's model.
    """

    way: ClassVar[str]
    """What the decision ``engine`` calls it."""
    serves: ClassVar[tuple[type[nn.Module], ...]]
    """The kinds of models that it is made for: if it refuses one of these, the user sees why."""

    @abstractmethod
    def refuses(self, description: Description, setting: Setting) -> str | None:
        """Why it cannot compute the step; None where it can."""

    @abstractmethod
    def decisions(self, description: Description) -> frozenset[str]:
        """The names of the further decisions that it makes for a step like this (see :meth:`choices`)."""

    @abstractmethod
    def milliseconds(self, description: Description, setting: Setting) -> dict[str, float]:
        """What a step is estimated to cost by this engine, and by torch.func over tasks, by ``way``.

        Both, since they are comparable only where they were calibrated together.
        """

    @abstractmethod
    def choices(self, description: Description, setting: Setting) -> Plan:
        """The further decisions, taken."""

    def kernels(self, ways: Ways) -> tuple[str, ...]:
        """The names of the compiled kernels that it uses where they can be had."""
        return ()

    def tasks_at_once(self, description: Description, ways: Ways, episodes: Episode) -> int:
        """How many of these tasks it would compute together, where the user has not decided."""
        return episodes.count

    @abstractmethod
    def losses(self, description: Description, ways: Ways, episodes: Episode) -> OuterLoss:
        """The losses of every task, ``[tasks]``, differentiable by the outer parameters."""

    def gradient(
        self, description: Description, ways: Ways, episodes: Episode, total_tasks: int
    ) -> tuple[OuterLoss, Params]:
        """The losses (detached) and the gradient of ``sum(query losses) / total_tasks``, by the outer names."""
        return autograd_gradient(
            self.losses(description, ways, episodes), description.outer(), total_tasks=total_tasks
        )

    @abstractmethod
    def scores(
        self, description: Description, ways: Ways, episodes: Episode, metric: Loss, steps: int
    ) -> Tensor:
        """``metric`` on every task's query set after ``steps`` of adaptation, ``[tasks]``; keeps no graph."""

    @abstractmethod
    def adapt(self, description: Description, support: Batch, steps: int) -> Params:
        """What adapts, after ``steps`` of adaptation to one task, by the model's names; keeps no graph."""


def autograd_gradient(losses: OuterLoss, outer: Params, *, total_tasks: int) -> tuple[OuterLoss, Params]:
    """The losses (detached) and autograd's gradient of ``sum(query losses) / total_tasks`` by ``outer``."""
    parts = torch.autograd.grad(losses.query.sum() / total_tasks, list(outer.values()), allow_unused=True)
    gradient = {
        name: torch.zeros_like(p) if g is None else g
        for (name, p), g in zip(outer.items(), parts, strict=True)
    }
    return OuterLoss(*(t.detach() for t in losses)), gradient
