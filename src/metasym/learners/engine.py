"""Where a learner's step is computed in closed form (``engines.dense.closed_form``), and where it is mapped."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from metasym.adaptation.functional import is_squared, parameters_of
from metasym.engines.convolution.moments import ConvolutionPredictor, convolution_predictor
from metasym.engines.convolution.quadratic import fits, quadratic_gradient, quadratic_losses
from metasym.engines.dense.closed_form import closed_gradient, closed_loss
from metasym.engines.dense.contraction import DenseLayer
from metasym.engines.dense.joint import U_NAME, V_NAME
from metasym.engines.dense.layer import Layer, find_layer, flat_rows
from metasym.engines.plan import Plan, Sizes, convolution_plan, linear_plan
from metasym.types import Batch, Episode, OuterLoss, Params

GradientLearner = Any


class ClosedEngine:
    """The closed form of a learner's step, for learners and sizes where there is one and it is faster."""

    def __init__(self, *, map_given: bool) -> None:
        self._map_given = map_given
        """Whether the user asked for a way to map over tasks, and so for mapping."""
        self._plans: dict[tuple[object, ...], Plan] = {}

    def plan(self, learner: GradientLearner, sizes: Sizes) -> Plan | str:
        """How a step of these sizes is computed, or why there is no closed form of it."""
        found = self._find(learner)
        if isinstance(found, str):
            return found
        return self._planned(learner, found, sizes)

    def losses(self, learner: GradientLearner, episodes: Episode) -> OuterLoss | None:
        """The losses of every task in closed form; None where the step is to be mapped over tasks."""
        if isinstance(learner.model, nn.Conv2d):
            return self._convolution_losses(learner, episodes)
        found = self._bind(learner, episodes)
        if found is None:
            return None
        layer, data, ways = found
        first = ways["contract"]
        return closed_loss(layer, *data, first_order=learner.first_order, query_first=first)

    def gradient(
        self, learner: GradientLearner, episodes: Episode, total_tasks: int
    ) -> tuple[OuterLoss, Params] | None:
        """The losses and the gradient of their sum over ``total_tasks``, likewise, without autograd.

        By the names of ``learner.outer_parameters()``, and in their order.
        """
        if isinstance(learner.model, nn.Conv2d):
            return self._convolution_gradient(learner, episodes, total_tasks)
        with torch.no_grad():
            found = self._bind(learner, episodes)
        if found is None:
            return None
        layer, data, ways = found
        losses, by = closed_gradient(
            layer,
            *data,
            first_order=learner.first_order,
            query_first=ways["contract"],
            total_tasks=total_tasks,
            compiled=ways["compile"] == "yes",
        )
        # The model is the layer. Its parameters are not listed: walking through its modules takes longer than this.
        named = (("bias", layer.bias, by.bias), (V_NAME, layer.v, by.v), (U_NAME, layer.U, by.U))
        fixed = () if learner.learn_start else learner.inner_names
        gradient = {
            f"model.{name}": g
            for name, p, g in named
            if p is not None and g is not None and p.requires_grad and name not in fixed
        }
        rates = {V_NAME: by.rates_v, U_NAME: by.rates_U}
        by_rates = {name: g for name, g in rates.items() if g is not None}
        gradient.update({f"rates.{name}": g for name, g in learner.rates.pull_back(by_rates).items()})
        return losses, gradient

    def _bind(
        self, learner: GradientLearner, episodes: Episode
    ) -> tuple[Layer, tuple[Batch, Batch], dict[str, str]] | None:
        """The layer and the data of a step, and the ways it is computed in; None for mapping."""
        layer = self._find(learner)
        if not isinstance(layer, DenseLayer) or torch.is_autocast_enabled(layer.U.device.type):
            return None
        data = flat_rows(episodes, layer)
        if data is None:
            return None
        ways = {choice.name: choice.way for choice in self._planned(learner, layer, Sizes.of(episodes))}
        if ways["engine"] != "closed":
            return None
        rates = {name: learner.rates.stacked(name, learner.inner_steps) for name in learner.inner_names}
        v = rates.pop(layer.name)
        U = next(iter(rates.values()), None)
        return Layer(layer.U, layer.v, layer.bias, U, v), data, ways

    def _convolution_losses(self, learner: GradientLearner, episodes: Episode) -> OuterLoss | None:
        found = self._bind_convolution(learner, episodes)
        if found is None:
            return None
        return quadratic_losses(
            *found,
            episodes,
            steps=learner.inner_steps,
            rates=learner.rates.at,
            first_order=learner.first_order,
        )

    def _convolution_gradient(
        self, learner: GradientLearner, episodes: Episode, total_tasks: int
    ) -> tuple[OuterLoss, Params] | None:
        found = self._bind_convolution(learner, episodes)
        if found is None:
            return None
        predict, inner = found
        losses, by_model, by_rates = quadratic_gradient(
            predict,
            inner,
            episodes,
            steps=learner.inner_steps,
            rates=learner.rates.at,
            first_order=learner.first_order,
            total_tasks=total_tasks,
        )
        fixed = () if learner.learn_start else learner.inner_names
        gradient = {
            f"model.{name}": by_model[name] if name in by_model else torch.zeros_like(p)
            for name, p in predict.params.items()
            if p.requires_grad and name not in fixed
        }
        by_name = learner.rates.pull_back_entries(by_rates)
        gradient.update({f"rates.{name}": g for name, g in by_name.items()})
        return losses, gradient

    def _bind_convolution(
        self, learner: GradientLearner, episodes: Episode
    ) -> tuple[ConvolutionPredictor, Params] | None:
        """The convolution of a step and what of it adapts; None for mapping."""
        found = self._find(learner)
        if isinstance(found, str | DenseLayer) or torch.is_autocast_enabled(episodes.support.x.device.type):
            return None
        inner = {name: found.params[name] for name in learner.inner_names}
        if not fits(found, inner, episodes):
            return None
        if self._planned(learner, found, Sizes.of(episodes))[0].way != "closed":
            return None
        return found, inner

    def _planned(
        self, learner: GradientLearner, layer: DenseLayer | ConvolutionPredictor, sizes: Sizes
    ) -> Plan:
        if isinstance(layer, ConvolutionPredictor):
            entries = sum(layer.params[name].numel() for name in learner.inner_names)
            return convolution_plan(sizes, entries, layer.weight_entries, learner.inner_steps, learner.forced)
        key = (sizes, layer.U.shape, learner.inner_steps)
        if key not in self._plans:
            joint = len(learner.inner_names) > 1
            m, n, k = layer.outputs, layer.inputs, layer.U.shape[1]
            self._plans[key] = linear_plan(sizes, m, n, k, learner.inner_steps, joint, learner.forced)
        return self._plans[key]

    def _find(self, learner: GradientLearner) -> DenseLayer | ConvolutionPredictor | str:
        """The one layer whose meta-gradient is known in closed form, or else why there is none."""
        if learner.solver != "sgd":
            return f"solver {learner.solver}"
        if not is_squared(learner.loss):
            return "not the squared loss"
        if self._map_given:
            return f"map {learner.map} was asked for"
        if isinstance(learner.model, nn.Conv2d):
            convolution = convolution_predictor(
                learner.model, parameters_of(learner.model), learner.inner_names
            )
            if convolution is None or not convolution.linear:
                return "not one plain convolution that is linear in what adapts"
            return convolution
        layer = find_layer(learner.model, learner.inner_names)
        if layer is None:
            return "not one dense linear layer whose filter alone adapts"
        if len(learner.inner_names) > 1 and learner.rates.mode == "parameter":
            return "a step size for each entry of U"
        return layer
