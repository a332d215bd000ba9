"""Deep networks, their layers differentiated one by one, as an engine."""

from __future__ import annotations

import dataclasses
import functools
from typing import ClassVar

import torch
from torch import Tensor, nn

from metasym.adaptation.functional import parameters_of
from metasym.engines.description import Adapting, Description, Embedding, OwnParameters, Setting
from metasym.engines.engine import Engine, Ways
from metasym.engines.layerwise.adapting import CHAIN_TYPES, ChainTask, chained_losses, chained_scores
from metasym.engines.layerwise.chain import Chain, Chains
from metasym.engines.layerwise.embeddings import embedding_losses
from metasym.engines.layerwise.estimates import chain_estimates, convolution_choice
from metasym.engines.plan import Plan, Sizes
from metasym.engines.reference import Reference, adapting, embedded_losses, embedded_score
from metasym.types import Batch, Episode, Loss, OuterLoss, Params

_NO_CHAIN = "not a chain of layers with batch norms"


class LayerwiseEngine(Engine):
    """Gradients and products with the Hessian, task after task, without a graph through the network."""

    way: ClassVar[str] = "chain"
    serves: ClassVar[tuple[type[nn.Module], ...]] = (nn.Module,)

    def __init__(self, reference: Reference) -> None:
        self._reference = reference
        self._chains = Chains()

    def refuses(self, description: Description, setting: Setting) -> str | None:
        """Anything but a chain of layers, on the CPU, in one plain type, adapted by gradient steps."""
        if isinstance(description, OwnParameters):
            return "each task has its own parameters"
        if isinstance(description, Adapting) and description.solver != "sgd":
            return f"solver {description.solver}"
        if description.map_given:
            return f"map {description.map} was asked for"
        if isinstance(description.model, nn.Linear | nn.Conv2d):
            return _NO_CHAIN
        if setting.device != "cpu":
            return f"on {setting.device}"
        if setting.autocast:
            return "mixed precision"
        if setting.dtype not in CHAIN_TYPES:
            return f"data of {setting.dtype}"
        if setting.learned_data:
            return "gradients by the data are asked for"
        found = self._chains.of(description.model)
        return found if isinstance(found, str) else None

    def decisions(self, description: Description) -> frozenset[str]:
        """How to convolve with kernels of 3 x 3 or 5 x 5."""
        return frozenset(["convolve"])

    def milliseconds(self, description: Description, setting: Setting) -> dict[str, float]:
        """By the multiply-adds of the network's layers."""
        return chain_estimates(self._chain(description), *_work(description, setting))

    def choices(self, description: Description, setting: Setting) -> Plan:
        """Whichever takes less time, of those that there are kernels for."""
        sizes, steps = _work(description, setting)
        return (convolution_choice(self._chain(description), sizes, steps, description.forced),)

    def kernels(self, ways: Ways) -> tuple[str, ...]:
        """Norms, and the chosen way of convolving."""
        return ("norm_pool", *(["winograd"] if ways["convolve"] == "winograd" else []))

    def tasks_at_once(self, description: Description, ways: Ways, episodes: Episode) -> int:
        """As many as leave room for what they have to remember; embeddings leave nothing behind."""
        if isinstance(description, Embedding):
            return episodes.count
        return self._chain(description).tasks_at_once(episodes)

    def losses(self, description: Description, ways: Ways, episodes: Episode) -> OuterLoss:
        """Each task's gradient is computed with its loss."""
        chain = self._chain(description).by(ways["convolve"])
        if isinstance(description, Embedding):
            of = functools.partial(embedded_losses, description)
            query, support = embedding_losses(chain, parameters_of(description.model), episodes, of)
            return OuterLoss(query, support, support)
        d = adapting(description)
        return chained_losses(chain, _task(d), episodes, steps=d.steps, first_order=d.first_order)

    def scores(
        self, description: Description, ways: Ways, episodes: Episode, metric: Loss, steps: int
    ) -> Tensor:
        """Task after task."""
        chain = self._chain(description).by(ways["convolve"])
        with torch.no_grad():
            if not isinstance(description, Embedding):
                return chained_scores(chain, _task(adapting(description)), metric, episodes, steps=steps)
            at = chain.effective(parameters_of(description.model))
            found = []
            for episode in (episodes.task(i) for i in range(episodes.count)):
                support, query = (chain.predict(at, batch.x) for batch in episode[:2])
                found.append(embedded_score(description, metric, support, query, episode))
            return torch.stack(found)

    def adapt(self, description: Description, support: Batch, steps: int) -> Params:
        """By the reference."""
        return self._reference.adapt(description, support, steps)

    def _chain(self, description: Description) -> Chain:
        found = self._chains.of(description.model)
        assert isinstance(found, Chain)
        return found


def _task(d: Adapting) -> ChainTask:
    return ChainTask(d.loss, parameters_of(d.model), list(d.inner), d.rates.at)


def _work(description: Description, setting: Setting) -> tuple[Sizes, int]:
    """The sizes and inner steps to count; embeddings treat support and query alike, and take no steps."""
    sizes = setting.sizes
    if isinstance(description, Adapting):
        return sizes, description.steps
    return dataclasses.replace(sizes, support=0, query=sizes.support + sizes.query), 0
