"""The model of a finished run, whichever command made it, and how it scores on its test tasks."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metasym.learners import Learner
from metasym.paper.image_problem import ImageProblem
from metasym.runs.files.config_files import read_config
from metasym.runs.files.result_files import read_result
from metasym.runs.learning.learned_run import load_learned
from metasym.runs.reproducing.experiment_run import load_run
from metasym.runs.reproducing.scoring import test_score, test_seed
from metasym.storage.file_names import CURRENT, RESULT
from metasym.types import MetasymError, Score, Tasks
from metasym.verdicts.symmetry_report import SymmetryReport


@dataclass(frozen=True, eq=False)
class OpenedRun:
    """A run's learner as trained, and what is needed to judge it."""

    name: str
    learner: Learner
    score: Callable[[], Score]
    """The score of the learner, as it is now, on the run's test tasks, with the same episodes every time."""
    input_shape: tuple[int, ...]
    """Of one example."""
    test_tasks: Callable[[], Tasks]
    """The run's test tasks, their queries as they are: not augmented."""
    seed: int
    """Of the episodes of the test tasks."""
    labels: bool
    """Whether targets are classes."""
    report: SymmetryReport | None = None
    """The report of the run itself, with its certificate where fresh tasks were asked."""
    result: dict[str, Any] | None = None
    """``result.json``, of ``metasym learn``."""


Opener = Callable[[Path], OpenedRun]


def open_run(folder: str | os.PathLike[str]) -> OpenedRun:
    """The run in ``folder``: of ``metasym run`` or of ``metasym learn``."""
    path = Path(folder)
    config = read_config(path)
    if not (path / CURRENT).exists():
        raise MetasymError(f"{path}: expected a run with {CURRENT}, found none: has it been trained?")
    if "learner" in config and "recipe" not in config:
        raise MetasymError(
            f"{path}: expected a run of metasym learn or run, found a folder of ms.train, whose network only your "
            f"program can make: ms.load('{path / CURRENT}', learner), then ms.inspect(learner.model) or learner.adapt"
        )
    return OPENERS.get(str(config.get("command", "run")), _open_experiment)(path)


def _open_experiment(path: Path) -> OpenedRun:
    experiment, problem, learner = load_run(path)
    return OpenedRun(
        experiment.name,
        learner,
        lambda: test_score(experiment, problem, learner, "auto"),
        tuple(problem.input_shape),
        lambda: problem.plain_test if isinstance(problem, ImageProblem) else problem.test,
        test_seed(experiment),
        experiment.has_classes,
    )


def _open_learned(path: Path) -> OpenedRun:
    run = load_learned(path)
    shape = run.choices.layout.input_shape
    return OpenedRun(
        str(run.config["experiment"]),
        run.learner,
        run.score,
        shape,
        run.test_tasks,
        run.choices.seed,
        bool(run.config["data"]["classes"]),
        run.symmetry,
        read_result(path / RESULT) if (path / RESULT).exists() else None,
    )


OPENERS: dict[str, Opener] = {"run": _open_experiment, "learn": _open_learned}
"""By what ``config.json`` has under ``command``; runs of the catalogue have nothing there."""
