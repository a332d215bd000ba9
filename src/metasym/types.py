"""The small vocabulary that every other module imports: batches, episodes, records, scores, errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from metasym.errors import MetasymError as MetasymError
from metasym.errors import MetasymWarning as MetasymWarning

Params = dict[str, Tensor]
"""Parameters by their qualified name, as ``nn.Module.named_parameters`` gives them."""

Loss = Callable[[Tensor, Tensor], Tensor]
"""``loss(prediction, target) -> scalar``; the mean over whatever the prediction holds."""


class Batch(NamedTuple):
    """Examples of one task, ``x [examples, ...]`` and ``y [examples, ...]``.

    With one more leading dimension it holds the examples of many tasks. A named tuple is a pytree,
    so that a batch passes through ``torch.func.vmap`` unchanged.
    """

    x: Tensor
    y: Tensor

    def __repr__(self) -> str:
        return f"Batch(x {_tensor_words(self.x)}, y {_tensor_words(self.y)})"


def shortened(text: str, most: int = 480) -> str:
    """A text for a ``repr``: what is longer is cut."""
    return text if len(text) <= most else f"{text[: most - 2]} …"


def _tensor_words(value: object) -> str:
    """Shape and type: the numbers of a batch would fill screens."""
    if not isinstance(value, Tensor):
        return type(value).__name__
    return f"{list(value.shape)} {str(value.dtype).removeprefix('torch.')}"


def as_batch(value: Any, like: Tensor | None = None) -> Batch:
    """``value`` as a :class:`Batch` of tensors: one already, or a pair ``(x, y)``; arrays as in :func:`as_tensor`."""
    if not isinstance(value, tuple | list) or len(value) != 2:
        found = f"{len(value)} values" if isinstance(value, tuple | list) else type(value).__name__
        raise MetasymError(
            f"expected a task's examples as ms.Batch(x, y) or (x, y), found {found}",
            about="batch",
            found=len(value) if isinstance(value, tuple | list) else type(value).__name__,
        )
    x, y = value
    if isinstance(value, Batch) and isinstance(x, Tensor) and isinstance(y, Tensor):
        return value
    return Batch(as_tensor(x, like), as_tensor(y, like))


def as_tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """A tensor as it is; an array or a list as a tensor, its fractions of the type and on the device of ``like``.

    NumPy uses float64 by default, so an array of float64 does not mean that the user chose that type.
    """
    if isinstance(value, Tensor):
        return value
    try:
        found = torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise MetasymError(
            f"expected x and y of numbers, found {' '.join(str(error).split())}",
            about="x, y",
            found=type(value).__name__,
        ) from None
    if like is None:
        return found
    return found.to(like.device, like.dtype if found.is_floating_point() else found.dtype)


class OuterLoss(NamedTuple):
    """What adapting to a batch of tasks gave, each ``[tasks]``."""

    query: Tensor
    """The query loss after adaptation; its mean is what the outer loop minimises."""
    before: Tensor
    """The support loss before adaptation (detached)."""
    after: Tensor
    """The support loss after adaptation (detached)."""


class Episode(NamedTuple):
    """One task's support and query set, or, with a leading dimension, those of many tasks."""

    support: Batch
    query: Batch
    ids: Tensor
    """``[]`` or ``[tasks]``, int64: which task this is, so that errors and resumed runs can name it."""

    def __repr__(self) -> str:
        ids = self.ids.reshape(-1).tolist() if isinstance(self.ids, Tensor) else []
        which = f"task {ids[0]}" if len(ids) == 1 else f"{len(ids)} tasks"
        return f"Episode({which}: support {self.support!r}, query {self.query!r})"

    @property
    def count(self) -> int:  # type: ignore[override]
        """The number of tasks (of a batch of episodes)."""
        return int(self.ids.shape[0])

    def task(self, i: int) -> Episode:
        """Task ``i`` of a batch of episodes, alone."""
        s, q = self.support, self.query
        return Episode(Batch(s.x[i], s.y[i]), Batch(q.x[i], q.y[i]), self.ids[i])

    def tasks(self, start: int, stop: int) -> Episode:
        """The tasks ``start .. stop-1`` of a batch of episodes."""
        s, q = self.support, self.query
        return Episode(
            Batch(s.x[start:stop], s.y[start:stop]),
            Batch(q.x[start:stop], q.y[start:stop]),
            self.ids[start:stop],
        )

    def to(self, device: torch.device | str) -> Episode:
        """The same episodes on another device."""
        s, q = self.support, self.query
        return Episode(
            Batch(s.x.to(device), s.y.to(device)),
            Batch(q.x.to(device), q.y.to(device)),
            self.ids.to(device),
        )


class Tasks(Protocol):
    """A family of tasks. Anything with these two methods is one; write ``episode`` for one task.

    A family that can make many episodes faster than one by one may also have
    ``episodes(ids, seeds) -> Episode``, which ``metasym.tasks.sample`` then prefers. A family whose tasks are drawn
    without end may have ``scored``, the number of tasks that stand for all in a score (None: all are scored).
    """

    def __len__(self) -> int:
        """The number of tasks."""
        ...

    def episode(self, index: int, generator: torch.Generator) -> Episode:
        """The support and query set of task ``index`` (without a leading task dimension).

        Whatever is drawn (which examples are support, augmentation, fresh inputs) comes from
        ``generator`` alone: an equal index and generator state give an equal episode.
        """
        ...


@dataclass(frozen=True)
class Record:
    """What one outer step did."""

    step: int
    outer_loss: float
    inner_loss_before: float
    inner_loss_after: float
    gradient_norm: float
    step_sizes: Mapping[str, float] = field(default_factory=dict)
    steps_per_second: float = 0.0
    skipped_tasks: int = 0
    validation: float | None = None
    validation_seconds: float | None = None

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for a line of ``metrics.jsonl``."""
        return dataclasses.asdict(self)

    def __repr__(self) -> str:
        checked = "" if self.validation is None else f", validation {self.validation:.4g}"
        lost = f", {self.skipped_tasks} tasks skipped" if self.skipped_tasks else ""
        return (
            f"Record(step {self.step}, outer loss {self.outer_loss:.4g}{checked}, support loss "
            f"{self.inner_loss_before:.4g} before and {self.inner_loss_after:.4g} after adapting{lost})"
        )


@dataclass(frozen=True)
class Score:
    """Per-task scores on test tasks with their mean and 95 % interval (Student t over tasks)."""

    per_task: tuple[float, ...]
    mean: float
    ci95: float
    median: float
    metric: str = "loss"
    diverged: int = 0
    """How many tasks scored NaN or infinity; ``per_task`` holds them, and they show in ``mean``."""

    def __repr__(self) -> str:
        lost = f", {self.diverged} diverged" if self.diverged else ""
        return f"Score({self}, median {self.median:.4g}{lost})"

    def __str__(self) -> str:
        if len(self.per_task) == 1:
            return f"{self.metric} {self.mean:.4g} (one task: no interval)"
        return f"{self.metric} {self.mean:.4g} ± {self.ci95:.2g} ({len(self.per_task)} tasks)"
