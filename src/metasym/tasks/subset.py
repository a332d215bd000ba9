"""Some of a family's tasks as a family of their own: for validation, and for quick runs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.tasks.sampling import check_episode, mix, seeded, stack
from metasym.types import Episode, MetasymError, Tasks

_HOLD_OUT = 7


class Subset:
    """Some tasks of a family, renumbered from 0: episodes carry the new numbers.

    A learner that keeps something for each training task (MTSR) then sees no gaps.

    Args:
        tasks: A family of tasks.
        ids: Which of them.
    """

    @checked
    def __init__(self, tasks: Tasks, ids: Sequence[int] | Tensor) -> None:
        self.tasks = tasks
        self.ids = torch.as_tensor(ids, dtype=torch.int64)
        if self.ids.ndim != 1 or len(self.ids) == 0:
            raise MetasymError(
                f"expected a list of at least one task, found {tuple(self.ids.shape)}",
                about="ids",
                found=tuple(self.ids.shape),
            )
        low, high = int(self.ids.min()), int(self.ids.max())
        if low < 0 or high >= len(tasks):
            raise MetasymError(
                f"expected tasks 0 to {len(tasks) - 1}, found {low if low < 0 else high} in the subset",
                about="ids",
                found=low if low < 0 else high,
            )

    def __repr__(self) -> str:
        return f"Subset({len(self.ids)} of the tasks of {self.tasks!r:.300})"

    def __len__(self) -> int:
        return len(self.ids)

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The episode of the task that is number ``index`` here."""
        task = int(self.ids[index])
        found = check_episode(self.tasks.episode(task, generator), f"task {task}", leading=())
        return found._replace(ids=torch.tensor(index))

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """The episodes of many tasks, as fast as the whole family makes them."""
        batched = getattr(self.tasks, "episodes", None)
        if batched is None:
            pairs = zip(ids.tolist(), seeds.tolist(), strict=True)
            return stack([self.episode(index, seeded(seed)) for index, seed in pairs])
        found: Episode = batched(self.ids[ids], seeds)
        return found._replace(ids=ids)


@checked
def hold_out(tasks: Tasks, fraction: float, seed: int = 0) -> tuple[Subset, Subset]:
    """Split off a random fraction of the tasks for validation.

    Args:
        tasks: A finite family of tasks.
        fraction: Fraction to split off.
        seed: Seed of the choice.

    Returns:
        The remaining tasks, and the validation tasks.
    """
    count = round(fraction * len(tasks))
    if not 0 < count < len(tasks):
        raise MetasymError(
            f"expected a fraction that leaves tasks on both sides of {len(tasks)}, found {fraction}",
            about="fraction",
            found=fraction,
        )
    order = mix(seed, _HOLD_OUT, torch.arange(len(tasks))).argsort()
    return Subset(tasks, order[count:].sort().values), Subset(tasks, order[:count].sort().values)
