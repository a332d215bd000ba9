"""The paper's pictures of what experiments have learned, from the folders of their runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from metasym.learners import Learner
from metasym.paper.config import Experiment
from metasym.report.figures import filters_figure, submatrices_figure, theoretical_figure, weight_figure
from metasym.runs.reproducing.experiment_run import load_run
from metasym.storage.atomic import make_folder
from metasym.symmetry.reparam import symmetries
from metasym.tasks.sampling import sample
from metasym.tasks.synthetic import Problem
from metasym.types import MetasymError


def draw_runs(folders: Sequence[Path], out: str | os.PathLike[str]) -> list[Path]:
    """All figures of the given runs (folders of MSR-FC and MSR-Conv runs), and the theoretical U of C_4."""
    target = Path(out)
    make_folder(target)
    drawn = theoretical_figure(target / "theoretical-U-C4")
    for folder in folders:
        experiment, problem, learner = load_run(folder)
        if not isinstance(problem, Problem):
            raise MetasymError(
                f"{folder}: expected a run of a synthetic problem, found {experiment.name}",
                about=str(folder),
                found=experiment.name,
            )
        drawn += draw_learner(experiment, problem, learner, target)
    return drawn


def draw_learner(experiment: Experiment, problem: Problem, learner: Learner, out: Path) -> list[Path]:
    """The figures of one trained learner: the weight it produces for a test task, and U where it is dense."""
    name = experiment.name.replace("/", "-")
    episodes = sample(problem.test, torch.tensor([0]), 0)
    support = type(episodes.support)(episodes.support.x[0], episodes.support.y[0])
    weight = learner.adapt(support).weight
    assert isinstance(weight, Tensor)
    W = weight.detach()
    if experiment.problem.startswith("rotation/"):
        return filters_figure(W, problem, out / f"filters-{name}")
    drawn = weight_figure(W, out / f"weight-{name}")
    for symmetry in symmetries(learner.model).values():
        drawn += submatrices_figure(symmetry.matrix(), W.shape[1], out / f"U-{name}")
    return drawn
