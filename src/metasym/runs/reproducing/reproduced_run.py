"""A finished experiment of the catalogue in the user's hands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from metasym.learners.base import Learner
from metasym.paper.build import AnyProblem
from metasym.paper.config import Experiment
from metasym.paper.image_problem import ImageProblem
from metasym.runs.files.config_files import Kind, read_config
from metasym.runs.files.result_files import read_result, score_of
from metasym.runs.reproducing.experiment_run import load_run
from metasym.runs.reproducing.scoring import test_score, test_seed
from metasym.runs.run import Run
from metasym.storage.file_names import RESULT
from metasym.types import Batch, Score, Tasks, shortened


@dataclass(frozen=True, eq=False)
class ReproducedRun(Run):
    """What ``metasym run`` left in a folder."""

    experiment: Experiment
    problem: AnyProblem
    learner: Learner
    """The learner exactly as it was tested."""

    kind: ClassVar[Kind] = "run"

    def __repr__(self) -> str:
        return shortened(f"ReproducedRun({self.name!r}, {self.scores}; {self.folder})")

    @property
    def model(self) -> nn.Module:
        """The network, with what was learned."""
        return self.learner.model

    @property
    def result(self) -> dict[str, Any]:
        """``result.json``."""
        assert self.folder is not None
        return read_result(self.folder / RESULT)

    @property
    def scores(self) -> Score:
        """On the test tasks, as they were scored."""
        return score_of(self.result)

    @property
    def labels(self) -> bool:
        """Whether targets are classes."""
        return self.experiment.has_classes

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one example."""
        return tuple(self.problem.input_shape)

    @property
    def test_seed(self) -> int:
        """Of the episodes of the test tasks."""
        return test_seed(self.experiment)

    def test_tasks(self) -> Tasks:
        """The run's test tasks, their queries as they are: not augmented."""
        return self.problem.plain_test if isinstance(self.problem, ImageProblem) else self.problem.test

    def score(self) -> Score:
        """The score of the learner, as it is now, on all test tasks, always with the same episodes."""
        return test_score(self.experiment, self.problem, self.learner, "auto")

    def adapt(self, x: Any, y: Any) -> nn.Module:
        """An ordinary module, adapted to a new task from its examples ``x [examples, ...]`` and ``y``."""
        return self.learner.adapt(Batch(self.inputs(x), torch.as_tensor(y)))


def open_experiment(folder: Path) -> ReproducedRun:
    """The run of ``metasym run`` in ``folder``."""
    return ReproducedRun(folder, read_config(folder, "run"), *load_run(folder))
