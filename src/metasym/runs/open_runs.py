"""``ms.open_run``: the one opener, for the folder of every kind of run."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from torch import nn

from metasym.argument_types import checked
from metasym.learners.base import Learner
from metasym.runs.discovering.discovered_run import open_discovered
from metasym.runs.files.config_files import kind_of, read_config
from metasym.runs.learning.learned_run import open_learned
from metasym.runs.reproducing.reproduced_run import open_experiment
from metasym.runs.run import Run
from metasym.runs.trained_run import open_trained
from metasym.types import MetasymError


@checked
def open_run(folder: str | os.PathLike[str], model: Callable[[], nn.Module] | Learner | None = None) -> Run:
    """Open the run in ``folder``: of ``metasym learn``, ``run``, ``discover`` or ``ms.train``. Executes no code
    from it.

    Args:
        folder: The folder of the run.
        model: What only your program can make. For a run of ``learn`` with your own network: the function that
            makes it. For one of ``ms.train``: the learner, which then holds what was learned.

    Returns:
        A :class:`Run`.
    """
    path = Path(folder)
    kind = kind_of(read_config(path))
    if kind == "train":
        return open_trained(path, model)
    if isinstance(model, Learner):
        raise MetasymError(
            f"{path}: expected a function that makes the network, found a learner",
            about="model",
            found="a learner",
        )
    if kind == "learn":
        return open_learned(path, model)
    return open_discovered(path) if kind == "discover" else open_experiment(path)
