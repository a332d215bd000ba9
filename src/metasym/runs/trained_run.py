"""A training by ``ms.train`` in the user's hands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import nn

from metasym.learners.base import Learner
from metasym.runs.files.config_files import Kind, read_config
from metasym.runs.run import Run
from metasym.storage.file_names import CURRENT
from metasym.training.checkpoint import load
from metasym.types import Batch, MetasymError


@dataclass(frozen=True, eq=False)
class TrainedRun(Run):
    """What ``ms.train`` left in a folder."""

    learner: Learner
    """The learner that the user gave, with the state that was best in validation, or else the latest."""

    kind: ClassVar[Kind] = "train"

    @property
    def model(self) -> nn.Module:
        """The network, with what was learned."""
        return self.learner.model

    def adapt(self, x: Any, y: Any) -> nn.Module:
        """An ordinary module, adapted to a new task from its examples ``x [examples, ...]`` and ``y``."""
        return self.learner.adapt(Batch(self.inputs(x), torch.as_tensor(y)))


def open_trained(folder: Path, learner: object) -> TrainedRun:
    """The training in ``folder``, put into ``learner``, in place."""
    config = read_config(folder, "train")
    if not isinstance(learner, Learner):
        raise MetasymError(
            f"{folder}: expected the learner of a training by ms.train, whose network only your program can make, "
            f"ms.open_run({str(folder)!r}, model=learner), found {'none' if learner is None else 'another thing'}"
        )
    if not (folder / CURRENT).exists():
        raise MetasymError(f"{folder}: expected a run with {CURRENT}, found none: has it been trained?")
    return TrainedRun(folder, config, load(folder / CURRENT, learner))
