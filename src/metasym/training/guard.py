"""The gradient of one outer step over all processes, guarded against NaN and infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from metasym.learners.base import Learner
from metasym.training.distributed import Ranks
from metasym.types import Batch, Episode, MetasymError, Params

_NAMED = 10


class NonFiniteError(MetasymError):
    """A loss or gradient was NaN or infinite; the parameters are as they were before the step."""

    def __init__(
        self,
        message: str,
        *,
        step: int,
        task_ids: Sequence[int] = (),
        about: str | None = None,
        found: object = None,
    ) -> None:
        super().__init__(message, about=about, found=found)
        self.step = step
        self.task_ids = tuple(task_ids)


class StepGradient(NamedTuple):
    """The mean over the tasks of a step: its gradient, and the losses as numbers."""

    gradient: Params
    outer_loss: float
    inner_loss_before: float
    inner_loss_after: float
    norm: float
    skipped: int


def guarded_gradient(
    learner: Learner,
    episodes: Episode,
    ids: Tensor,
    ranks: Ranks,
    *,
    step: int,
    skip: bool,
) -> StepGradient:
    """The outer gradient over the tasks ``ids [tasks]``, of which ``episodes`` are this rank's share.

    Where it is not finite, the offending tasks are found by their loss, or else by their own gradients.
    They are dropped and the rest is computed again (``skip``), or they are named in a :class:`NonFiniteError`.
    """
    kept: Sequence[int] = range(len(ids))
    while True:
        losses, gradient = _sweep(learner, episodes, kept, len(ids), ranks)
        query, before, after = (total / len(kept) for total in losses.sum(1, dtype=torch.float64).tolist())
        norm = _norm(gradient.values())
        if math.isfinite(query) and not math.isfinite(norm) and _finite(gradient):
            norm = _norm(g.double() for g in gradient.values())
        if math.isfinite(query) and math.isfinite(norm):
            return StepGradient(gradient, query, before, after, norm, len(ids) - len(kept))
        finite, what = torch.isfinite(losses[0]).tolist(), "loss"
        if all(finite):
            finite, what = _finite_gradients(learner, episodes, kept, len(ids), ranks), "gradient"
        good = [i for i in kept if finite[i]]
        if not skip or not good or len(good) == len(kept):
            bad = [i for i in kept if not finite[i]]
            raise _error(step, what, ids[bad].tolist(), len(kept))
        kept = good


def _sweep(
    learner: Learner, episodes: Episode, kept: Sequence[int], count: int, ranks: Ranks
) -> tuple[Tensor, Params]:
    """Losses ``[3, count]`` (0 where not kept) and the gradient of the mean, summed over the ranks."""
    share = ranks.share(count)
    mine = [i for i in kept if share.start <= i < share.stop]
    if mine:
        chosen = episodes if len(mine) == episodes.count else _select(episodes, mine, share.start)
        found, gradient = learner.outer_gradient(chosen, total_tasks=len(kept))
        losses = torch.stack(tuple(found))
        if len(mine) < count:
            losses = losses.new_zeros(3, count).index_copy(
                1, torch.tensor(mine, device=losses.device), losses
            )
    else:
        losses = torch.zeros(3, count, device=episodes.ids.device)
        gradient = {name: torch.zeros_like(p) for name, p in learner.outer_parameters().items()}
    losses, *parts = ranks.sum([losses, *gradient.values()])
    return losses, dict(zip(gradient, parts, strict=True))


def _finite_gradients(
    learner: Learner, episodes: Episode, kept: Sequence[int], count: int, ranks: Ranks
) -> list[bool]:
    """Whether each of the ``count`` tasks has a finite gradient of its own; true for those not kept."""
    bad = torch.zeros(count)
    share = ranks.share(count)
    for i in kept:
        if share.start <= i < share.stop:
            task = episodes.tasks(i - share.start, i - share.start + 1)
            bad[i] = float(not _finite(learner.outer_gradient(task, total_tasks=1)[1]))
    summed = ranks.sum([bad.to(episodes.ids.device)])[0]
    return (summed == 0).tolist()


def _error(step: int, what: str, ids: list[int], kept: int) -> NonFiniteError:
    named = ", ".join(map(str, ids[:_NAMED])) + (", ..." if len(ids) > _NAMED else "")
    where = f"for {len(ids)} of {kept} tasks: {named}" if ids else f"in the sum over {kept} tasks"
    return NonFiniteError(
        f"step {step}: expected a finite {what}, found NaN or infinity {where}",
        step=step,
        task_ids=ids,
        about=what,
        found="NaN or infinity",
    )


def _select(episodes: Episode, kept: Sequence[int], first: int) -> Episode:
    """The episodes of the kept tasks, where ``first`` is the number of the first episode's task."""
    rows = torch.tensor(kept, device=episodes.ids.device) - first
    s, q = episodes.support, episodes.query
    return Episode(Batch(s.x[rows], s.y[rows]), Batch(q.x[rows], q.y[rows]), episodes.ids[rows])


def _finite(gradient: Params) -> bool:
    return all(bool(torch.isfinite(g).all()) for g in gradient.values())


def _norm(tensors: Iterable[Tensor]) -> float:
    """The Euclidean norm over all entries of all tensors."""
    return math.hypot(*torch.stack([torch.linalg.vector_norm(t) for t in tensors]).tolist())
