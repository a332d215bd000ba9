"""Prototypical networks (Snell et al. 2017): nothing adapts, classes are the means of their embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.adaptation.functional import check_no_running_statistics, evaluating
from metasym.argument_types import checked
from metasym.engines.description import Embedding, Setting
from metasym.engines.select import Selected, select
from metasym.learners.adaptable import with_parameters
from metasym.learners.base import Learner, Metric
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params


class PrototypeClassifier(nn.Module):
    """Class scores of ``x``: minus the squared Euclidean distance of its embedding to each prototype."""

    prototypes: Tensor

    def __init__(self, embedding: nn.Module, prototypes: Tensor) -> None:
        super().__init__()
        self.embedding = embedding
        self.register_buffer("prototypes", prototypes)

    def forward(self, x: Tensor) -> Tensor:
        """``x [examples, ...] -> [examples, classes]``."""
        return closeness(self.embedding(x), self.prototypes)


class ProtoNet(Learner):
    """Learns an embedding in which the examples of a class lie around their mean (Snell et al. 2017).

    Labels are 0 .. classes-1, and every class has a support example.

    Args:
        model: Maps ``x [examples, ...]`` to embeddings ``[examples, features]``.
        loss: ``loss(prediction, target) -> scalar``.
        map: ``"vmap"`` or ``"loop"`` over tasks, or ``"auto"``.
        chunk_size: The most tasks held in memory at once.
        paths: Ways of computing a step to force, ``"name=way,..."``.
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        loss: Loss = F.cross_entropy,
        *,
        map: str = "auto",
        chunk_size: int | None = None,
        paths: str | Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, loss, chunk_size=chunk_size, paths=paths)
        model = self.model  # without a compiler's wrapper
        check_no_running_statistics(model)
        self._choose_map(map)

    def outer_parameters(self) -> Params:
        """Every trainable parameter of the embedding."""
        return {f"model.{n}": p for n, p in self.model.named_parameters() if p.requires_grad}

    def outer_loss(self, episodes: Episode) -> OuterLoss:
        """The query loss of each task; nothing adapts, so both support losses are that of the prototypes."""
        return self._of(episodes).losses(episodes)

    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query sets, ``[tasks]``; ``inner_steps`` has no meaning here and is ignored."""
        size = self.chunk_size or episodes.count
        with torch.no_grad(), evaluating(self):
            selected = self._of(episodes)
            parts = [
                selected.scores(episodes.tasks(start, start + size), metric)
                for start in range(0, episodes.count, size)
            ]
        return torch.cat(parts)

    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """A classifier with this task's prototypes, in evaluation mode; ``inner_steps`` is ignored."""
        support = self._examples(support)
        with torch.no_grad(), evaluating(self):
            means = prototypes(self.model(support.x), support.y, _classes(support.y))
        return PrototypeClassifier(with_parameters(self.model, {}), means).eval()

    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Class scores ``[examples, classes]`` at ``x``; keeps no graph."""
        support = self._examples(support)
        with torch.no_grad(), evaluating(self):
            means = prototypes(self.model(support.x), support.y, _classes(support.y))
            return closeness(self.model(self._inputs(x)), means)

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner."""
        return {**super().describe(), "map": self.map}

    def _description(self, classes: int = 0) -> Embedding:
        def predict(support: Tensor, x: Tensor, episode: Episode) -> Tensor:
            return closeness(x, prototypes(support, episode.support.y, classes))

        return Embedding(
            model=self.model,
            outer=self.outer_parameters,
            forced=self.forced,
            map=self.map,
            map_given=self._map_given,
            loss=self.loss,
            predict=predict,
        )

    def _of(self, episodes: Episode) -> Selected:
        """What computes these episodes, whose labels say how many classes there are."""
        return select(self._engines, self._description(_classes(episodes.support.y)), Setting.of(episodes))


def prototypes(embedded: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The mean embedding of each class, ``[classes, features]``."""
    member = F.one_hot(labels, classes).to(embedded.dtype)
    return (member.mT @ embedded) / member.sum(0).unsqueeze(1)


def closeness(embedded: Tensor, means: Tensor) -> Tensor:
    """Minus the squared Euclidean distances, ``[examples, classes]``."""
    return -(embedded.unsqueeze(1) - means.unsqueeze(0)).square().sum(-1)


def _classes(labels: Tensor) -> int:
    """The number of classes, after checking that each of 0 .. classes-1 has an example in every task."""
    if labels.is_floating_point():
        raise MetasymError(
            f"expected whole-number class labels for ProtoNet, found {labels.dtype}",
            about="labels",
            found=labels.dtype,
        )
    classes = int(labels.max()) + 1
    present = F.one_hot(labels.reshape(-1, labels.shape[-1]), classes).sum(1) > 0
    if not bool(present.all()):
        missing = (~present).nonzero()[0]
        raise MetasymError(
            f"expected a support example of each of the {classes} classes, found none of class {int(missing[1])}",
            about="labels",
            found=int(missing[1]),
        )
    return classes
