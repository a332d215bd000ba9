"""What every meta-learner offers: a model, a loss, a way to adapt, and the parameters it meta-learns."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor, nn

from metasym.adaptation.choices import AUTO
from metasym.adaptation.functional import choose_map
from metasym.argument_types import checked
from metasym.engines.description import Description, Setting
from metasym.engines.engine import Engine, autograd_gradient
from metasym.engines.plan import Plan, Sizes, parse
from metasym.engines.select import Selected, make_engines, select
from metasym.learners.own_learner import checked_losses
from metasym.symmetry.compiled_models import uncompiled
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params, as_batch, as_tensor

Metric = Callable[[Tensor, Tensor], Tensor]
"""``metric(prediction, target) -> scalar`` for one task."""


def accuracy(prediction: Tensor, target: Tensor) -> Tensor:
    """Return the fraction of rows whose largest entry is the target.

    Args:
        prediction: ``[examples, classes]``.
        target: ``[examples]``, class numbers.

    Returns:
        A scalar.
    """
    return (prediction.argmax(-1) == target).to(prediction.dtype).mean()


def check_count(what: str, value: object, least: int = 0) -> int:
    """``value`` as a whole number of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise MetasymError(f"expected {what} to be a whole number, found {value!r}", about=what, found=value)
    if value < least:
        raise MetasymError(f"expected {what} >= {least}, found {value}", about=what, found=value)
    return int(value)


def check_finite(what: str, value: object, least: float | None = None) -> float:
    """``value`` as a finite number of at least ``least``."""
    if not isinstance(value, Real) or not math.isfinite(value):
        raise MetasymError(f"expected {what} to be a finite number, found {value!r}", about=what, found=value)
    if least is not None and value < least:
        raise MetasymError(f"expected {what} >= {least:g}, found {value}", about=what, found=value)
    return float(value)


class Learner(nn.Module, ABC):
    """A meta-learner: an ``nn.Module`` whose state is all that meta-training changes.

    Everything that a run must keep, step sizes included, is a parameter or buffer of this module, so its
    ``state_dict`` is the checkpoint.

    Args:
        model: Your network, reparameterized or plain.
        loss: ``loss(prediction, target) -> scalar``.
        chunk_size: The most tasks held in memory at once.
        paths: Ways of computing a step to force, ``"name=way,..."``.
    """

    model: nn.Module

    @checked
    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        *,
        chunk_size: int | None = None,
        paths: str | Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(model, nn.Module):
            raise MetasymError(
                f"expected model to be an nn.Module, found {type(model).__name__}",
                about="model",
                found=type(model).__name__,
            )
        if chunk_size is not None:
            check_count("chunk_size", chunk_size, least=1)
        self.model = uncompiled(model)
        self.loss = loss
        self.chunk_size = chunk_size
        self.forced = parse(paths)
        """Ways of computing a step that the user has decided on (see ``metasym.engines.plan``)."""

    @functools.cached_property
    def _engines(self) -> tuple[Engine, ...]:
        """What computes steps; a learner that takes none never imports them."""
        return make_engines()

    @abstractmethod
    def outer_parameters(self) -> Params:
        """What the outer loop optimises, by the names they have in this module's ``state_dict``."""

    @abstractmethod
    def outer_loss(self, episodes: Episode) -> OuterLoss:
        """Adapt to every task's support set and return the per-task losses, differentiably."""

    @abstractmethod
    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """An ordinary ``nn.Module`` adapted to one task: no parametrizations, no link to the learner."""

    @abstractmethod
    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query set after adaptation, ``[tasks]``; keeps no graph."""

    @abstractmethod
    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Adapt to one task's support set and predict at ``x [examples, ...]``; keeps no graph."""

    def step_sizes(self) -> dict[str, float]:
        """The inner step sizes, one number each (the mean where there are many); empty without any."""
        return {}

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner, in plain types, for ``config.json`` and checkpoints."""
        found = {"method": type(self).__name__, "chunk_size": self.chunk_size}
        return {**found, "paths": dict(self.forced)} if self.forced else found

    def plan(self, at: Sizes | Setting) -> Plan:
        """How a step is computed, and why: what ``engines.select`` says, and nothing else.

        ``at`` is a whole setting, or sizes alone: the step then is on the model's device, in the model's type.
        """
        selected = self._select(Setting.for_model(self.model, at) if isinstance(at, Sizes) else at)
        return () if selected is None else selected.plan

    def computed_by(self, episodes: Episode) -> dict[str, str]:
        """What the last bits of a step on these episodes depend on: ways and kernels, by name."""
        selected = self._select(Setting.of(episodes))
        return {} if selected is None else selected.computed_by()

    def _description(self) -> Description | None:
        """What a step computes, for engines to read; None for a learner that computes it by itself."""
        return None

    def _examples(self, support: Batch) -> Batch:
        """One task's examples as tensors; arrays are taken in the model's type, where the model is."""
        return as_batch(support, self._like())

    def _inputs(self, x: Any) -> Tensor:
        """``x [examples, ...]`` as a tensor, an array as in ``_examples``."""
        return as_tensor(x, self._like())

    def _like(self) -> Tensor | None:
        return next((p for p in self.model.parameters() if p.is_floating_point()), None)

    def _select(self, setting: Setting) -> Selected | None:
        description = self._description()
        return None if description is None else select(self._engines, description, setting)

    def _choose_map(self, map: str) -> None:
        """How torch.func goes over tasks: as ``map`` or ``paths`` says, or else by a rule on the model."""
        asked = self.forced.get("map", AUTO)
        if AUTO not in (map, asked) and map != asked:
            raise MetasymError(
                f"expected map={map!r} and paths to agree, found map={asked} in paths",
                about="map",
                found=(map, asked),
            )
        self.map = choose_map(self.model, asked if map == AUTO else map)
        self._map_given = (map, asked) != (AUTO, AUTO)

    def outer_gradient(
        self, episodes: Episode, *, total_tasks: int | None = None
    ) -> tuple[OuterLoss, Params]:
        """Per-task losses (detached) and the gradient of ``sum(query losses) / total_tasks``.

        Tasks are computed in chunks of ``chunk_size``, each with its own backward pass, so that
        memory is that of one chunk. ``total_tasks`` is the number of tasks over all processes.
        """
        total = total_tasks or episodes.count

        def of(chunk: Episode) -> tuple[OuterLoss, Params]:
            losses = checked_losses(self, self.outer_loss(chunk), chunk.count)
            return autograd_gradient(losses, self.outer_parameters(), total_tasks=total)

        return summed_over_chunks(of, episodes, self.chunk_size or episodes.count)


def summed_over_chunks(
    gradient: Callable[[Episode], tuple[OuterLoss, Params]], episodes: Episode, size: int
) -> tuple[OuterLoss, Params]:
    """The losses of all tasks and the sum of the gradients, from chunks of ``size`` tasks one after the other."""
    if size >= episodes.count:
        return gradient(episodes)
    losses: list[OuterLoss] = []
    total: Params = {}
    for start in range(0, episodes.count, size):
        found, parts = gradient(episodes.tasks(start, start + size))
        losses.append(found)
        total = {name: total[name] + g for name, g in parts.items()} if total else parts
    return OuterLoss(*(torch.cat(parts) for parts in zip(*losses, strict=True))), total
