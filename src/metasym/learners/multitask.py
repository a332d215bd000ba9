"""MTSR, the paper's multi-task ablation: one U for all tasks, and a filter of its own for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.adaptation.functional import (
    call,
    check_no_running_statistics,
    evaluating,
    map_tasks,
    measure,
    parameters_of,
)
from metasym.argument_types import checked
from metasym.engines.description import OwnParameters, Setting
from metasym.learners.adaptable import with_parameters
from metasym.learners.base import Learner, Metric, check_count, check_finite
from metasym.symmetry.reparam import split, symmetries
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params


class MTSR(Learner):
    """The paper's ablation without a meta-gradient: optimizes U and every training task's own v together.

    On a new task U stays frozen, and a newly drawn v is fitted to the support set. Biases and norms of a task
    start from the model's values.

    Args:
        model: A reparameterized network.
        loss: ``loss(prediction, target) -> scalar``.
        train_tasks: Number of training tasks. Train with ``tasks_per_step`` at least as large for the paper's
            full-batch updates.
        test_steps: Steps of Adam on a new task.
        test_lr: Their learning rate.
        filter_std: Filters start from N(0, filter_std^2).
        seed: Seed of the filters.
        map: ``"vmap"`` or ``"loop"`` over tasks, or ``"auto"``.
        chunk_size: The most tasks held in memory at once.
        paths: Ways of computing a step to force, ``"name=way,..."``.
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        loss: Loss = F.mse_loss,
        *,
        train_tasks: int,
        test_steps: int = 500,
        test_lr: float = 1e-3,
        filter_std: float = 0.01,
        seed: int = 0,
        map: str = "auto",
        chunk_size: int | None = None,
        paths: str | Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, loss, chunk_size=chunk_size, paths=paths)
        model = self.model  # without a compiler's wrapper
        if not symmetries(model):
            raise MetasymError(
                f"expected a reparameterized model for MTSR, found a plain {type(model).__name__}: "
                "call metasym.reparameterize first",
                about="model",
                found=type(model).__name__,
            )
        check_count("train_tasks", train_tasks, least=1)
        check_no_running_statistics(model)
        learned = split(model).U
        own = {n: p for n, p in model.named_parameters() if p.requires_grad and n not in learned}
        self._keys = {name: name.replace(".", "/") for name in own}  # torch forbids dots in names
        self.test_steps = check_count("test_steps", test_steps)
        self.test_lr = check_finite("test_lr", test_lr, least=0)
        self.filter_std, self.seed = check_finite("filter_std", filter_std, least=0), seed
        generator = torch.Generator().manual_seed(seed)
        self.filters = nn.ParameterDict(
            {self._keys[n]: nn.Parameter(t) for n, t in self._start(train_tasks, generator).items()}
        )
        self._choose_map(map)

    @property
    def train_tasks(self) -> int:
        """How many tasks have a filter of their own."""
        return int(next(iter(self.filters.values())).shape[0])

    def outer_parameters(self) -> Params:
        """U and the filters of all training tasks; the model's own v is only a template."""
        found: Params = {f"model.{n}": p for n, p in split(self.model).U.items() if p.requires_grad}
        found.update({f"filters.{n}": p for n, p in self.filters.items()})
        return found

    def outer_loss(self, episodes: Episode) -> OuterLoss:
        """The loss of every task's own filter on all its examples, support and query."""
        if int(episodes.ids.max()) >= self.train_tasks:
            raise MetasymError(
                f"expected task ids below {self.train_tasks}, found {int(episodes.ids.max())}: MTSR has a filter "
                "for each of its training tasks only",
                about="task ids",
                found=int(episodes.ids.max()),
            )
        self._select(Setting.of(episodes))  # an error where the user forces what no engine can do
        own = {name: self.filters[key][episodes.ids] for name, key in self._keys.items()}
        everything = Batch(
            torch.cat([episodes.support.x, episodes.query.x], dim=1),
            torch.cat([episodes.support.y, episodes.query.y], dim=1),
        )
        losses = self._losses(own, everything)
        return OuterLoss(losses, losses.detach(), losses.detach())

    def fit(self, support: Batch, *, inner_steps: int | None = None) -> Params:
        """New filters for the tasks of ``support [tasks, examples, ...]``, U frozen: ``[tasks, *filter]``."""
        steps = self.test_steps if inner_steps is None else check_count("inner_steps", inner_steps)
        generator = torch.Generator().manual_seed(self.seed + 1)
        tasks = support.x.shape[0]
        start = {n: t[0].expand(tasks, *t[0].shape) for n, t in self._start(1, generator).items()}
        own = {n: v.clone().requires_grad_() for n, v in start.items()}
        optimizer = torch.optim.Adam(list(own.values()), lr=self.test_lr)
        with torch.enable_grad(), evaluating(self):
            for _ in range(steps):
                total = self._losses(own, support, frozen=True).sum()  # Adam scales each entry separately
                for v, g in zip(own.values(), torch.autograd.grad(total, list(own.values())), strict=True):
                    v.grad = g
                optimizer.step()
        return {n: v.detach() for n, v in own.items()}

    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query sets after fitting new filters, ``[tasks]``."""
        size = self.chunk_size or episodes.count
        parts = []
        for start in range(0, episodes.count, size):
            chunk = episodes.tasks(start, start + size)
            own = self.fit(chunk.support, inner_steps=inner_steps)
            with torch.no_grad(), evaluating(self):
                parts.append(self._map(own, chunk.query, metric, "metric"))
        return torch.cat(parts)

    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """An ordinary ``nn.Module`` whose filter was fitted to one task's support set, in evaluation mode."""
        return with_parameters(self.model, self._fit_one(self._examples(support), inner_steps))

    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Fit a new filter to one task's support set and predict at ``x [examples, ...]``."""
        params = {**parameters_of(self.model), **self._fit_one(self._examples(support), inner_steps)}
        with torch.no_grad(), evaluating(self):
            return call(self.model, params, self._inputs(x))

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner."""
        return {
            **super().describe(),
            "train_tasks": self.train_tasks,
            "test_steps": self.test_steps,
            "test_lr": self.test_lr,
            "filter_std": self.filter_std,
            "seed": self.seed,
            "map": self.map,
        }

    def _description(self) -> OwnParameters:
        return OwnParameters(
            model=self.model,
            outer=self.outer_parameters,
            forced=self.forced,
            map=self.map,
            map_given=self._map_given,
        )

    def _start(self, tasks: int, generator: torch.Generator) -> Params:
        """Where the parameters of ``tasks`` tasks start: filters are drawn, the rest is as the model has it."""
        filters, found = split(self.model).v, {}
        for name, value in parameters_of(self.model).items():
            if name in filters and name in self._keys:
                drawn = torch.randn(tasks, *value.shape, generator=generator, dtype=value.dtype)
                found[name] = self.filter_std * drawn.to(value.device)
            elif name in self._keys:
                found[name] = value.detach().expand(tasks, *value.shape).clone()
        return found

    def _fit_one(self, support: Batch, inner_steps: int | None) -> Params:
        batched = Batch(support.x.unsqueeze(0), support.y.unsqueeze(0))
        return {n: v[0] for n, v in self.fit(batched, inner_steps=inner_steps).items()}

    def _losses(self, own: Params, data: Batch, *, frozen: bool = False) -> Tensor:
        return self._map(own, data, self.loss, "loss", frozen=frozen)

    def _map(self, own: Params, data: Batch, score: Loss, what: str, *, frozen: bool = True) -> Tensor:
        """``score(prediction, target)`` of each task with its own filters ``[tasks, *filter]``."""
        shared = parameters_of(self.model)
        if frozen:
            shared = {n: p.detach() for n, p in shared.items()}

        def task(item: tuple[Params, Batch]) -> Tensor:
            mine, batch = item
            return measure(score, call(self.model, {**shared, **mine}, batch.x), batch.y, what)

        return map_tasks(task, (own, data), mode=self.map)
