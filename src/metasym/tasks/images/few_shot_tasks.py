"""n-way k-shot tasks from labelled images."""

from __future__ import annotations

import numbers

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.tasks.arrays import draw_seed, single
from metasym.tasks.images.classes import ImageClasses
from metasym.tasks.sampling import check_seed, mix
from metasym.types import Batch, Episode, MetasymError

MANY_TASKS = 10_000_000
"""The length of a family without end: more tasks than anyone trains on."""
SCORED = 600
"""Tasks without end that stand for all in a score: as many as are usual for few-shot tests."""
_CLASSES, _PLACES = 12, 13
_LAST = torch.iinfo(torch.int64).max


class FewShotTasks:
    """Tasks that distinguish ``ways`` classes from ``shots`` images of each.

    The classes of a task and their labels depend on ``seed`` and the task's number. Which of their images are
    support and which query is drawn for each episode, without repetition. An episode has support ``x [ways *
    shots, C, H, W]``, float32, and ``y [ways * shots]``, int64 from 0 to ``ways - 1``, sorted by label; the query
    set likewise with ``queries`` images per class.

    Args:
        classes: The images, by class.
        ways: Classes of a task.
        shots: Support images of each class.
        queries: Query images of each class.
        tasks: Number of tasks. Default: endless, for training; give 600 or 1,000 for a test. Of an endless
            family the first 600 are scored (``scored``).
        seed: Seed of the family.
    """

    @checked
    def __init__(
        self,
        classes: ImageClasses,
        *,
        ways: int = 5,
        shots: int = 1,
        queries: int = 15,
        tasks: int | None = None,
        seed: int = 0,
    ) -> None:
        self.scored = SCORED if tasks is None else None
        tasks = MANY_TASKS if tasks is None else tasks
        for name, value in (("ways", ways), ("shots", shots), ("queries", queries), ("tasks", tasks)):
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                raise MetasymError(
                    f"expected {name} to be a whole number of at least 1, found {value!r}",
                    about=name,
                    found=value,
                )
        check_seed(seed)
        if ways > len(classes):
            raise MetasymError(
                f"expected at least {ways} classes for {ways} ways, found {len(classes)}",
                about="ways",
                found=len(classes),
            )
        least = int(classes.counts.argmin())
        if shots + queries > int(classes.counts[least]):
            raise MetasymError(
                f"expected at least {shots + queries} images per class ({shots} support and {queries} query), "
                f"found {int(classes.counts[least])} of class {classes.names[least]}",
                about=f"class {classes.names[least]}",
                found=int(classes.counts[least]),
            )
        self.classes, self.ways, self.shots, self.queries = classes, int(ways), int(shots), int(queries)
        self._tasks, self._seed = int(tasks), seed

    def __repr__(self) -> str:
        return f"FewShotTasks({self.ways} ways, {self.shots} shots, of {self.classes!r:.200})"

    def __len__(self) -> int:
        return self._tasks

    @property
    def input_shape(self) -> tuple[int, int, int]:
        """``(channels, height, width)`` of an image."""
        return self.classes.shape

    def classes_of(self, ids: Tensor) -> Tensor:
        """The classes of tasks ``ids [tasks]``, in the order of their labels: ``[tasks, ways]``, int64."""
        keys = mix(mix(self._seed, _CLASSES, ids).unsqueeze(-1), torch.arange(len(self.classes)))
        return keys.argsort(dim=-1)[..., : self.ways]

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The support and query set of task ``index``, drawn by ``generator``."""
        if not 0 <= index < len(self):
            raise MetasymError(
                f"expected a task of 0 to {len(self) - 1}, found {index}", about="task", found=index
            )
        return single(self.episodes(torch.tensor([index]), draw_seed(generator)))

    def episodes(self, ids: Tensor, seeds: Tensor) -> Episode:
        """The episodes of tasks ``ids [tasks]``, each drawn by its own seed of ``seeds [tasks]``."""
        classes = self.classes_of(ids)
        places = self._places(classes, seeds)  # [tasks, ways, shots + queries]
        labels = torch.arange(self.ways)
        parts = []
        for chosen in (places[..., : self.shots], places[..., self.shots :]):
            x = self.classes.pick(classes.unsqueeze(-1), chosen)
            y = labels.repeat_interleave(chosen.shape[-1]).expand(len(ids), -1).contiguous()
            parts.append(Batch(x.flatten(1, 2), y))
        return Episode(parts[0], parts[1], ids)

    def _places(self, classes: Tensor, seeds: Tensor) -> Tensor:
        """For each class of each task, distinct places among its images: ``[tasks, ways, shots + queries]``."""
        counts = self.classes.counts[classes].unsqueeze(-1)
        most = torch.arange(int(counts.max()))
        ways = torch.arange(self.ways).unsqueeze(-1)
        keys = mix(seeds[:, None, None], _PLACES, ways, most)
        order = torch.where(most < counts, keys, _LAST).argsort(dim=-1)
        return order[..., : self.shots + self.queries]
