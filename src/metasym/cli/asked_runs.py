"""Runs whose adapted networks are asked, with what only the user's program can make."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from metasym.runs.adapted_functions import Adapting, LearnerOnTasks
from metasym.runs.files.config_files import kind_of, read_config
from metasym.runs.named_functions import named_function
from metasym.runs.open_runs import open_run
from metasym.runs.run import Run
from metasym.runs.trained_run import TrainedRun
from metasym.types import MetasymError


def open_asked(folder: Path, model: str | None, test_tasks: str | None) -> tuple[Run, Adapting]:
    """The run in ``folder``, and what its networks are asked on; names are ``package.module:function``."""
    make: Any = None if model is None else named_function(model, "model")
    if kind_of(read_config(folder)) != "train":
        opened = open_run(folder, make)
        return opened, cast("Adapting", opened)
    if make is None or test_tasks is None:
        found = "only one of them" if model or test_tasks else "neither"
        raise MetasymError(
            f"{folder}: expected --model and --test-tasks with a folder of ms.train, found {found}",
            about="--model, --test-tasks",
            found=found,
        )
    trained = open_run(folder, make())
    assert isinstance(trained, TrainedRun)
    return trained, LearnerOnTasks(trained.learner, named_function(test_tasks, "test-tasks")(), 0)
