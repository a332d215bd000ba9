"""Prototypical networks (Snell et al. 2017): nothing adapts, classes are the means of their embeddings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.adaptation.functional import (
    call,
    check_no_running_statistics,
    choose_map,
    evaluating,
    map_tasks,
    measure,
    parameters_of,
)
from metasym.engines.layerwise.adapting import CHAIN_TYPES
from metasym.engines.layerwise.chain import Chain, Chains
from metasym.engines.layerwise.embeddings import embedding_losses
from metasym.engines.layerwise.estimates import chain_estimates, convolution_choice
from metasym.engines.plan import AUTO, Choice, Plan, Sizes, choose, settled
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
    """Learns an embedding in which the examples of a class lie around their mean.

    The model maps ``x [examples, ...]`` to embeddings ``[examples, features]``; labels are 0 .. classes-1,
    and every class has a support example.
    """

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
        check_no_running_statistics(model)
        self.map = choose_map(model, self.forced.get("map", AUTO) if map == AUTO else map)
        self._map_given = map != AUTO or "map" in self.forced
        self._chains = Chains()

    def outer_parameters(self) -> Params:
        """Every trainable parameter of the embedding."""
        return {f"model.{n}": p for n, p in self.model.named_parameters() if p.requires_grad}

    def outer_loss(self, episodes: Episode) -> OuterLoss:
        """The query loss of each task; nothing adapts, so both support losses are that of the prototypes."""
        params, classes = parameters_of(self.model), _classes(episodes.support.y)

        def losses(embedded: Tensor, query: Tensor, episode: Episode) -> tuple[Tensor, Tensor]:
            means = prototypes(embedded, episode.support.y, classes)
            value = measure(self.loss, closeness(query, means), episode.query.y)
            near = closeness(embedded.detach(), means.detach())
            return value, measure(self.loss, near, episode.support.y)

        def task(episode: Episode) -> OuterLoss:
            embedded = call(self.model, params, episode.support.x)
            query, support = losses(embedded, call(self.model, params, episode.query.x), episode)
            return OuterLoss(query, support, support)

        chain = self._chain(episodes)
        if chain is None:
            return map_tasks(task, episodes, mode=self.map)
        query, support = embedding_losses(chain, params, episodes, losses)
        return OuterLoss(query, support, support)

    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query sets, ``[tasks]``; ``inner_steps`` has no meaning here and is ignored."""
        params, classes = parameters_of(self.model), _classes(episodes.support.y)

        def measured(support: Tensor, query: Tensor, episode: Episode) -> Tensor:
            means = prototypes(support, episode.support.y, classes)
            return measure(metric, closeness(query, means), episode.query.y, "metric")

        def task(episode: Episode) -> Tensor:
            support, query = (call(self.model, params, b.x) for b in (episode.support, episode.query))
            return measured(support, query, episode)

        size = self.chunk_size or episodes.count
        with torch.no_grad(), evaluating(self):
            chain = self._chain(episodes)
            if chain is not None:
                at = chain.effective(params)
                found = []
                for episode in (episodes.task(i) for i in range(episodes.count)):
                    support, query = (chain.predict(at, b.x) for b in (episode.support, episode.query))
                    found.append(measured(support, query, episode))
                return torch.stack(found)
            parts = [
                map_tasks(task, episodes.tasks(start, start + size), mode=self.map)
                for start in range(0, episodes.count, size)
            ]
        return torch.cat(parts)

    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """A classifier with this task's prototypes, in evaluation mode; ``inner_steps`` is ignored."""
        with torch.no_grad(), evaluating(self):
            means = prototypes(self.model(support.x), support.y, _classes(support.y))
        return PrototypeClassifier(with_parameters(self.model, {}), means).eval()

    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Class scores ``[examples, classes]`` at ``x``; keeps no graph."""
        with torch.no_grad(), evaluating(self):
            means = prototypes(self.model(support.x), support.y, _classes(support.y))
            return closeness(self.model(x), means)

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner."""
        return {**super().describe(), "map": self.map}

    def plan(self, sizes: Sizes) -> Plan:
        """How a step of these sizes is computed: as for other learners, but for support and query alike."""
        chain = f"map {self.map} was asked for" if self._map_given else self._chains.of(self.model)
        if isinstance(chain, str):
            engine = settled("engine", "mapped", chain, self.forced)
        elif self.forced.get("engine") == "closed":
            engine = settled("engine", "mapped", "no closed form with prototypes", self.forced)
        else:
            sizes = dataclasses.replace(sizes, support=0, query=sizes.support + sizes.query)
            engine = choose("engine", chain_estimates(chain, sizes, 0), self.forced)
            if engine.way == "chain":
                return (engine, convolution_choice(chain, sizes, 0, self.forced))
        return (engine, Choice("map", self.map, "rule on the model, or forced"))

    def _chain(self, episodes: Episode) -> Chain | None:
        """The chain that works off these episodes, if that is the engine."""
        x = episodes.support.x
        if x.device.type != "cpu" or torch.is_autocast_enabled("cpu") or x.dtype not in CHAIN_TYPES:
            return None
        chain = "map given" if self._map_given else self._chains.of(self.model)
        ways = {choice.name: choice.way for choice in self.plan(Sizes.of(episodes))}
        if isinstance(chain, str) or ways["engine"] != "chain":
            return None
        return chain.by(ways["convolve"])


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
        raise MetasymError(f"expected whole-number class labels for ProtoNet, found {labels.dtype}")
    classes = int(labels.max()) + 1
    present = F.one_hot(labels.reshape(-1, labels.shape[-1]), classes).sum(1) > 0
    if not bool(present.all()):
        missing = (~present).nonzero()[0]
        raise MetasymError(
            f"expected a support example of each of the {classes} classes, found none of class {int(missing[1])}"
        )
    return classes
