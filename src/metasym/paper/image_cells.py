"""Every cell of Table 3: Aug-Omniglot and Aug-MiniImagenet, their recipes, and the paper's accuracies."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from metasym.models.image_networks import SIZES
from metasym.paper.config import Experiment, Recipe
from metasym.paper.published_numbers import Printed
from metasym.types import MetasymError

BUDGETS = {"cpu": "paper-cpu", "day": "paper-day"}
"""The recipe of each ``--budget``: the paper's with fewer steps, tasks a step and training queries.

``cpu``: within an hour a cell, but for MiniImagenet 5-way 5-shot; ``day``: at most a day of one core for the six
methods of a column."""

COLUMNS = (
    "aug-omniglot/5way-1shot",
    "aug-omniglot/5way-5shot",
    "aug-omniglot/20way-1shot",
    "aug-omniglot/20way-5shot",
    "aug-miniimagenet/5way-1shot",
    "aug-miniimagenet/5way-5shot",
)
METHODS = {  # method, network, symmetry
    "maml": ("maml", "conv4", "none"),
    "maml-big": ("maml", "conv4-big", "none"),
    "anil": ("anil", "conv4", "none"),
    "protonet": ("protonet", "conv4-embedding", "none"),
    "maml-d8": ("maml", "conv4-d8", "none"),
    "msr": ("msr", "conv4", "kronecker"),
}
_TABLE3 = {
    "maml": "87.3 0.5  93.6 0.3  67.0 0.4  79.9 0.3  42.5 1.1  61.5 1.0",
    "maml-big": "89.3 0.4  94.8 0.3  69.6 0.4  83.2 0.3  37.2 1.1  63.2 1.0",
    "anil": "86.4 0.5  93.2 0.3  67.5 3.5  79.8 0.3  43.0 1.1  62.3 1.0",
    "protonet": "92.9 0.4  97.4 0.2  85.1 0.3  94.3 0.2  34.6 0.5  54.5 0.6",
    "maml-d8": "94.6 0.4  96.4 0.3  82.6 0.3  85.1 0.3  44.9 1.2  56.8 1.1",
    "msr": "95.3 0.3  97.7 0.2  84.3 0.2  92.6 0.2  45.5 1.1  65.2 1.0",
}
TABLE3: dict[str, Printed] = {
    f"{column}/{row}": Printed(*text.split())
    for row, line in _TABLE3.items()
    for column, text in zip(COLUMNS, line.split("  "), strict=True)
}
"""Table 3: accuracy on test tasks in per cent, by the name of the experiment."""

_HOUR: dict[str, dict[str, Any]] = {
    "aug-omniglot/*": {"outer_steps": 1000, "tasks_per_step": 16, "queries": 5, "test_tasks": 600},
    "aug-miniimagenet/*": {"outer_steps": 300, "tasks_per_step": 4, "queries": 5, "test_tasks": 600},
}
_FALLING: dict[str, Any] = {"queries": 5, "schedule": "cosine", "validate_every": 100}
_DAY: dict[str, dict[str, Any]] = {
    # By what a step of each method takes on one core: the columns with fewer tasks have tasks or networks that take
    # several times as long. A 20-way task has four times the images of a 5-way one, so eight of them make a step.
    "aug-omniglot/20way-1shot": {"outer_steps": 4000, "tasks_per_step": 8, **_FALLING},
    "aug-omniglot/20way-5shot": {"outer_steps": 2800, "tasks_per_step": 8, **_FALLING},
    "aug-omniglot/*": {"outer_steps": 4000, "tasks_per_step": 16, **_FALLING},
    "aug-miniimagenet/5way-1shot": {"outer_steps": 6000, "tasks_per_step": 4, **_FALLING},
    "aug-miniimagenet/5way-5shot": {"outer_steps": 400, "tasks_per_step": 4, **_FALLING},
}
_CHEAPER = {BUDGETS["cpu"]: _HOUR, BUDGETS["day"]: _DAY}
"""All that a budget changes, by pattern of the column (the first that matches): the same for all its methods.

A day's outer rate falls to 0: at the constant rate of 1e-3 the validation curves of ``results/table3/paper-cpu``
still go up and down at their end, by 1 point (MSR) to 8 (MAML (Big)) from one validation to the next."""


@dataclass(frozen=True)
class Setting:
    """A column of Table 3."""

    data: str
    ways: int
    shots: int

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        return SIZES[self.data]


def setting(problem: str) -> Setting:
    """The column of Table 3 that ``problem`` names, such as ``aug-omniglot/5way-1shot``."""
    if problem not in COLUMNS:
        raise MetasymError(
            f"expected one of {', '.join(COLUMNS)}, found {problem!r}", about="problem", found=problem
        )
    data, _, episode = problem.removeprefix("aug-").partition("/")
    ways, shots = episode.removesuffix("shot").split("way-")
    return Setting(data, int(ways), int(shots))


def cells() -> dict[str, Experiment]:
    """Every experiment of Table 3, by its name, with the paper's recipe."""
    return {
        f"{column}/{label}": Experiment(
            f"{column}/{label}", column, method, network, recipe=_recipe(setting(column), symmetry)
        )
        for column in COLUMNS
        for label, (method, network, symmetry) in METHODS.items()
    }


def cheaper(experiment: Experiment, recipe: str) -> Experiment:
    """``experiment`` with the budget of a CPU whose recipe is ``recipe``."""
    if not experiment.has_classes:
        budget = next(name for name, known in BUDGETS.items() if known == recipe)
        raise MetasymError(
            f"expected an experiment of Table 3 for --budget {budget}, found {experiment.name}",
            about="budget",
            found=experiment.name,
        )
    return experiment.replace(
        **next(
            fields for pattern, fields in _CHEAPER[recipe].items() if fnmatchcase(experiment.problem, pattern)
        )
    )


def _recipe(column: Setting, symmetry: str) -> Recipe:
    """60,000 steps of Adam, one inner step in training and three at test; 15 queries a class, as in TorchMeta."""
    omniglot = column.data == "omniglot"
    return Recipe(
        outer_steps=60_000,
        tasks_per_step=32 if omniglot else 10,
        outer_lr=5e-4 if not omniglot and column.shots == 5 else 1e-3,
        inner_steps=1,
        test_inner_steps=3,
        inner_lr=0.4 if omniglot else 0.05,
        symmetry=symmetry,
        validate_every=50,
        test_tasks=1000,
        chunk_size=4 if omniglot else 1,
        # A step of MiniImagenet 5-shot takes ten seconds: a run that is killed loses a few minutes.
        checkpoint_every=100 if omniglot or column.shots == 1 else 20,
    )
