"""The outer optimizer, its schedule and its precision, from a recipe's fields."""

from __future__ import annotations

import math
from typing import Any, Literal

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from metasym.paper.config import Recipe
from metasym.training.outer_optimizer import OptimizerFactory, SchedulerFactory


def outer_optimizer(recipe: Recipe) -> OptimizerFactory | None:
    """What makes the optimizer of the outer parameters; None for the usual Adam."""
    if recipe.optimizer == "adam" and recipe.weight_decay == 0:
        return None  # train's own, fused where possible
    kinds: dict[str, Any] = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}

    def make(parameters: Any) -> Optimizer:
        made: Optimizer = kinds[recipe.optimizer](
            parameters, lr=recipe.outer_lr, weight_decay=recipe.weight_decay
        )
        return made

    return make


def outer_schedule(recipe: Recipe) -> SchedulerFactory | None:
    """What makes the schedule of the outer learning rate; None for a constant one."""
    if recipe.schedule == "constant" and recipe.warmup_steps == 0:
        return None

    def factor(step: int) -> float:
        if step < recipe.warmup_steps:
            return (step + 1) / (recipe.warmup_steps + 1)
        done = min(step / recipe.outer_steps, 1.0)
        return {
            "constant": 1.0,
            "linear": 1.0 - done,
            "cosine": 0.5 * (1 + math.cos(math.pi * done)),
        }[recipe.schedule]

    return lambda optimizer: LambdaLR(optimizer, factor)


def outer_autocast(recipe: Recipe) -> Literal["bfloat16"] | None:
    """The precision of the training steps, as ``train`` takes it."""
    return "bfloat16" if recipe.autocast == "bfloat16" else None
