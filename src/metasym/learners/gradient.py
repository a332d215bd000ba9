"""MAML, ANIL, MSR and MSR-Joint: one inner loop, four ways to split the parameters into inner and outer."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from metasym.adaptation.choices import SOLVERS
from metasym.adaptation.functional import call, check_no_running_statistics, evaluating, parameters_of
from metasym.argument_types import checked
from metasym.engines.description import Adapting, Setting
from metasym.engines.select import Selected, adapt, select
from metasym.learners.adaptable import check_exact, last_layer, matching, need_symmetries, with_parameters
from metasym.learners.base import Learner, Metric, check_count, check_finite, summed_over_chunks
from metasym.learners.step_sizes import StepSizes
from metasym.symmetry.compiled_models import uncompiled
from metasym.symmetry.reparam import split
from metasym.types import Batch, Episode, Loss, MetasymError, OuterLoss, Params


class GradientLearner(Learner):
    """Adapts some of the model's parameters by gradient descent, or an exact solve, on the support set.

    Args:
        model: The network, reparameterized or plain.
        loss: ``loss(prediction, target) -> scalar``.
        inner_steps: Inner steps in training.
        test_inner_steps: Inner steps at test. Default: as in training.
        inner_lr: Where the step sizes start.
        step_sizes: What is learned of them (see ``StepSizes``).
        solver: ``"sgd"``; or, for the squared loss and a model linear in what adapts, ``"ridge"`` (exact) or ``"cg"``
            (``inner_steps`` iterations of conjugate gradients).
        penalty: Penalty of ``"ridge"`` and ``"cg"`` on the change of what adapts.
        adapt_only: Name patterns: of what the method could adapt, adapt only the parameters that match.
        learn_start: Whether the outer loop learns the values that adaptation starts from.
        first_order: Treat the inner gradients as constants.
        map: ``"vmap"`` or ``"loop"`` over tasks, or ``"auto"``.
        chunk_size: The most tasks held in memory at once.
        paths: Ways of computing a step to force, ``"name=way,..."`` (see ``metasym.engines.plan``).
    """

    @checked
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
        model = self.model  # without a compiler's wrapper
        if solver not in SOLVERS:
            raise MetasymError(
                f"expected solver to be one of {', '.join(SOLVERS)}, found {solver!r}",
                about="solver",
                found=solver,
            )
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
        self._choose_map(map)
        self.rates = StepSizes({n: trainable[n] for n in self._inner}, step_sizes, inner_lr, self.inner_steps)

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
        return self._select(Setting.of(episodes)).losses(episodes)

    def outer_gradient(
        self, episodes: Episode, *, total_tasks: int | None = None
    ) -> tuple[OuterLoss, Params]:
        """Per-task losses (detached) and the gradient of ``sum(query losses) / total_tasks``."""
        selected = self._select(Setting.of(episodes))
        total = total_tasks or episodes.count
        size = self.chunk_size or selected.tasks_at_once(episodes)
        return summed_over_chunks(lambda chunk: selected.gradient(chunk, total), episodes, size)

    def scores(self, episodes: Episode, metric: Metric, *, inner_steps: int | None = None) -> Tensor:
        """``metric`` on the query sets after ``test_inner_steps`` (or ``inner_steps``), ``[tasks]``."""
        steps = self._test_steps(inner_steps)
        size = self.chunk_size or episodes.count
        with torch.no_grad(), evaluating(self):
            selected = self._select(Setting.of(episodes))
            parts = [
                selected.scores(episodes.tasks(start, start + size), metric, steps)
                for start in range(0, episodes.count, size)
            ]
        return torch.cat(parts)

    def adapted_parameters(self, support: Batch, *, inner_steps: int | None = None) -> Params:
        """The adapted parameters of one task, by their names in the model; keeps no graph."""
        support = self._examples(support)
        steps = self._test_steps(inner_steps)
        with torch.no_grad(), evaluating(self):
            return adapt(self._engines, self._description(), support, steps)

    def predict(self, support: Batch, x: Tensor, *, inner_steps: int | None = None) -> Tensor:
        """Adapt to one task's support set and predict at ``x [examples, ...]``; keeps no graph."""
        adapted = self.adapted_parameters(support, inner_steps=inner_steps)
        with torch.no_grad(), evaluating(self):
            return call(self.model, {**parameters_of(self.model), **adapted}, self._inputs(x))

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

    def _description(self) -> Adapting:
        return Adapting(
            model=self.model,
            outer=self.outer_parameters,
            forced=self.forced,
            map=self.map,
            map_given=self._map_given,
            loss=self.loss,
            inner=tuple(self._inner),
            rates=self.rates,
            steps=self.inner_steps,
            solver=self.solver,
            penalty=self.penalty,
            first_order=self.first_order,
            learn_start=self.learn_start,
        )

    def _select(self, setting: Setting) -> Selected:
        return select(self._engines, self._description(), setting)

    def _test_steps(self, inner_steps: int | None) -> int:
        return self.test_inner_steps if inner_steps is None else check_count("inner_steps", inner_steps)


class MAML(GradientLearner):
    """Adapts every parameter; learns where adaptation starts (Finn et al. 2017) and its step sizes.

    Arguments as in :class:`metasym.learners.GradientLearner`.
    """

    def _adaptable(self, trainable: Params) -> Params:
        if split(self.model).U:
            raise MetasymError(
                "expected a plain model, or one with frozen symmetries, for MAML, found learnable "
                "symmetries: use MSR, or MSRJoint to adapt them too",
                about="model",
                found="learnable symmetries",
            )
        return trainable


class ANIL(GradientLearner):
    """Adapts only the head (Raghu et al. 2019).

    Args:
        model: The network.
        loss: ``loss(prediction, target) -> scalar``.
        head: Name of the layer that adapts. Default: the last registered layer whose weight has two dimensions or
            more (norms do not count). Name it where layers are not registered in the order in which they act.
        options: Further arguments of :class:`metasym.learners.GradientLearner`.
    """

    @checked
    def __init__(self, model: nn.Module, loss: Loss = F.mse_loss, *, head: str | None = None, **options: Any):
        model = uncompiled(model)
        self._head = last_layer(model) if head is None else head
        if self._head not in dict(model.named_modules()):
            raise MetasymError(
                f"expected head to name a module of the model, found {self._head!r}",
                about="head",
                found=self._head,
            )
        super().__init__(model, loss, **options)

    def _adaptable(self, trainable: Params) -> Params:
        prefix = f"{self._head}." if self._head else ""
        u = set(split(self.model).U)
        found = {n: p for n, p in trainable.items() if n.startswith(prefix) and n not in u}
        if not found:
            raise MetasymError(
                f"expected trainable parameters in the head {self._head!r}, found none",
                about=f"head {self._head!r}",
            )
        return found

    def describe(self) -> dict[str, Any]:
        """The choices that define this learner."""
        return {**super().describe(), "head": self._head}


class MSR(GradientLearner):
    """The paper's method: adapts filters v (and biases, norms), never U, which the outer loop learns.

    Arguments as in :class:`metasym.learners.GradientLearner`.

    Example:
        >>> import torch, metasym as ms
        >>> model = ms.reparameterize(torch.nn.Linear(6, 6), "dense", filter_size=6)
        >>> learner = ms.MSR(model, solver="ridge", penalty=0.1)
        >>> task = ms.Batch(torch.randn(2, 6), torch.randn(2, 6))
        >>> learner.adapt(task)
        Linear(in_features=6, out_features=6, bias=True)
    """

    def _adaptable(self, trainable: Params) -> Params:
        need_symmetries(self.model, "MSR")
        learned = split(self.model).U
        return {n: p for n, p in trainable.items() if n not in learned}


class MSRJoint(GradientLearner):
    """The paper's ablation: adapts U together with v, that is MAML on a reparameterized model.

    Arguments as in :class:`metasym.learners.GradientLearner`.
    """

    def _adaptable(self, trainable: Params) -> Params:
        need_symmetries(self.model, "MSRJoint")
        return trainable
