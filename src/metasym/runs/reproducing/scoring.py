"""What a finished run reports: its test score, its step sizes, its learning curve."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from metasym.learners import Learner
from metasym.learners.gradient import GradientLearner
from metasym.paper.build import AnyProblem
from metasym.paper.config import Experiment
from metasym.paper.image_problem import ImageProblem
from metasym.runs.files.result_files import DIVERGED
from metasym.tasks.sampling import mix, sample
from metasym.training.evaluation import evaluate
from metasym.training.metrics import NAME, read_records
from metasym.training.progress import ProgressChoice
from metasym.types import Score, Tasks

_TEST_EPISODES, _CHOOSING_EPISODES = 13, 19
_CHUNKS = {"translation": 256, "rotation": 32, "aug-omniglot": 16, "aug-miniimagenet": 8}
"""Test tasks held in memory at once."""


def test_seed(experiment: Experiment) -> int:
    """The seed of the test episodes: of which images are support and how query images are augmented."""
    return int(mix(experiment.data_seed, _TEST_EPISODES))


def _chunk(experiment: Experiment) -> int:
    return _CHUNKS[experiment.problem.partition("/")[0]]


def test_score(
    experiment: Experiment, problem: AnyProblem, learner: Learner, progress: ProgressChoice
) -> Score:
    """The score on all test tasks, always with the same episodes."""
    return evaluate(
        learner,
        problem.test,
        metric="accuracy" if experiment.has_classes else "loss",
        seed=test_seed(experiment),
        tasks_per_chunk=_chunk(experiment),
        progress=progress,
    )


def inner_steps_by_validation(
    experiment: Experiment, problem: AnyProblem, learner: Learner, progress: ProgressChoice
) -> dict[int, float]:
    """The accuracy on validation tasks after each number of inner steps that the recipe lets one choose from.

    Empty where the recipe fixes the number, or nothing adapts.
    """
    most = experiment.recipe.choose_inner_steps
    if not (most and isinstance(problem, ImageProblem) and isinstance(learner, GradientLearner)):
        return {}
    return {
        steps: evaluate(
            learner,
            problem.choosing,
            inner_steps=steps,
            metric="accuracy",
            seed=int(mix(experiment.data_seed, _CHOOSING_EPISODES)),
            tasks_per_chunk=_chunk(experiment),
            progress=progress,
        ).mean
        for steps in range(1, most + 1)
    }


def best_inner_steps(accuracies: dict[int, float]) -> int:
    """The number of inner steps with the highest accuracy; in a tie, the smallest."""
    return max(accuracies, key=lambda steps: (accuracies[steps], -steps))


def tested(
    experiment: Experiment, problem: AnyProblem, learner: Learner, progress: ProgressChoice
) -> dict[str, Any]:
    """The test score as ``result.json`` has it, and the scores of single tasks."""
    score = test_score(experiment, problem, learner, progress)
    found: dict[str, Any] = {
        "metric": experiment.metric,
        "mean": score.mean,
        "ci95": score.ci95,
        "median": score.median,
        "diverged": score.diverged,
    }
    if not experiment.has_classes:
        square = _target_square(problem.test)
        found["diverged"] = int((~(np.asarray(score.per_task) <= DIVERGED * square)).sum())
        found["target_mean_square"] = square
    return {**found, "per_task": list(score.per_task)}


def learning_curve(folder: Path) -> dict[str, list[float]]:
    """The validations of a run, and the outer loss averaged over the steps since the one before."""
    curve: dict[str, list[float]] = {"step": [], "validation": [], "outer_loss": []}
    losses: list[float] = []
    for record in read_records(folder / NAME).records:
        loss, score = record.get("outer_loss"), record.get("validation")
        losses.append(math.nan if loss is None else loss)
        if score is not None:
            curve["step"].append(record["step"])
            curve["validation"].append(score)
            curve["outer_loss"].append(sum(losses) / len(losses))
            losses = []
    return curve


def skipped_tasks(folder: Path) -> int:
    """The tasks that a run has left out because their loss was NaN or infinite, over all its starts."""
    return sum(record.get("skipped_tasks", 0) for record in read_records(folder / NAME).records)


def _target_square(tasks: Tasks, most: int = 256) -> float:
    """The mean square of the test tasks' targets (of the first ``most``): the error of predicting zero."""
    total, count = 0.0, min(len(tasks), most)
    for start in range(0, count, 32):
        ids = torch.arange(start, min(start + 32, count))
        total += float(sample(tasks, ids, 0).query.y.double().square().mean()) * len(ids)
    return total / count
