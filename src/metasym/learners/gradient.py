"""MAML, ANIL, MSR and MSR-Joint: one inner loop, four ways to split the parameters into inner and outer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.adaptation.functional import (
    Adapted,
    ModelPredictor,
    Predictor,
    call,
    check_no_running_statistics,
    choose_map,
    evaluating,
    full_precision,
    map_tasks,
    measure,
    parameters_of,
    query_loss,
    sgd,
)
from metasym.adaptation.linear_solve import check_linear, conjugate_gradients, ridge
from metasym.engines.convolution.moments import convolution_predictor
from metasym.engines.dense.contraction import layer_predictor
from metasym.engines.dense.joint import JointPredictor, joint_predictor, joint_sgd
from metasym.engines.layerwise.adapting import CHAIN_TYPES, ChainTask, chained_losses, chained_scores
from metasym.engines.layerwise.chain import Chain, Chains
from metasym.engines.layerwise.estimates import chain_estimates, convolution_choice
from metasym.engines.plan import AUTO, Choice, Plan, Sizes, choose, settled
from metasym.learners.adaptable import check_exact, last_layer, matching, need_symmetries, with_parameters
from metasym.learners.base import Learner, Metric, check_count, check_finite
from metasym.learners.engine import ClosedEngine
from metasym.learners.step_sizes import StepSizes
from metasym.symmetry.reparam import split
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params

SOLVERS = ("sgd", "ridge", "cg")


class GradientLearner(Learner):
    """Adapts some of the model's parameters by gradient descent (or an exact solve) on the support set.

    inner_steps, test_inner_steps: how many at training, and at test (the same unless given).
    inner_lr, step_sizes: where the step sizes start, and what of them is learned (see ``StepSizes``).
    solver: ``"sgd"``; or, for the squared loss and a model linear in what adapts, ``"ridge"`` (exact) or
        ``"cg"`` (``inner_steps`` iterations), both with ``penalty`` on the change of what adapts.
    adapt_only: name patterns; of what the method adapts, only parameters that match are.
    learn_start: whether the outer loop learns the values that adaptation starts from.
    first_order: take the inner gradients as constants.
    map: ``"vmap"`` or ``"loop"`` over tasks, or ``"auto"``; chunk_size bounds the tasks held at once.
    paths: other ways of computing a step than the cost model's, ``"name=way,..."`` (see ``metasym.engines.plan``).
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss = F.mse_loss,
        *,
        inner_steps: int = 1,
        test_inner_steps: int | None = None,
        inner_lr: float = 0.1,
        step_sizes: str = "layer",
        solver: str = "sgd",
        penalty: float = 1e-6,
        adapt_only: str | Sequence[str] | None = None,
        learn_start: bool = True,
        first_order: bool = False,
        map: str = "auto",
        chunk_size: int | None = None,
        paths: str | Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(model, loss, chunk_size=chunk_size, paths=paths)
        if solver not in SOLVERS:
            raise MetasymError(f"expected solver to be one of {', '.join(SOLVERS)}, found {solver!r}")
        if solver != "sgd":
            check_exact(solver, loss, step_sizes, first_order)
        check_no_running_statistics(model)
        self.inner_steps = check_count("inner_steps", inner_steps)
        self.test_inner_steps = self.inner_steps
        if test_inner_steps is not None:
            self.test_inner_steps = check_count("test_inner_steps", test_inner_steps)
        inner_lr = check_finite("inner_lr", inner_lr)
        self.solver, self.penalty = solver, check_finite("penalty", penalty, least=0)
        self.learn_start, self.first_order = learn_start, first_order
        trainable: Params = {n: p for n, p in model.named_parameters() if p.requires_grad}
        adaptable = self._adaptable(trainable)
        self._inner = matching(list(adaptable), adapt_only)
        self.map = choose_map(model, self.forced.get("map", AUTO) if map == AUTO else map)
        self.rates = StepSizes({n: trainable[n] for n in self._inner}, step_sizes, inner_lr, self.inner_steps)
        self._checked_linear = solver == "sgd"
        self._map_given = map != AUTO or "map" in self.forced
        self._closed = ClosedEngine(map_given=self._map_given)
        self._chains = Chains()

    @abstractmethod
    def _adaptable(self, trainable: Params) -> Params:
        """What this method adapts, of the trainable parameters."""

    @property
    def inner_names(self) -> list[str]:
        """The names, in the model, of the parameters that are adapted to each task."""
        return list(self._inner)

    def outer_parameters(self) -> Params:
        """Everything trainable (less the start of what adapts, if that is fixed), and the step sizes."""
        fixed = set() if self.learn_start else set(self._inner)
        found: Params = {
            f"model.{n}": p for n, p in self.model.named_parameters() if p.requires_grad and n not in fixed
        }
        found.update({f"rates.{n}": p for n, p in self.rates.named_parameters() if self.solver == "sgd"})
        return found

    def outer_loss(self, episodes: Episode) -> OuterLoss:
        """Adapt to every task's support set with ``inner_steps`` and return the per-task losses."""
        closed = self._closed.losses(self, episodes)
        if closed is not None:
            return closed
        chain = self._chain(episodes)
        if chain is not None:
            return chained_losses(
                chain, self._chain_task(), episodes, steps=self.inner_steps, first_order=self.first_order
            )
        predict, inner = self._bind()
        self._check_linear(predict, inner, episodes.support.x[0])

        def task(episode: Episode) -> OuterLoss:
            return query_loss(predict, self.loss, inner, episode, solver=self._solve, steps=self.inner_steps)

        return map_tasks(task, episodes, mode=self.map)

    def outer_gradient(
        self, episodes: Episode, *, total_tasks: int | None = None
    ) -> tuple[OuterLoss, Params]:
        """Per-task losses (detached) and the gradient of ``sum(query losses) / total_tasks``."""
        if self.chunk_size is None or self.chunk_size >= episodes.count:
            found = self._closed.gradient(self, episodes, total_tasks or episodes.count)
            if found is not None:
                return found
        return super().outer_gradient(episodes, total_tasks=total_tasks)

    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query sets after ``test_inner_steps`` (or ``inner_steps``), ``[tasks]``."""
        steps = self._test_steps(inner_steps)
        predict, inner = self._bind()

        def task(episode: Episode) -> Tensor:
            adapted = self._solve(predict, inner, episode.support, steps).inner
            return measure(metric, predict(adapted, episode.query.x), episode.query.y, "metric")

        size = self._at_once(episodes)
        with torch.no_grad(), evaluating(self):
            chain = self._chain(episodes)
            if chain is not None:
                return chained_scores(chain, self._chain_task(), metric, episodes, steps=steps)
            self._check_linear(predict, inner, episodes.support.x[0])
            parts = [
                map_tasks(task, episodes.tasks(start, start + size), mode=self.map)
                for start in range(0, episodes.count, size)
            ]
        return torch.cat(parts)

    def adapted_parameters(self, support: Batch, *, inner_steps: int | None = None) -> Params:
        """The adapted parameters of one task, by their names in the model; keeps no graph."""
        steps = self._test_steps(inner_steps)
        predict, inner = self._bind_whole()
        with torch.no_grad(), evaluating(self):
            self._check_linear(predict, inner, support.x)
            return self._solve(predict, inner, support, steps).inner

    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Adapt to one task's support set and predict at ``x [examples, ...]``; keeps no graph."""
        adapted = self.adapted_parameters(support, inner_steps=inner_steps)
        with torch.no_grad(), evaluating(self):
            return call(self.model, {**parameters_of(self.model), **adapted}, x)

    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """An ordinary ``nn.Module`` adapted to one task's support set, in evaluation mode."""
        return with_parameters(self.model, self.adapted_parameters(support, inner_steps=inner_steps))

    def step_sizes(self) -> dict[str, float]:
        """The step size of each adapted tensor (the mean where it has many); empty for an exact solve."""
        return self.rates.summary() if self.solver == "sgd" else {}

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner."""
        return {
            **super().describe(),
            "inner_steps": self.inner_steps,
            "test_inner_steps": self.test_inner_steps,
            "step_sizes": self.rates.mode,
            "solver": self.solver,
            "penalty": self.penalty,
            "inner": self._inner,
            "learn_start": self.learn_start,
            "first_order": self.first_order,
            "map": self.map,
        }

    def plan(self, sizes: Sizes) -> Plan:
        """How a step of these sizes is computed."""
        wanted = self.forced.get("engine")
        closed = self._closed.plan(self, sizes)
        if not isinstance(closed, str) and wanted != "chain":
            return closed
        chain = self._chain_or_why()
        if isinstance(chain, str):
            about_closed = wanted == "closed" or isinstance(self.model, nn.Linear)
            why = closed if about_closed and isinstance(closed, str) else chain
            engine = settled("engine", "mapped", why, self.forced)
        else:
            engine = choose("engine", chain_estimates(chain, sizes, self.inner_steps), self.forced)
        if engine.way == "chain":
            assert not isinstance(chain, str)
            return (engine, convolution_choice(chain, sizes, self.inner_steps, self.forced))
        return (engine, Choice("map", self.map, "rule on the model, or forced"))

    def _chain_or_why(self) -> Chain | str:
        """The model as a chain of layers, or why another engine has to take it."""
        if self.solver != "sgd":
            return f"solver {self.solver}"
        if self._map_given:
            return f"map {self.map} was asked for"
        return self._chains.of(self.model)

    def _chain(self, episodes: Episode) -> Chain | None:
        """The chain that works off these episodes, if that is the engine."""
        x = episodes.support.x
        if x.device.type != "cpu" or torch.is_autocast_enabled("cpu") or x.dtype not in CHAIN_TYPES:
            return None
        chain = self._chain_or_why()
        if isinstance(chain, str):
            return None
        ways = {choice.name: choice.way for choice in self.plan(Sizes.of(episodes))}
        return chain.by(ways["convolve"]) if ways["engine"] == "chain" else None

    def _chain_task(self) -> ChainTask:
        return ChainTask(self.loss, parameters_of(self.model), self._inner, self.rates.at)

    def _at_once(self, episodes: Episode) -> int:
        chain = None if self.chunk_size else self._chain(episodes)
        return super()._at_once(episodes) if chain is None else chain.tasks_at_once(episodes)

    def _bind(self) -> tuple[Predictor, Params]:
        """The model as a function of its inner parameters, and their start."""
        params = parameters_of(self.model)
        return self._predictor(params), {name: params[name] for name in self._inner}

    def _bind_whole(self) -> tuple[Predictor, Params]:
        """The same by a predictor whose adapted parameters have the names and shapes of the model's."""
        return self._bind()

    def _test_steps(self, inner_steps: int | None) -> int:
        return self.test_inner_steps if inner_steps is None else check_count("inner_steps", inner_steps)

    def _predictor(self, params: Params) -> Predictor:
        """The fastest that knows the model's structure; all give the same numbers."""
        return (
            layer_predictor(self.model, params, self._inner, self.forced.get("contract"))
            or convolution_predictor(self.model, params, self._inner)
            or ModelPredictor(self.model, params)
        )

    def _check_linear(self, predict: Predictor, inner: Params, x: Tensor) -> None:
        """Once, before an exact solve: an error unless the model is linear in what adapts."""
        if not self._checked_linear:
            with full_precision(x):
                check_linear(predict, inner, x)
            self._checked_linear = True

    def _solve(self, predict: Predictor, inner: Params, support: Batch, steps: int) -> Adapted:
        if self.solver == "sgd":
            return sgd(
                predict,
                self.loss,
                inner,
                support,
                steps=steps,
                rates=self.rates.at,
                first_order=self.first_order,
            )
        with full_precision(support.x):
            if self.solver == "ridge":
                return ridge(predict, inner, support, penalty=self.penalty)
            return conjugate_gradients(predict, inner, support, penalty=self.penalty, iterations=steps)


class MAML(GradientLearner):
    """Adapts every parameter; learns where adaptation starts (Finn et al. 2017) and its step sizes."""

    def _adaptable(self, trainable: Params) -> Params:
        if split(self.model).U:
            raise MetasymError(
                "expected a plain model, or one with frozen symmetries, for MAML, found learnable "
                "symmetries: use MSR, or MSRJoint to adapt them too"
            )
        return trainable


class ANIL(GradientLearner):
    """Adapts only the head (Raghu et al. 2019): the layer named ``head``.

    Unless given, the last in order of registration whose weight has two dimensions or more: norms are
    passed over. Where layers are not registered in the order in which they act, name the head.
    """

    def __init__(self, model: nn.Module, loss: Loss = F.mse_loss, *, head: str | None = None, **options: Any):
        self._head = last_layer(model) if head is None else head
        if self._head not in dict(model.named_modules()):
            raise MetasymError(f"expected head to name a module of the model, found {self._head!r}")
        super().__init__(model, loss, **options)

    def _adaptable(self, trainable: Params) -> Params:
        prefix = f"{self._head}." if self._head else ""
        u = set(split(self.model).U)
        found = {n: p for n, p in trainable.items() if n.startswith(prefix) and n not in u}
        if not found:
            raise MetasymError(f"expected trainable parameters in the head {self._head!r}, found none")
        return found

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner."""
        return {**super().describe(), "head": self._head}


class MSR(GradientLearner):
    """The paper's method: adapts filters v (and biases, norms), never U, which the outer loop learns."""

    def _adaptable(self, trainable: Params) -> Params:
        need_symmetries(self.model, "MSR")
        learned = split(self.model).U
        return {n: p for n, p in trainable.items() if n not in learned}


class MSRJoint(GradientLearner):
    """The paper's ablation: adapts U together with v, that is MAML on a reparameterized model."""

    def _adaptable(self, trainable: Params) -> Params:
        need_symmetries(self.model, "MSRJoint")
        return trainable

    def _predictor(self, params: Params) -> Predictor:
        # A step size for each entry of U would break the outer products.
        fits = self.solver == "sgd" and self.rates.mode != "parameter"
        joint = joint_predictor(self.model, params, self._inner) if fits else None
        return joint or super()._predictor(params)

    def _solve(self, predict: Predictor, inner: Params, support: Batch, steps: int) -> Adapted:
        if not isinstance(predict, JointPredictor):
            return super()._solve(predict, inner, support, steps)
        return joint_sgd(
            predict, self.loss, inner, support, steps=steps, rates=self.rates.at, first_order=self.first_order
        )

    def _bind_whole(self) -> tuple[Predictor, Params]:
        params = parameters_of(self.model)
        return ModelPredictor(self.model, params), {name: params[name] for name in self._inner}
