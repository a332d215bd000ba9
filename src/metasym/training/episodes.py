"""The tasks and episodes of every step of a run; several steps' are made at once where that changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from metasym.tasks.arrays import ArrayTasks
from metasym.tasks.sampling import mix, sample
from metasym.training.distributed import Ranks
from metasym.training.randomness import step_seed, task_ids
from metasym.types import Episode, Tasks

_AHEAD = 8
_NUMBERS = 2**17
"""How many numbers the episodes made ahead may have: half a megabyte in float32."""

Drawn = tuple[Tensor, Episode]
"""The tasks ``[tasks]`` of all ranks at a step, and the episodes of this rank's share of them."""


class Supply:
    """What each step sees: a function of the seed, the step and the tasks alone.

    Small arrays in memory are split for several steps at once, at hardly more than the cost of one step. Without
    that, a whole run of MSR-FC takes a fifth more time (``docs/performance.md``). All other families are asked at
    every step, as they may compute, read files, or be written by users.
    """

    def __init__(self, tasks: Tasks, *, seed: int, wanted: int, ranks: Ranks) -> None:
        self._tasks, self._seed, self._wanted, self._ranks = tasks, seed, wanted, ranks
        self._made: dict[tuple[int, int], Drawn] = {}

    def at(self, step: int) -> Drawn:
        """What this step sees."""
        available = len(self._tasks)
        count = self._steps_ahead(available)
        if count == 1:  # not kept: the next step's episodes would need memory beside these
            seed, ids, mine = self._draw(step, available)
            return ids, sample(self._tasks, mine, seed)
        if (step, available) not in self._made:
            self._made = self._make(range(step, step + count), available)
        return self._made[step, available]

    def _draw(self, step: int, available: int) -> tuple[int, Tensor, Tensor]:
        """The step's seed, its tasks, and this rank's share of them."""
        seed = step_seed(self._seed, step)
        ids = task_ids(seed, available, self._wanted)
        return seed, ids, ids[self._ranks.share(len(ids))]

    def _make(self, steps: range, available: int) -> dict[tuple[int, int], Drawn]:
        assert isinstance(self._tasks, ArrayTasks)
        drawn = [self._draw(step, available) for step in steps]
        seeds = torch.cat([mix(seed, mine) for seed, _, mine in drawn])
        episodes = self._tasks.episodes(torch.cat([mine for _, _, mine in drawn]), seeds)
        size = len(drawn[0][2])
        return {
            (step, available): (ids, episodes.tasks(i * size, (i + 1) * size))
            for i, (step, (_, ids, _)) in enumerate(zip(steps, drawn, strict=True))
        }

    def _steps_ahead(self, available: int) -> int:
        tasks = self._tasks
        if type(tasks) is not ArrayTasks:
            return 1
        numbers = min(self._wanted, available) * (tasks.x.numel() + tasks.y.numel()) // len(tasks)
        return max(1, min(_AHEAD, _NUMBERS // max(numbers, 1)))
