"""Scores on the test tasks from several numbers of support examples, as ``result.json`` has them."""

from __future__ import annotations

from typing import Any

from metasym.learners.base import Learner
from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.chosen_learners import choose_penalty, score
from metasym.tasks.stored import StoredTasks
from metasym.training.progress import ProgressChoice

_SHOTS = (1, 2, 5, 10, 20)


def scores_by_support(
    choices: Choices,
    learner: Learner,
    validation: StoredTasks,
    test: StoredTasks,
    metric: str,
    progress: ProgressChoice = "silent",
) -> dict[str, dict[str, Any]]:
    """Mean, interval, penalty and each task's score, in units of y, by number of support examples."""
    unit = choices.layout.y_scale**2 if metric == "mse" else 1.0
    found: dict[str, dict[str, Any]] = {}
    for count in sorted({n for n in _SHOTS if n < test.file.examples} | {choices.support}, reverse=True):
        penalty = choose_penalty(choices, learner, validation.with_support(count))
        other = score(choices, learner, test.with_support(count), metric, progress)
        found[str(count)] = {
            "mean": other.mean * unit,
            "ci95": other.ci95 * unit,
            "penalty": penalty,
            "per_task": [value * unit for value in other.per_task],
        }
    return dict(sorted(found.items(), key=lambda item: int(item[0])))
