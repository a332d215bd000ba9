"""What belongs together among the arguments of ``train``, and how they are checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from metasym.argument_types import check_fields
from metasym.training.evaluation import MetricChoice
from metasym.types import MetasymError, Tasks


@dataclass(frozen=True)
class Validation:
    """Scores on held-out tasks during training, always on the same episodes.

    tasks: the held-out tasks.
    every: outer steps between two scores.
    metric: ``"loss"``, ``"accuracy"`` or ``metric(prediction, target) -> scalar``.
    goal: whether a smaller or a larger score is better; None: larger for ``"accuracy"``, else smaller.
    count: how many of the tasks are scored, the first ones; None: all, or of a family without end its ``scored``.
    keep_best: whether the learner ends with the parameters that scored best, or with the latest.
    """

    tasks: Tasks
    every: int
    metric: MetricChoice = "loss"
    goal: Literal["min", "max"] | None = None
    count: int | None = None
    keep_best: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        check_choice("goal", self.goal, (None, "min", "max"))
        check_whole(every=self.every)
        if self.count is not None:
            check_whole(count=self.count)


def validation_of(given: Tasks | Validation | None, every: int) -> Validation | None:
    """What ``train``'s ``validation`` and ``validate_every`` say together."""
    if isinstance(given, Validation):
        if every:
            raise MetasymError(
                "expected validate_every inside Validation(tasks, every=...), found it as a separate argument",
                about="validate_every",
                found=every,
            )
        return given
    if (given is None) != (every == 0) or every < 0:
        raise MetasymError(
            "expected validation tasks together with validate_every >= 1, found "
            f"{'none' if given is None else 'tasks'} and {every}",
            about="validation, validate_every",
            found=(given is not None, every),
        )
    return None if given is None else Validation(given, every)


@dataclass(frozen=True)
class Files:
    """What a training leaves in a folder.

    folder: where ``config.json``, ``metrics.jsonl`` and ``checkpoint.safetensors`` go.
    checkpoint_every: outer steps between two checkpoints.
    tensorboard: whether curves for TensorBoard are written as well.
    """

    folder: str | os.PathLike[str]
    checkpoint_every: int = 100
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_whole(checkpoint_every=self.checkpoint_every)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.folder)


def files_of(given: str | os.PathLike[str] | Files | None) -> Files | None:
    """What ``train``'s ``out`` says: a folder alone has the usual files."""
    return given if given is None or isinstance(given, Files) else Files(given)


def check_whole(**values: int) -> None:
    """Refuse what is not a whole number of at least 1."""
    for name, value in values.items():
        if not isinstance(value, int) or value < 1:
            raise MetasymError(
                f"expected {name} to be a whole number >= 1, found {value!r}", about=name, found=value
            )


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse what is none of the choices."""
    if value not in choices:
        raise MetasymError(
            f"expected {name} to be one of {', '.join(map(repr, choices))}, found {value!r}",
            about=name,
            found=value,
        )
