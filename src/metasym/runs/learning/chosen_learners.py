"""The learners of ``metasym learn``: MSR and the baseline by the choices, their penalty, and how they are scored."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch.nn.functional as F
from torch import nn

from metasym.learners.base import Learner
from metasym.learners.gradient import MAML, MSR, GradientLearner
from metasym.runs.files.learn_options import Choices
from metasym.tasks.sampling import mix
from metasym.tasks.stored import StoredTasks
from metasym.training.evaluation import MetricChoice, evaluate
from metasym.training.progress import ProgressChoice
from metasym.types import Loss, Score

_VALIDATION = 36
PENALTIES = (1e-6, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Penalties of an exact inner solve to choose from on the validation tasks: from no noise to much."""
FIND_PENALTY = 0.1
"""Firm: a direction of U has to earn its place."""
DIVERGED = 10.0
"""A training whose error on validation tasks is so many times that of predicting the mean has diverged."""
_LARGEST_RIDGE = 512
"""Weights of a plain network beyond which the exact solve goes by conjugate gradients, without a Jacobian."""


class Fitted(NamedTuple):
    """What a training did."""

    steps: int
    rate: float | None = None
    """Outer steps a second."""
    late: bool = False
    """Whether it ended because there was no time left."""
    recovered: Sequence[int] = ()
    """The steps at which it diverged, and went back."""


def loss_of(classes: int) -> Loss:
    """Cross entropy of labels, the squared error of numbers."""
    return F.cross_entropy if classes else F.mse_loss


def msr(choices: Choices, model: nn.Module, loss: Loss, penalty: float = FIND_PENALTY) -> MSR:
    """The learner of a network with a U."""
    return MSR(model, loss, **_options(choices, "ridge", penalty))  # type: ignore[arg-type]


def maml(choices: Choices, model: nn.Module, loss: Loss, penalty: float = FIND_PENALTY) -> MAML:
    """The baseline on the plain network; it adapts as MSR does, all of its weights."""
    entries = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return MAML(model, loss, **_options(choices, "cg" if entries > _LARGEST_RIDGE else "ridge", penalty))  # type: ignore[arg-type]


def _options(choices: Choices, exact: str, penalty: float) -> dict[str, object]:
    if choices.solver == "sgd":
        return {"inner_steps": choices.inner_steps, "inner_lr": choices.inner_lr}
    steps = iterations(choices.support) if exact == "cg" else 1
    return {"solver": exact, "penalty": penalty, "inner_steps": steps}


def iterations(support: int) -> int:
    """Conjugate gradients that are exact for a linear layer: it has as many singular values as there are examples.

    No more: beyond convergence nothing is left to divide by, and derivatives are not finite.
    """
    return min(support, 20)


def choose_penalty(
    choices: Choices, learner: Learner, validation: StoredTasks, *, among: Sequence[float] = PENALTIES
) -> float:
    """Set the learner's penalty to the one that is best on the validation tasks, and return it."""
    if not isinstance(learner, GradientLearner):
        return 0.0
    if learner.solver == "sgd":
        return learner.penalty
    if choices.penalty is not None:
        learner.penalty = choices.penalty
        return choices.penalty
    found: dict[float, float] = {}
    for penalty in among:
        learner.penalty = penalty
        found[penalty] = score(choices, learner, validation, "mse").mean
    best = min(found, key=lambda p: found[p] if math.isfinite(found[p]) else math.inf)
    learner.penalty = best
    return best


def score(
    choices: Choices,
    learner: Learner,
    tasks: StoredTasks,
    metric: str,
    progress: ProgressChoice = "silent",
) -> Score:
    """The score on the tasks, always with the same episodes; a squared error in the data's own units."""
    if isinstance(learner, GradientLearner) and learner.solver == "cg":
        learner.test_inner_steps = iterations(tasks.support)
    seed = int(mix(choices.seed, _VALIDATION))
    kind: MetricChoice = "accuracy" if metric == "accuracy" else "loss"
    return evaluate(learner, tasks, metric=kind, seed=seed, progress=progress)
