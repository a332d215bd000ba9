"""A training by ``ms.train`` in the user's hands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from metasym.learners.base import Learner
from metasym.runs.files.config_files import Kind, read_config
from metasym.runs.files.result_files import read_result, score_of, write_result
from metasym.runs.machine import commit, versions
from metasym.runs.run import Run
from metasym.storage.file_names import CURRENT, METRICS, RESULT
from metasym.training.checkpoint import load
from metasym.training.metrics import read_records
from metasym.types import Batch, MetasymError, Score


@dataclass(frozen=True, eq=False, repr=False)
class TrainedRun(Run):
    """What ``ms.train`` left in a folder."""

    learner: Learner
    """The learner that the user gave, with the state that was best in validation, or else the latest."""

    kind: ClassVar[Kind] = "train"

    @property
    def model(self) -> nn.Module:
        """The network, with what was learned."""
        return self.learner.model

    @property
    def result(self) -> dict[str, Any]:
        """``result.json``, which :meth:`add_score` writes."""
        assert self.folder is not None
        if not (self.folder / RESULT).exists():
            raise self._missing("a result: use run.add_score(ms.evaluate(...))")
        return read_result(self.folder / RESULT)

    @property
    def scores(self) -> Score:
        """The score that :meth:`add_score` stored."""
        return score_of(self.result)

    def add_score(self, score: Score) -> None:
        """Put a score of :func:`metasym.evaluate` into the folder, as ``result.json``; the report then shows it.

        Args:
            score: The score of this run's learner on test tasks.
        """
        assert self.folder is not None
        records = read_records(self.folder / METRICS).records
        settings = self.config.get("run")
        write_result(
            self.folder,
            {
                "experiment": self.name,
                "recipe": "ms.train",
                "method": str(self.learner.describe().get("method", type(self.learner).__name__)),
                "metric": score.metric,
                "per_task": list(score.per_task),
                "mean": score.mean,
                "ci95": score.ci95,
                "median": score.median,
                "diverged": score.diverged,
                "outer_steps": int(records[-1]["step"]) if records else 0,
                "inner_lrs": dict(self.learner.step_sizes()),
                "seed": settings.get("seed", 0) if isinstance(settings, dict) else 0,
                "versions": versions(),
                "commit": commit(),
            },
        )

    def adapt(self, x: Any, y: Any) -> nn.Module:
        """An ordinary module, adapted to a new task from its examples ``x [examples, ...]`` and ``y``."""
        return self.learner.adapt(Batch(self.inputs(x), torch.as_tensor(y)))


def open_trained(folder: Path, learner: object) -> TrainedRun:
    """The training in ``folder``, put into ``learner``, in place."""
    config = read_config(folder, "train")
    if not isinstance(learner, Learner):
        raise MetasymError(
            f"{folder}: expected the learner of a training by ms.train, whose network only your program can make, "
            f"ms.open_run({str(folder)!r}, model=learner), found {'none' if learner is None else 'another thing'}",
            about="model",
            found=None if learner is None else type(learner).__name__,
        )
    if not (folder / CURRENT).exists():
        raise MetasymError(
            f"{folder}: expected a run with {CURRENT}, found none: has it been trained?",
            about=str(folder / CURRENT),
        )
    return TrainedRun(folder, config, load(folder / CURRENT, learner))
