"""One outer step, and all the state that steps change: what a checkpoint has to hold."""

from __future__ import annotations

import inspect
import math
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from metasym.checkpoint import check_equal, check_learner, plain
from metasym.distributed import Ranks
from metasym.evaluation import MetricChoice, evaluate
from metasym.guard import NonFiniteError, guarded_gradient
from metasym.learners.base import Learner
from metasym.randomness import random_state, restore_random_state, step_seed, task_ids, validation_seed
from metasym.tasks.sampling import sample
from metasym.types import MetasymError, Params, Record, Tasks

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerFactory = Callable[[Optimizer], LRScheduler]
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True)
class Validation:
    """Held-out tasks and what is done with them."""

    tasks: Tasks
    every: int
    metric: MetricChoice
    name: str
    goal: str
    count: int

    def better(self, value: float, than: float) -> bool:
        """Whether ``value`` is the better score; never for NaN."""
        return value > than if self.goal == "max" else value < than


class Best(NamedTuple):
    """The learner's state at the validation that went best."""

    value: float
    step: int
    state: dict[str, Any]


def make_optimizer(learner: Learner, factory: OptimizerFactory | None, outer_lr: float) -> Optimizer:
    """The optimizer of the learner's outer parameters: Adam, or what ``factory`` makes of them."""
    parameters: list[Any] = list(learner.outer_parameters().values())
    if not parameters:
        raise MetasymError("expected a learner with outer parameters, found none")
    if factory is None:
        if not outer_lr > 0:
            raise MetasymError(f"expected outer_lr > 0, found {outer_lr}")
        fused = all(p.is_contiguous() and p.is_floating_point() for p in parameters)
        return torch.optim.Adam(parameters, lr=outer_lr, fused=fused or None)
    optimizer = factory(parameters)
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise MetasymError(
            f"expected an optimizer that steps on one gradient, found {type(optimizer).__name__}, "
            "which evaluates the loss again and again"
        )
    return optimizer


@dataclass
class OuterLoop:
    """The state of a run and the step that advances it; knows nothing of files."""

    learner: Learner
    tasks: Tasks
    tasks_per_step: int
    optimizer: Optimizer
    scheduler: LRScheduler | None
    clip_norm: float | None
    validation: Validation | None
    seed: int
    skip: bool
    device: torch.device
    autocast: bool
    ranks: Ranks
    step: int = 0
    best: Best | None = None
    _parameters: Params = field(init=False)
    _settings: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._parameters = self.learner.outer_parameters()
        self._settings = self._describe_run()

    def advance(self, received: int, began: float, first: int) -> tuple[Record, int]:
        """Do one outer step; its Record, and the signal (or 0) on which all ranks agree to stop after it.

        ``received`` is the signal that this process got; the rate counts from step ``first``, time ``began``.
        """
        step = self.step + 1
        seed = step_seed(self.seed, step)
        ids = task_ids(seed, len(self.tasks), self.tasks_per_step)
        mine = ids[self.ranks.share(len(ids))]
        episodes = sample(self.tasks, mine, seed).to(self.device)
        with self._precision():
            result = guarded_gradient(
                self.learner,
                episodes,
                ids,
                self.ranks,
                step=step,
                skip=self.skip,
                flags=[received == s for s in _SIGNALS],
            )
        self._descend(result.gradient, result.norm)
        self.step = step
        score = self._validate()
        self._schedule(result.outer_loss, score)
        record = Record(
            step=step,
            outer_loss=result.outer_loss,
            inner_loss_before=result.inner_loss_before,
            inner_loss_after=result.inner_loss_after,
            gradient_norm=result.norm,
            step_sizes=self.learner.step_sizes(),
            steps_per_second=(step - first) / (time.perf_counter() - began),
            skipped_tasks=result.skipped,
            validation=score,
        )
        return record, next((s for s, flag in zip(_SIGNALS, result.flags, strict=True) if flag), 0)

    def take_best(self) -> None:
        """Put the parameters that were best in validation into the learner, if there are any."""
        if self.best is not None:
            self.learner.load_state_dict(self.best.state)

    def state(self) -> dict[str, Any]:
        """All that a checkpoint has to hold. Every rank has to call this; rank 0's is complete."""
        return {
            "step": self.step,
            "describe": self.learner.describe(),
            "run": self._settings,
            "learner": self.learner.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "best": None if self.best is None else self.best._asdict(),
            "random": self.ranks.gather(random_state(self.device)),
        }

    def check(self, state: dict[str, Any], name: str) -> None:
        """Refuse the state of another learner, model or run; ``name`` is what errors call the file."""
        check_learner(self.learner, state, name)
        check_equal(plain(self._settings), plain(state["run"]), name)

    def restore(self, state: dict[str, Any]) -> None:
        """Go back to a state of :meth:`state`. Ranks that it does not know keep their own random state."""
        self.learner.load_state_dict(state["learner"])
        self.optimizer.load_state_dict(state["optimizer"])
        for parameter, values in self.optimizer.state.items():
            for key, value in values.items():
                # Fused kernels walk through memory: the state has to be laid out as its parameter is.
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    values[key] = _laid_out_as(parameter, value)
        if self.scheduler is not None:
            self.scheduler.load_state_dict(state["scheduler"])
        self.best = None if state["best"] is None else Best(**state["best"])
        self.step = state["step"]
        if self.ranks.rank < len(state["random"]):
            restore_random_state(state["random"][self.ranks.rank], self.device)

    def check_parameters(self) -> None:
        """Refuse to go on (and to checkpoint) with parameters that an outer step made infinite or NaN."""
        for name, parameter in self._parameters.items():
            if not torch.isfinite(parameter).all():
                raise NonFiniteError(
                    f"step {self.step}: expected finite parameters, found NaN or infinity in {name}: "
                    "an outer step was too large",
                    step=self.step,
                )

    def _describe_run(self) -> dict[str, Any]:
        """What must be equal for a resumed run to be the same run, in plain types.

        Taken once, at the start: a rate that is a tensor is changed in place by schedulers.
        """
        defaults = {
            key: float(v) if isinstance(v, Tensor) else v for key, v in self.optimizer.defaults.items()
        }
        held_out = self.validation
        return {
            "seed": self.seed,
            "tasks": len(self.tasks),
            "tasks_per_step": self.tasks_per_step,
            "optimizer": {"name": type(self.optimizer).__name__, **defaults},
            "scheduler": None if self.scheduler is None else type(self.scheduler).__name__,
            "clip_norm": self.clip_norm,
            "validation": None
            if held_out is None
            else {
                "every": held_out.every,
                "metric": held_out.name,
                "goal": held_out.goal,
                "tasks": held_out.count,
            },
            "autocast": self.autocast,
        }

    def _precision(self) -> torch.autocast:
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.autocast)

    def _descend(self, gradient: Params, norm: float) -> None:
        scale = 1.0 if self.clip_norm is None else min(1.0, self.clip_norm / (norm + 1e-6))
        for name, parameter in self._parameters.items():
            # Not in place: two gradients may be one tensor, or an expanded one.
            part = gradient[name] if scale == 1.0 else gradient[name] * scale
            parameter.grad = _laid_out_as(parameter, part)
        self.optimizer.step()
        for parameter in self._parameters.values():
            parameter.grad = None

    def _validate(self) -> float | None:
        held_out = self.validation
        if held_out is None or self.step % held_out.every != 0:
            return None
        with self._precision():
            score = evaluate(
                self.learner,
                held_out.tasks,
                metric=held_out.metric,
                seed=validation_seed(self.seed),
                ids=range(held_out.count),
            ).mean
        if not math.isnan(score) and (self.best is None or held_out.better(score, self.best.value)):
            state = {
                k: v.clone() if isinstance(v, Tensor) else v for k, v in self.learner.state_dict().items()
            }
            self.best = Best(score, self.step, state)
        return score

    def _schedule(self, loss: float, score: float | None) -> None:
        if isinstance(self.scheduler, ReduceLROnPlateau):
            if self.validation is None or score is not None:
                self.scheduler.step(loss if score is None else score)
        elif self.scheduler is not None:
            self.scheduler.step()


def _laid_out_as(like: Tensor, value: Tensor) -> Tensor:
    """``value`` in memory as ``like`` is: fused optimizers silently read other layouts wrongly."""
    if value.stride() == like.stride():
        return value
    return torch.empty_like(like, dtype=value.dtype).copy_(value)
