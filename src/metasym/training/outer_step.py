"""One outer step, and all the state that steps change: what a checkpoint has to hold."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from metasym.learners.base import Learner
from metasym.tasks.sampling import explained
from metasym.training.averaging import Average
from metasym.training.checkpoint import check_learner, check_settings
from metasym.training.distributed import Ranks
from metasym.training.episodes import Supply
from metasym.training.evaluation import never, score_tasks
from metasym.training.fitting_state import check_alike, check_optimizer, fitting
from metasym.training.guard import NonFiniteError, guarded_gradient
from metasym.training.held_out import Best, HeldOut
from metasym.training.progress import ProgressChoice
from metasym.training.randomness import random_state, restore_random_state, validation_seed
from metasym.training.signals import SIGNALS
from metasym.types import Episode, Params, Record, Tasks

_LOG = logging.getLogger(__name__)

_PROGRESS = frozenset(
    ("last_epoch", "_step_count", "_last_lr", "best", "num_bad_epochs", "cooldown_counter", "T_cur", "T_i")
)
"""What schedulers count: it changes from step to step and does not distinguish schedulers."""


@dataclass
class OuterLoop:
    """The state of a run and the step that advances it; knows nothing of files."""

    learner: Learner
    tasks: Tasks
    tasks_per_step: int
    optimizer: Optimizer
    scheduler: LRScheduler | None
    clip_norm: float | None
    validation: HeldOut | None
    keep_best: bool
    seed: int
    skip: bool
    device: torch.device
    autocast: bool
    ranks: Ranks
    average: Average | None = None
    """The average that validation scores and the learner ends with, where one is wanted."""
    step: int = 0
    best: Best | None = None
    out_of_time: bool = False
    """Whether the last step ended later than it should have."""
    recovered: list[int] = field(default_factory=list)
    """The steps at which the caller went back to an earlier state, because training diverged."""
    unfinished: Record | None = None
    """The Record of a step whose validation was interrupted: that validation is next, from its start."""
    computed_by: dict[str, str] = field(default_factory=dict)
    """Which engine and kernels took the steps so far: what their last bits depend on."""
    _latest: dict[str, Any] | None = None
    """The learner's state while a caller who left the loop has the best parameters in it."""
    _asked: bool = False
    """Whether ``computed_by`` is known for this process."""
    _restored: str | None = None
    """The checkpoint that was restored, until the first step from it has been taken."""
    _parameters: Params = field(init=False)
    _settings: dict[str, Any] = field(init=False)
    _supply: Supply = field(init=False)

    def __post_init__(self) -> None:
        self._parameters = self.learner.outer_parameters()
        self._settings = self._describe_run()
        self._supply = Supply(self.tasks, seed=self.seed, wanted=self.tasks_per_step, ranks=self.ranks)

    def advance(
        self,
        began: float,
        first: int,
        until: float = math.inf,
        *,
        interrupted: Callable[[], bool] = never,
        progress: ProgressChoice = "silent",
    ) -> Record | None:
        """Do one outer step, or end an unfinished one; its Record's rate counts from step ``first``, time ``began``.

        One that ends after the time ``until`` is the last, on every rank, and is validated. None, and the step stays
        unfinished, where ``interrupted()`` says so between two chunks of its validation.
        """
        if self.unfinished is None:
            self._take_step(until)
        record = self.unfinished
        assert record is not None
        begun, before = time.perf_counter(), random_state(self.device)
        score = None
        if self._validation_due:
            score = self._validate(interrupted, progress)
            if score is None:
                restore_random_state(before, self.device)
                return None
        validated = time.perf_counter()
        self._schedule(record.outer_loss, score)
        self.unfinished = None
        return dataclasses.replace(
            record,
            steps_per_second=(self.step - first) / (validated - began),
            validation=score,
            validation_seconds=None if score is None else validated - begun,
        )

    def _take_step(self, until: float) -> None:
        """One step of the optimizer, whose Record is left in ``unfinished``."""
        step = self.step + 1
        ids, found = self._supply.at(step)
        episodes = found.to(self.device)
        with self._precision(), explained(episodes, f"step {step}"):
            self._note_engine(episodes)
            result = guarded_gradient(self.learner, episodes, ids, self.ranks, step=step, skip=self.skip)
        self._descend(result.gradient, result.norm)
        self.step = step
        if self.average is not None:
            self.average.update(step)
        self.out_of_time = self._late(until)
        self.unfinished = Record(
            step=step,
            outer_loss=result.outer_loss,
            inner_loss_before=result.inner_loss_before,
            inner_loss_after=result.inner_loss_after,
            gradient_norm=result.norm,
            step_sizes=self.learner.step_sizes(),
            steps_per_second=0.0,
            skipped_tasks=result.skipped,
            validation=None,
        )

    def agree(self, received: int) -> int:
        """The signal on which all ranks stop, or 0; each rank says, at a step's end, which one it has received."""
        if self.ranks.size == 1:
            return received
        flags = torch.tensor([float(received == number) for number in SIGNALS], device=self.device)
        raised = self.ranks.sum([flags])[0].tolist()
        return next((number for number, count in zip(SIGNALS, raised, strict=True) if count), 0)

    def _late(self, until: float) -> bool:
        """Whether the time is over on one of the ranks: their clocks differ, and all have to stop at one step."""
        if until == math.inf:
            return False
        late = torch.tensor([float(time.perf_counter() > until)], device=self.device)
        return bool(self.ranks.sum([late])[0])

    def take_best(self) -> None:
        """Put the parameters that were best in validation into the learner, if there are any; else the average."""
        if self.best is not None:
            self.learner.load_state_dict(self.best.state)
        elif self.average is not None:
            self.average.put()

    def leave(self) -> None:
        """As :meth:`take_best`, for a caller who may come back: the next step is taken from the latest parameters."""
        if self._latest is None and (self.best is not None or self.average is not None):
            self._latest = _cloned(self.learner.state_dict())
            self.take_best()

    def come_back(self) -> None:
        """Put the latest parameters into the learner again, where :meth:`leave` took them out."""
        if self._latest is not None:
            self.learner.load_state_dict(self._latest)
            self._latest = None

    def tired(self, patience: int | None) -> bool:
        """Whether the last ``patience`` validations were not better than the best before them."""
        if patience is None or self.validation is None or self.step % self.validation.every:
            return False
        best = 0 if self.best is None else self.best.step
        return self.step - best >= patience * self.validation.every

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
            "average": None if self.average is None else self.average.values,
            "recovered": self.recovered,
            "unfinished": None if self.unfinished is None else self.unfinished.as_dict(),
            "random": self.ranks.gather(random_state(self.device)),
            "computed_by": self.computed_by,
        }

    def check(self, state: dict[str, Any], name: str) -> None:
        """Refuse the state of another learner, model or run; ``name`` is what errors call the file."""
        check_learner(self.learner, state, name)
        # A setting that is missing in the file did not exist when the file was written.
        wanted = {key: value for key, value in self._settings.items() if key in state["run"]}
        check_settings(wanted, state["run"], name)

    @property
    def settings(self) -> dict[str, Any]:
        """What makes this run the run it is, in plain types."""
        return {"learner": self.learner.describe(), "run": self._settings}

    def restore(self, state: dict[str, Any], name: str) -> None:
        """Go back to a state of :meth:`state`, from the file ``name``.

        Ranks that the file does not know keep their own random state.
        """
        with fitting(name, "learner"):
            self.learner.load_state_dict(state["learner"])
        with fitting(name, "optimizer"):
            check_optimizer(self.optimizer, state["optimizer"], f"{name}: optimizer")
            self.optimizer.load_state_dict(state["optimizer"])
        self._restored = name
        for parameter, values in self.optimizer.state.items():
            for key, value in values.items():
                # Fused kernels walk through memory: the state has to be laid out as its parameter is.
                if isinstance(value, Tensor) and value.shape == parameter.shape:
                    values[key] = _laid_out_as(parameter, value)
        if self.scheduler is not None:
            with fitting(name, "scheduler"):
                check_alike(self.scheduler.state_dict(), state["scheduler"], f"{name}: scheduler")
                self.scheduler.load_state_dict(state["scheduler"])
        if self.average is not None:
            self.average.restore(state.get("average"), name)
        best = state["best"] if self.keep_best else None
        self.best = None if best is None else Best(best["value"], best["step"], best["state"])
        self.step = state["step"]
        self.recovered = state.get("recovered", [])
        unfinished = state.get("unfinished")
        self.unfinished = None if unfinished is None else Record(**unfinished)
        self.computed_by = state.get("computed_by", {})
        if self.ranks.rank < len(state["random"]):
            with fitting(name, "random"):
                restore_random_state(state["random"][self.ranks.rank], self.device)

    def check_parameters(self) -> None:
        """Refuse to go on (and to checkpoint) with parameters that an outer step made infinite or NaN."""
        for name, parameter in self._parameters.items():
            if not torch.isfinite(parameter).all():
                raise NonFiniteError(
                    f"step {self.step}: expected finite parameters, found NaN or infinity in {name}: "
                    "an outer step was too large",
                    step=self.step,
                    about=name,
                    found="NaN or infinity",
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
            "schedule": {} if self.scheduler is None else _choices(self.scheduler.state_dict()),
            "loss": _name_of(self.learner.loss),
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
            "average": None if self.average is None else self.average.decay,
        }

    def _note_engine(self, episodes: Episode) -> None:
        """Once in a process: record what computes the steps, and say so where the earlier ones took another way."""
        if self._asked:
            return
        before, now = self.computed_by, self.learner.computed_by(episodes)
        self.computed_by, self._asked = now, True
        if before and before != now and self.ranks.main:
            changes = ", ".join(
                f"{name} {now.get(name, 'none')} instead of {before.get(name, 'none')}"
                for name in dict.fromkeys((*before, *now))
                if before.get(name) != now.get(name)
            )
            _LOG.warning(
                "metasym: resumed at step %d with %s: the last digits may differ from an undisturbed run's",
                self.step,
                changes,
            )

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if not self.autocast and not torch.is_autocast_enabled(self.device.type):
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.autocast)

    def _descend(self, gradient: Params, norm: float) -> None:
        scale = 1.0 if self.clip_norm is None else min(1.0, self.clip_norm / (norm + 1e-6))
        for name, parameter in self._parameters.items():
            # Not in place: two gradients may be one tensor, or an expanded one.
            part = gradient[name] if scale == 1.0 else gradient[name] * scale
            parameter.grad = _laid_out_as(parameter, part)
        if self._restored is None:
            self.optimizer.step()
        else:  # an optimizer looks into its state only now
            with fitting(self._restored, "optimizer"):
                self.optimizer.step()
            self._restored = None
        for parameter in self._parameters.values():
            parameter.grad = None

    @property
    def _validation_due(self) -> bool:
        held_out = self.validation
        return held_out is not None and (self.step % held_out.every == 0 or self.out_of_time)

    def _validate(self, interrupted: Callable[[], bool], progress: ProgressChoice) -> float | None:
        """The score of the held-out tasks; None where it was interrupted."""
        held_out = self.validation
        assert held_out is not None
        with contextlib.nullcontext() if self.average is None else self.average.inside():
            with self._precision():
                found = score_tasks(
                    self.learner,
                    held_out.tasks,
                    torch.arange(held_out.count),
                    metric=held_out.metric,
                    seed=validation_seed(self.seed),
                    interrupted=interrupted,
                    progress=progress,
                )
            if found is None:
                return None
            score = found.mean
            if not self.keep_best or math.isnan(score):
                return score
            if self.best is None or held_out.better(score, self.best.value):
                self.best = Best(score, self.step, _cloned(self.learner.state_dict()))
        return score

    def _schedule(self, loss: float, score: float | None) -> None:
        if isinstance(self.scheduler, ReduceLROnPlateau):
            if self.validation is None or score is not None:
                self.scheduler.step(loss if score is None else score)
        elif self.scheduler is not None:
            self.scheduler.step()


def _cloned(state: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value.clone() if isinstance(value, Tensor) else value for key, value in state.items()}


def _laid_out_as(like: Tensor, value: Tensor) -> Tensor:
    """``value``, laid out in memory as ``like`` is: fused optimizers silently misread other layouts."""
    if value.stride() == like.stride():
        return value
    return torch.empty_like(like, dtype=value.dtype).copy_(value)


def _choices(state: Any) -> Any:
    """The part of a scheduler's state that was chosen, not counted, in plain types; functions are left out."""
    if isinstance(state, dict):
        return {str(key): _choices(value) for key, value in state.items() if key not in _PROGRESS}
    if isinstance(state, list | tuple):
        return [_choices(value) for value in state]
    if isinstance(state, Tensor) and state.numel() == 1:
        return state.item()
    return state if isinstance(state, bool | int | float | str) else None


def _name_of(function: Any) -> str:
    """A function's name, an object's class; without the module, which is ``__main__`` in some programs."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))
