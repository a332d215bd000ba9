"""How long a training takes and how much memory it needs: by its sizes, to choose steps; by a trial, to be told."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from metasym.learners.gradient import GradientLearner
from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.networks import plain_network
from metasym.runs.machine import enough_threads, threads_for
from metasym.storage.system import available_memory, peak_memory
from metasym.tasks.plain_facts import size_in_words
from metasym.tasks.sampling import sample
from metasym.tasks.stored import StoredTasks
from metasym.tasks.task_file import TaskFile
from metasym.training.distributed import Ranks
from metasym.training.guard import NonFiniteError, guarded_gradient
from metasym.training.randomness import task_ids
from metasym.types import MetasymError

_RATE = 4e9
"""Floating-point operations a second that steps of SGD reach here on one core, per-task convolutions included."""
_MINUTES = 15.0
"""What a training that adapts by SGD may take at that rate, unless the user asks for more steps."""
_LEAST_STEPS = 100
_SLOW = 1.0
"""Seconds of a step from which validations, and with them checkpoints, come after fewer steps: _OFTEN."""
_OFTEN = 5
_SUPPORT, _QUERY = 6, 3
"""Passes of an example: forward and backward, and both again for second derivatives of an inner step."""
_TOLD = 20.0
"""Seconds of a training that are worth a word."""


def step_seconds(choices: Choices, model: nn.Module, query: int) -> float:
    """What an outer step of SGD takes by its sizes alone, so that equal sizes always give equal choices."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(torch.zeros(1, *choices.layout.input_shape))
    passes = _SUPPORT * choices.inner_steps * choices.train_support + _QUERY * query
    return choices.tasks_per_step * passes * int(counter.get_total_flops()) / _RATE


def affordable_steps(choices: Choices, model: nn.Module, query: int) -> Choices:
    """The choices with so many outer steps that a training by SGD ends within a quarter of an hour or so."""
    seconds = step_seconds(choices, model, query)
    steps = choices.outer_steps
    if seconds > 0:
        steps = min(steps, max(_LEAST_STEPS, math.floor(60 * _MINUTES / seconds) // 25 * 25))
    found = replace(choices, outer_steps=steps)
    return found if seconds < _SLOW else _validated_often(found)


def _validated_often(choices: Choices) -> Choices:
    """The same with a validation, and so a checkpoint, every few steps."""
    more = max(1, choices.validate_every // _OFTEN)
    return replace(
        choices, validate_every=min(_OFTEN, choices.validate_every), patience=choices.patience * more
    )


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
                f"{size_in_words(free)} free: --tasks-per-step {max(1, int(free / each / 1.5))} would fit",
                about="tasks_per_step",
                found=free,
            )
        seconds = _seconds(learner, tasks, count)
        if max(first, seconds) < _SLOW:  # the first of its kind pays for what is made once
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
        "of memory), less where it stops early; --max-minutes ends it sooner"
    )


def threads_of(choices: Choices, file: TaskFile, train: StoredTasks) -> int:
    """As many threads as a step needs; a round of evidence looks at all tasks at once."""
    layout = choices.layout
    if choices.solver == "evidence":
        weights = math.prod(layout.input_shape) * math.prod(layout.output_shape)
        return threads_for(2 * weights * file.examples * len(train))
    first = sample(train, torch.tensor([0]), 0)
    return enough_threads(plain_network(choices), first, choices.tasks_per_step)
