"""Tasks held in two arrays, as a user may have them: every task's examples, split afresh for each episode."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.tasks.sampling import mix
from metasym.tasks.subset import Subset
from metasym.types import Batch, Episode, MetasymError


class ArrayTasks:
    """Tasks from arrays. An episode of a task is a random split of its examples.

    Args:
        x: Inputs ``[tasks, examples, ...]``.
        y: Outputs ``[tasks, examples, ...]``.
        support: Number of support examples; all others are the query set.

    Example:
        >>> import torch, metasym as ms
        >>> tasks = ms.tasks.ArrayTasks(torch.randn(20, 10, 4), torch.randn(20, 10, 3), support=2)
        >>> episode = tasks.episode(0, torch.Generator().manual_seed(0))
        >>> tuple(episode.support.x.shape), tuple(episode.query.y.shape)
        ((2, 4), (8, 3))
    """

    @checked
    def __init__(self, x: Tensor, y: Tensor, *, support: int) -> None:
        if x.ndim < 2 or y.ndim < 2 or x.shape[:2] != y.shape[:2]:
            raise MetasymError(
                "expected x and y with the same [tasks, examples] in front, "
                f"found {tuple(x.shape)} and {tuple(y.shape)}",
                about="x, y",
                found=(tuple(x.shape), tuple(y.shape)),
            )
        if x.shape[0] < 1:
            raise MetasymError("expected at least one task, found none", about="tasks", found=0)
        if not 1 <= support < x.shape[1]:
            raise MetasymError(
                f"expected 1 to {x.shape[1] - 1} support examples, so that one is left as query, found {support}",
                about="support",
                found=support,
            )
        self.x, self.y, self.support = x, y, support

    def __repr__(self) -> str:
        tasks, examples = self.x.shape[:2]
        shapes = f"x {list(self.x.shape[2:])}, y {list(self.y.shape[2:])}"
        return f"ArrayTasks({tasks} tasks of {examples} examples, {shapes}, support {self.support})"

    def __len__(self) -> int:
        return int(self.x.shape[0])

    @property
    def examples(self) -> int:
        """The number of examples of each task."""
        return int(self.x.shape[1])

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The support and query set of task ``index``, split by ``generator``."""
        many = self.episodes(torch.tensor([index]), draw_seed(generator))
        return single(many)

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """The episodes of tasks ``ids [tasks]``, each split by its own seed of ``seeds [tasks]``."""
        order = shuffled(seeds, self.examples)
        rows = ids.unsqueeze(1)
        support, query = order[:, : self.support], order[:, self.support :]
        return Episode(
            Batch(self.x[rows, support], self.y[rows, support]),
            Batch(self.x[rows, query], self.y[rows, query]),
            ids,
        )

    def subset(self, ids: Sequence[int] | Tensor) -> Subset:
        """The tasks ``ids`` as a family of their own."""
        return Subset(self, ids)


def shuffled(seeds: Tensor, count: int) -> Tensor:
    """For each of ``seeds [tasks]`` a random order of ``0 .. count-1``: ``[tasks, count]``, int64.

    Sorting hashed numbers takes the place of a generator for each task: there is no loop, and a task's order does
    not depend on which other tasks are asked for.
    """
    return mix(seeds.unsqueeze(1), torch.arange(count)).argsort(dim=1)


def draw_seed(generator: torch.Generator) -> Tensor:
    """A seed ``[1]`` drawn from ``generator``."""
    return torch.randint(2**62, (1,), generator=generator)


def single(episodes: Episode) -> Episode:
    """The only episode of a batch of one, without the leading dimension."""
    s, q = episodes.support, episodes.query
    return Episode(Batch(s.x[0], s.y[0]), Batch(q.x[0], q.y[0]), episodes.ids[0])
