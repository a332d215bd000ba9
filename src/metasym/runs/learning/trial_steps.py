"""What a step of a training takes on this machine, by a trial of one: reported before it begins."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from metasym.errors import asked
from metasym.learners.gradient import GradientLearner
from metasym.runs.files.learn_options import Choices
from metasym.storage.system import available_memory, peak_memory
from metasym.tasks.plain_facts import size_in_words
from metasym.tasks.sampling import sample
from metasym.tasks.stored import StoredTasks
from metasym.training.distributed import Ranks
from metasym.training.guard import NonFiniteError, guarded_gradient
from metasym.training.randomness import task_ids
from metasym.types import MetasymError

_AGAIN = 1.0
"""Seconds of a first step below which a second is timed: the first of its kind pays for what is made once."""
_TOLD = 20.0
"""Seconds of a training that are worth a word."""


@dataclass(frozen=True)
class Effort:
    """What a trial of one outer step took."""

    seconds: float
    megabytes: float
    """The most memory that the process has held so far."""


def try_step(choices: Choices, learner: GradientLearner, tasks: StoredTasks) -> Effort | None:
    """Time an outer step, without changing anything; None where its gradient is not finite.

    One task goes first: where all of a step's tasks would not fit into memory, an error says which number fits.
    """
    count = min(choices.tasks_per_step, len(tasks))
    try:
        before = peak_memory()
        first = _seconds(learner, tasks, 1)
        each, free = max(0.0, peak_memory() - before) * 2**20, available_memory()
        if count * each > free:
            raise MetasymError(
                f"expected memory for {count} tasks at once, {size_in_words(int(count * each))}, found "
                f"{size_in_words(free)} free: {asked('tasks_per_step', max(1, int(free / each / 1.5)))} would fit",
                about="tasks_per_step",
                found=free,
            )
        seconds = _seconds(learner, tasks, count)
        if max(first, seconds) < _AGAIN:
            seconds = min(seconds, _seconds(learner, tasks, count))
    except (NonFiniteError, RuntimeError, ArithmeticError):
        return None
    return Effort(seconds, peak_memory())


def _seconds(learner: GradientLearner, tasks: StoredTasks, count: int) -> float:
    ids = task_ids(0, len(tasks), count)
    episodes = sample(tasks, ids, 0)
    with torch.random.fork_rng(devices=[]):  # dropout draws
        began = time.perf_counter()
        guarded_gradient(learner, episodes, ids, Ranks(), step=0, skip=True)
        return time.perf_counter() - began


def say_effort(
    choices: Choices,
    learner: GradientLearner,
    tasks: StoredTasks,
    what: str,
    steps: int,
    note: Callable[[str], None],
) -> None:
    """Tell how long ``steps`` outer steps take at most, if it is long enough to matter."""
    effort = try_step(choices, learner, tasks)
    if effort is None:
        return
    seconds = effort.seconds * steps
    if seconds < _TOLD:
        return
    length = f"{seconds / 60:.0f} minutes" if seconds >= 90 else f"{seconds:.0f} seconds"
    note(
        f"{what}: at most {length} on this machine ({effort.seconds:.2g} s a step, {effort.megabytes / 1024:.1f} GB "
        f"of memory), less if it stops early; use {asked('max_minutes')} to limit it"
    )
