"""MAML, ANIL, MSR and MSR-Joint: one inner loop, four ways to split the parameters into inner and outer."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.contraction import layer_predictor
from metasym.functional import (
    Adapted,
    ModelPredictor,
    Predictor,
    call,
    check_no_running_statistics,
    choose_map,
    map_tasks,
    parameters_of,
    query_loss,
    sgd,
)
from metasym.gram import convolution_predictor
from metasym.joint import JointPredictor, joint_predictor, joint_sgd
from metasym.learners.base import Learner, Metric
from metasym.learners.step_sizes import StepSizes
from metasym.linear_solve import check_linear, conjugate_gradients, ridge
from metasym.reparam import bake, split, symmetries
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
    ) -> None:
        super().__init__(model, loss, chunk_size=chunk_size)
        if solver not in SOLVERS:
            raise MetasymError(f"expected solver to be one of {', '.join(SOLVERS)}, found {solver!r}")
        if solver != "sgd" and not (loss is F.mse_loss or isinstance(loss, nn.MSELoss)):
            raise MetasymError(f"expected the squared loss with solver={solver!r}, found {loss}")
        for what, count in (("inner_steps", inner_steps), ("test_inner_steps", test_inner_steps or 0)):
            if count < 0:
                raise MetasymError(f"expected {what} >= 0, found {count}")
        check_no_running_statistics(model)
        self.inner_steps = inner_steps
        self.test_inner_steps = inner_steps if test_inner_steps is None else test_inner_steps
        self.solver, self.penalty = solver, penalty
        self.learn_start, self.first_order = learn_start, first_order
        trainable: Params = {n: p for n, p in model.named_parameters() if p.requires_grad}
        adaptable = self._adaptable(trainable)
        self._inner = _matching(list(adaptable), adapt_only)
        self.map = choose_map(model, self._inner, map)
        self.rates = StepSizes({n: trainable[n] for n in self._inner}, step_sizes, inner_lr, inner_steps)
        self._checked_linear = solver == "sgd"

    def _adaptable(self, trainable: Params) -> Params:
        """What this method adapts, of the trainable parameters."""
        raise NotImplementedError

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
        predict, inner = self._bind()
        self._check_linear(predict, inner, episodes.support.x[0])

        def task(episode: Episode) -> OuterLoss:
            return query_loss(predict, self.loss, inner, episode, solver=self._solve, steps=self.inner_steps)

        return map_tasks(task, episodes, mode=self.map)

    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query sets after ``test_inner_steps`` (or ``inner_steps``), ``[tasks]``."""
        predict, inner = self._bind()
        self._check_linear(predict, inner, episodes.support.x[0])
        steps = self.test_inner_steps if inner_steps is None else inner_steps

        def task(episode: Episode) -> Tensor:
            adapted = self._solve(predict, inner, episode.support, steps).inner
            return metric(predict(adapted, episode.query.x), episode.query.y)

        size = self.chunk_size or episodes.count
        with torch.no_grad():
            parts = [
                map_tasks(task, episodes.tasks(start, start + size), mode=self.map)
                for start in range(0, episodes.count, size)
            ]
        return torch.cat(parts)

    def adapted_parameters(self, support: Batch, *, inner_steps: int | None = None) -> Params:
        """The adapted parameters of one task, by their names in the model; keeps no graph."""
        predict, inner = self._bind()
        self._check_linear(predict, inner, support.x)
        steps = self.test_inner_steps if inner_steps is None else inner_steps
        with torch.no_grad():
            return self._solve(predict, inner, support, steps).inner

    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Adapt to one task's support set and predict at ``x [examples, ...]``; keeps no graph."""
        adapted = self.adapted_parameters(support, inner_steps=inner_steps)
        with torch.no_grad():
            return call(self.model, {**parameters_of(self.model), **adapted}, x)

    def adapt(self, support: Batch, *, inner_steps: int | None = None) -> nn.Module:
        """An ordinary ``nn.Module`` adapted to one task's support set."""
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

    def _bind(self) -> tuple[Predictor, Params]:
        """The model as a function of its inner parameters, and their start."""
        params = parameters_of(self.model)
        return self._predictor(params), {name: params[name] for name in self._inner}

    def _predictor(self, params: Params) -> Predictor:
        """The fastest that knows the model's structure; all give the same numbers."""
        return (
            layer_predictor(self.model, params, self._inner)
            or convolution_predictor(self.model, params, self._inner)
            or ModelPredictor(self.model, params)
        )

    def _check_linear(self, predict: Predictor, inner: Params, x: Tensor) -> None:
        """Once, before an exact solve: an error unless the model is linear in what adapts."""
        if not self._checked_linear:
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
        penalty = support.y.new_tensor(self.penalty)
        if self.solver == "ridge":
            return ridge(predict, inner, support, penalty=penalty)
        return conjugate_gradients(predict, inner, support, penalty=penalty, iterations=steps)


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
    """Adapts only the head (Raghu et al. 2019): the layer named ``head``, the last one unless given."""

    def __init__(self, model: nn.Module, loss: Loss = F.mse_loss, *, head: str | None = None, **options: Any):
        self._head = _last_layer(model) if head is None else head
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
        _need_symmetries(self.model, "MSR")
        learned = split(self.model).U
        return {n: p for n, p in trainable.items() if n not in learned}


class MSRJoint(GradientLearner):
    """The paper's ablation: adapts U together with v, that is MAML on a reparameterized model."""

    def _adaptable(self, trainable: Params) -> Params:
        _need_symmetries(self.model, "MSRJoint")
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

    def adapted_parameters(self, support: Batch, *, inner_steps: int | None = None) -> Params:
        """The adapted U and v of one task, made whole; keeps no graph."""
        params = parameters_of(self.model)
        inner = {name: params[name] for name in self._inner}
        steps = self.test_inner_steps if inner_steps is None else inner_steps
        with torch.no_grad():
            return super()._solve(ModelPredictor(self.model, params), inner, support, steps).inner


def with_parameters(model: nn.Module, values: Params) -> nn.Module:
    """A copy of ``model`` with these parameter values, its symmetries baked: plain and self-contained."""
    plain = copy.deepcopy(model)
    named = dict(plain.named_parameters())
    with torch.no_grad():
        for name, value in values.items():
            named[name].copy_(value)
    return bake(plain) if symmetries(plain) else plain


def _need_symmetries(model: nn.Module, method: str) -> None:
    if not symmetries(model):
        raise MetasymError(
            f"expected a reparameterized model for {method}, found a plain {type(model).__name__}: "
            "call metasym.reparameterize first"
        )


def _last_layer(model: nn.Module) -> str:
    """The last module, in order of registration, that has parameters and no parametrization machinery."""
    names: list[str] = [
        name
        for name, module in model.named_modules()
        if "parametrizations" not in name.split(".")
        and (any(True for _ in module.parameters(recurse=False)) or hasattr(module, "parametrizations"))
    ]
    if not names:
        raise MetasymError(f"expected a model with parameters, found none in {type(model).__name__}")
    return names[-1]


def _matching(names: list[str], patterns: str | Sequence[str] | None) -> list[str]:
    if patterns is None:
        found = names
    else:
        wanted = [patterns] if isinstance(patterns, str) else list(patterns)
        for pattern in wanted:
            if not any(fnmatch.fnmatchcase(n, pattern) for n in names):
                raise MetasymError(
                    f"expected adapt_only to match a parameter that this method adapts, found no match for "
                    f"{pattern!r} among {', '.join(names)}"
                )
        found = [n for n in names if any(fnmatch.fnmatchcase(n, p) for p in wanted)]
    if not found:
        raise MetasymError("expected at least one parameter to adapt, found none")
    return found
