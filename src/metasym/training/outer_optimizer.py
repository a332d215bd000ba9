"""The optimizer and the scheduler of a run: given, or made of the learner's outer parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from metasym.learners.base import Learner
from metasym.learners.own_learner import checked_parameters
from metasym.types import MetasymError

OptimizerFactory = Callable[[Iterable[nn.Parameter]], Optimizer]
SchedulerFactory = Callable[[Optimizer], LRScheduler]
Kind = TypeVar("Kind")


def make_optimizer(
    learner: Learner, choice: Optimizer | OptimizerFactory | None, outer_lr: float
) -> Optimizer:
    """The optimizer of the learner's outer parameters: Adam, ``choice`` itself, or what it makes of them."""
    parameters: list[Any] = list(checked_parameters(learner, learner.outer_parameters()).values())
    if not parameters:
        raise MetasymError("expected a learner with outer parameters, found none", about="learner", found=0)
    if choice is None:
        if not outer_lr > 0:
            raise MetasymError(f"expected outer_lr > 0, found {outer_lr}", about="outer_lr", found=outer_lr)
        fused = all(p.is_contiguous() and p.is_floating_point() for p in parameters)
        return torch.optim.Adam(parameters, lr=outer_lr, fused=fused or None)
    optimizer = _instance(choice, Optimizer, "optimizer", parameters)
    outer = {id(p) for p in parameters}
    strangers = sum(id(p) not in outer for group in optimizer.param_groups for p in group["params"])
    if strangers:
        raise MetasymError(
            "expected an optimizer of the learner's outer_parameters() alone, found one with "
            f"{strangers} tensors that are not among them",
            about="optimizer",
            found=strangers,
        )
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise MetasymError(
            f"expected an optimizer that steps on one gradient, found {type(optimizer).__name__}, "
            "which evaluates the loss repeatedly",
            about="optimizer",
            found=type(optimizer).__name__,
        )
    return optimizer


def make_scheduler(choice: LRScheduler | SchedulerFactory | None, optimizer: Optimizer) -> LRScheduler | None:
    """The scheduler of ``optimizer``: ``choice`` itself, or what it makes of the optimizer."""
    if choice is None:
        return None
    scheduler = _instance(choice, LRScheduler, "scheduler", optimizer)
    if getattr(scheduler, "optimizer", None) is not optimizer:
        raise MetasymError(
            "expected a scheduler of the optimizer of this run, found one of another: "
            "give both as instances, or the scheduler as a function of the optimizer",
            about="scheduler",
            found="of another optimizer",
        )
    return scheduler


def _instance(choice: Any, kind: type[Kind], name: str, argument: Any) -> Kind:
    """``choice`` where it is of this kind, or else ``choice(argument)``, which has to be."""
    made = choice if isinstance(choice, kind) else choice(argument) if callable(choice) else choice
    if not isinstance(made, kind):
        raise MetasymError(
            f"expected {name} to be, or to make, a torch {kind.__name__}, found {made!r:.80}",
            about=name,
            found=made,
        )
    return made
