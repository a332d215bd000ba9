"""How many outer steps, and how many threads, a training takes: by its sizes, so that equal sizes choose alike."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.networks import plain_network
from metasym.runs.machine import enough_threads, threads_for
from metasym.tasks.sampling import sample
from metasym.tasks.stored import StoredTasks
from metasym.tasks.task_file import TaskFile

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


def threads_of(choices: Choices, file: TaskFile, train: StoredTasks) -> int:
    """As many threads as a step needs; a round of evidence looks at all tasks at once."""
    layout = choices.layout
    if choices.solver == "evidence":
        weights = math.prod(layout.input_shape) * math.prod(layout.output_shape)
        return threads_for(2 * weights * file.examples * len(train))
    first = sample(train, torch.tensor([0]), 0)
    return enough_threads(plain_network(choices), first, choices.tasks_per_step)
