"""The engine that can do everything: one task's adaptation (``metasym.adaptation``), mapped over tasks by torch.func.

It knows how some models predict faster than by running them (``predictor``); the numbers are the same.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor, nn

from metasym.adaptation.functional import (
    Adapted,
    ModelPredictor,
    Predictor,
    Solver,
    call,
    full_precision,
    map_tasks,
    measure,
    parameters_of,
    query_loss,
    sgd,
)
from metasym.adaptation.linear_solve import check_linear, conjugate_gradients, ridge
from metasym.engines.convolution.moments import convolution_predictor
from metasym.engines.dense.contraction import last_dense_layer, layer_predictor
from metasym.engines.dense.joint import JointPredictor, joint_predictor, joint_sgd
from metasym.engines.description import Adapting, Description, Embedding, Setting
from metasym.engines.engine import Engine, Ways
from metasym.engines.plan import Choice, Plan
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params


class Reference(Engine):
    """torch.func over tasks, all at once or one after the other."""

    way: ClassVar[str] = "mapped"
    serves: ClassVar[tuple[type[nn.Module], ...]] = (nn.Module,)

    def __init__(self) -> None:
        self._checked_linear = False

    def refuses(self, description: Description, setting: Setting) -> str | None:
        """Never."""
        return None

    def decisions(self, description: Description) -> frozenset[str]:
        """How to map; and what to contract U with, where the model ends in the one dense layer that adapts."""
        dense = isinstance(description, Adapting) and last_dense_layer(
            description.model, list(description.inner)
        )
        return frozenset(("map", "contract") if dense else ("map",))

    def milliseconds(self, description: Description, setting: Setting) -> dict[str, float]:
        """None: each faster engine brings both its own estimate and one for torch.func."""
        return {}

    def choices(self, description: Description, setting: Setting) -> Plan:
        """How to map; each set of examples decides what to contract U with, unless the user has decided."""
        found = (Choice("map", description.map, "rule on the model, or forced"),)
        contract = description.forced.get("contract")
        return found if contract is None else (*found, Choice("contract", contract, "forced"))

    def losses(self, description: Description, ways: Ways, episodes: Episode) -> OuterLoss:
        """Every task separately."""
        if isinstance(description, Embedding):
            return self._embedding(description, episodes, ways["map"])
        d = adapting(description)
        predict, inner = self._bind(d, episodes.support.x[0])

        def task(episode: Episode) -> OuterLoss:
            return query_loss(predict, d.loss, inner, episode, solver=solver_of(d), steps=d.steps)

        return map_tasks(task, episodes, mode=ways["map"])

    def scores(
        self, description: Description, ways: Ways, episodes: Episode, metric: Loss, steps: int
    ) -> Tensor:
        """Every task separately, without a graph."""
        mode = ways.get("map", description.map)
        with torch.no_grad():
            if isinstance(description, Embedding):
                at = parameters_of(description.model)

                def embedded(episode: Episode) -> Tensor:
                    support, query = (call(description.model, at, batch.x) for batch in episode[:2])
                    return embedded_score(description, metric, support, query, episode)

                return map_tasks(embedded, episodes, mode=mode)
            d = adapting(description)
            predict, inner = self._bind(d, episodes.support.x[0])
            solve = solver_of(d)

            def task(episode: Episode) -> Tensor:
                adapted = solve(predict, inner, episode.support, steps).inner
                return measure(metric, predict(adapted, episode.query.x), episode.query.y, "metric")

            return map_tasks(task, episodes, mode=mode)

    def adapt(self, description: Description, support: Batch, steps: int) -> Params:
        """By a predictor whose adapted parameters have the names and shapes of the model's."""
        d = adapting(description)
        with torch.no_grad():
            predict, inner = self._bind(d, support.x, joint=False)
            return solver_of(d)(predict, inner, support, steps).inner

    def _embedding(self, d: Embedding, episodes: Episode, mode: str) -> OuterLoss:
        params = parameters_of(d.model)

        def task(episode: Episode) -> OuterLoss:
            support, query = (call(d.model, params, batch.x) for batch in episode[:2])
            loss, near = embedded_losses(d, support, query, episode)
            return OuterLoss(loss, near, near)  # nothing adapts: before is after

        return map_tasks(task, episodes, mode=mode)

    def _bind(self, d: Adapting, x: Tensor, *, joint: bool = True) -> tuple[Predictor, Params]:
        """The model as a function of what adapts, and where that starts.

        Before its first exact solve, the engine checks at ``x`` that the model is linear in what adapts.
        """
        params = parameters_of(d.model)
        predict, inner = predictor(d, params, joint=joint), {name: params[name] for name in d.inner}
        if d.solver != "sgd" and not self._checked_linear:
            with full_precision(x):
                check_linear(predict, inner, x)
            self._checked_linear = True
        return predict, inner


def predictor(d: Adapting, params: Params, *, joint: bool = True) -> Predictor:
    """The fastest predictor that knows the model's structure; all give the same numbers.

    ``joint`` allows the predictor that keeps U's own moves as outer products and so has no adapted U to show.
    """
    inner = list(d.inner)
    # A step size for each entry of U would break the outer products.
    moves = joint and d.solver == "sgd" and d.rates.mode != "parameter"
    return (
        (joint_predictor(d.model, params, inner) if moves else None)
        or layer_predictor(d.model, params, inner, d.forced.get("contract"))
        or convolution_predictor(d.model, params, inner)
        or ModelPredictor(d.model, params)
    )


def solver_of(d: Adapting) -> Solver:
    """The inner solver that a description asks for, for one task."""

    def solve(predict: Predictor, inner: Params, support: Batch, steps: int) -> Adapted:
        if d.solver == "sgd":
            rates, first_order = d.rates.at, d.first_order
            if isinstance(predict, JointPredictor):
                return joint_sgd(
                    predict, d.loss, inner, support, steps=steps, rates=rates, first_order=first_order
                )
            return sgd(predict, d.loss, inner, support, steps=steps, rates=rates, first_order=first_order)
        with full_precision(support.x):
            if d.solver == "ridge":
                return ridge(predict, inner, support, penalty=d.penalty)
            return conjugate_gradients(predict, inner, support, penalty=d.penalty, iterations=steps)

    return solve


def embedded_losses(d: Embedding, support: Tensor, query: Tensor, episode: Episode) -> tuple[Tensor, Tensor]:
    """One task's query loss from the embeddings of its two sets, and the loss of its support set (detached)."""
    value = measure(d.loss, d.predict(support, query, episode), episode.query.y)
    support = support.detach()
    return value, measure(d.loss, d.predict(support, support, episode), episode.support.y)


def embedded_score(d: Embedding, metric: Loss, support: Tensor, query: Tensor, episode: Episode) -> Tensor:
    """``metric`` on one task's query set, likewise."""
    return measure(metric, d.predict(support, query, episode), episode.query.y, "metric")


def adapting(description: Description) -> Adapting:
    """The description as one in which parameters adapt; others have to be computed by whoever made them."""
    if not isinstance(description, Adapting):
        raise MetasymError(
            f"expected a step in which something adapts, found {type(description).__name__}",
            about="description",
            found=type(description).__name__,
        )
    return description
