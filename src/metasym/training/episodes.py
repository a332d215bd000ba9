"""The tasks and episodes of every step of a run, those of several steps made at once where that changes nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from metasym.tasks.arrays import ArrayTasks
from metasym.tasks.sampling import mix, sample
from metasym.training.distributed import Ranks
from metasym.training.randomness import Draws
from metasym.types import Episode, Tasks

_AHEAD = 8
_NUMBERS = 2**17
"""How many numbers the episodes made ahead may have: half a megabyte in float32."""


class Supply:
    """What each step sees: a function of the seed, the step and the tasks alone.

    Small arrays in memory are split for several steps at once, at hardly more than the cost of one. All other
    families are asked at every step, as they may compute, read files, or be written by users.
    """

    def __init__(self, tasks: Tasks, *, seed: int, wanted: int, ranks: Ranks) -> None:
        self._tasks, self._ranks = tasks, ranks
        self._draws = Draws(seed, wanted)
        self._made: dict[tuple[int, int], Episode] = {}

    def at(self, step: int) -> tuple[Tensor, Episode]:
        """The tasks ``[tasks]`` of all ranks at this step, and the episodes of this rank's share of them."""
        available = len(self._tasks)
        seed, ids = self._draws.at(step, available)
        count = self._steps_ahead(len(ids))
        if count == 1:
            return ids, sample(self._tasks, ids[self._ranks.share(len(ids))], seed)
        if (step, available) not in self._made:
            self._made = self._make(step, count, available)
        return ids, self._made[step, available]

    def _steps_ahead(self, wanted: int) -> int:
        tasks = self._tasks
        if type(tasks) is not ArrayTasks:
            return 1
        numbers = wanted * (tasks.x.numel() + tasks.y.numel()) // len(tasks)
        return max(1, min(_AHEAD, _NUMBERS // max(numbers, 1)))

    def _make(self, first: int, count: int, available: int) -> dict[tuple[int, int], Episode]:
        assert isinstance(self._tasks, ArrayTasks)
        drawn = [self._draws.at(step, available) for step in range(first, first + count)]
        mine = [(seed, ids[self._ranks.share(len(ids))]) for seed, ids in drawn]
        seeds = torch.cat([mix(seed, ids) for seed, ids in mine])
        episodes = self._tasks.episodes(torch.cat([ids for _, ids in mine]), seeds)
        size = len(mine[0][1])
        return {(first + i, available): episodes.tasks(i * size, (i + 1) * size) for i in range(count)}
