"""The defect of a group over all tasks of a file, and which of them differ from the others.

Two statements, each true. Over the tasks of the file: the tasks are what they are, and only their noise is random, so
that a few tasks with a large defect enter with what they show; the mean square has the error that noise gives it.
About tasks to come: those of the file that differ are counted one by one, and an exact binomial limit says how large
a share of further tasks does. No statement about a mean square over further tasks is made: no data bound what tasks
do that are not in the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from scipy.special import betaincinv, fdtrc, fdtri, ndtri, stdtrit
from torch import Tensor

from metasym.certification.certificate_thresholds import FILE, LIMITS, NEGLIGIBLE_DEFECT
from metasym.certification.own_weights import OwnWeights


@dataclass(frozen=True, eq=False)
class AllTasks:
    """The tasks of a file that determine their own weights, and which of them are held out."""

    own: OwnWeights
    fresh: Tensor
    """``[T]``: whether the task is held out."""
    ids: Tensor
    """``[T]``: its number in the file."""
    blocks: Tensor | None = None
    """``[T]``: the block that it belongs to; tasks of different blocks are independent."""

    @property
    def firsts(self) -> Tensor:
        """``[T]``: one held-out task of every block, or one of those that are not; all where there are no blocks."""
        if self.blocks is None:
            return torch.ones_like(self.fresh)
        order = torch.argsort((~self.fresh).long(), stable=True)
        names, where = self.blocks[order].unique(return_inverse=True)
        first = torch.full((len(names),), len(order)).scatter_reduce_(
            0, where, torch.arange(len(order)), "amin"
        )
        found = torch.zeros_like(self.fresh)
        found[order[first]] = True
        return found

    def minus(self, weights: Tensor) -> AllTasks:
        """With ``weights [m, n]`` subtracted from those of each task."""
        return AllTasks(self.own.minus(weights), self.fresh, self.ids, self.blocks)


@dataclass(frozen=True, eq=False)
class Differing:
    """Which tasks contradict a group that the others have."""

    there: Tensor
    """``[T]``: whether the task differs."""
    many: bool
    """Whether so many tasks contradict the group, one by one, that it is not a few that differ."""
    visible: float
    """The relative defect from which a single task would be noticed."""
    share_upper: float
    """The largest share of further tasks with a larger defect than that, at 95 %."""


@dataclass(frozen=True)
class MeanSquare:
    """A mean square over all tasks of a file, noise subtracted."""

    mean: float
    upper: float
    """At 95 %."""
    error: float
    """One standard error of the mean."""


def group_form(average: Tensor) -> Tensor:
    """``2 (1 - A)`` for the projection A on what a group allows: ``w^T Q w`` is the mean of ``|w - g w|^2``."""
    return 2 * (torch.eye(len(average), dtype=torch.float64) - average)


def mean_square(tasks: AllTasks, form: Tensor, differing: Tensor) -> MeanSquare:
    """The mean of ``w^T Q w`` over all tasks.

    Tasks that differ count with what they show and its own error; the variation of the others estimates their error.
    Where tasks differ they have most of the square and their noise is small compared with it: the limit is close to
    the truth and would be too low in one file of twenty. It takes a surer level for them, which hardly widens it.
    """
    squares = tasks.own.squares(form)
    count, usual = len(squares), ~differing
    others, fresh = squares[usual], tasks.fresh[usual]
    mean = float(squares.mean())
    groups = torch.arange(count) if tasks.blocks is None else tasks.blocks
    deviations = _block_sums(others - others.mean(), groups[usual])
    if len(deviations) < FILE.fewest:
        return MeanSquare(mean, math.inf, math.inf)
    freedom = len(deviations) - 1
    variance = float(deviations.square().sum()) * (freedom + 1) / freedom
    learned = _block_sums((others - others.mean())[~fresh], groups[usual][~fresh])
    of_learned = math.sqrt(float(learned.square().sum()))
    reach = float(stdtrit(freedom, LIMITS.level)) * math.sqrt(variance)
    if bool(differing.any()):
        shown = float(_own_variance(tasks.own[differing], form).sum())
        variance += shown
        reach = math.hypot(reach, float(ndtri(FILE.shown)) * math.sqrt(shown))
    error = math.sqrt(variance)
    reach += FILE.selection * of_learned
    return MeanSquare(mean, max(mean + reach / count, reach / count), error / count)


def _block_sums(values: Tensor, blocks: Tensor) -> Tensor:
    """``[blocks]``: the sums of ``values [T]`` over each block."""
    names, where = blocks.unique(return_inverse=True)
    return torch.zeros(len(names), dtype=values.dtype).index_add_(0, where, values)


def _own_variance(own: OwnWeights, form: Tensor) -> Tensor:
    """``[T]``: the variance that a task's own noise gives ``w^T Q w``."""
    image = own.weights @ form
    across = (image[:, None, :] @ own.positive @ image[:, :, None]).reshape(-1)
    inside = own.positive @ form
    return 4 * across + 2 * (inside * inside.mT).sum((1, 2))


def differing_tasks(tasks: AllTasks, form: Tensor, total: float) -> Differing:
    """The tasks that contradict ``w^T Q w = 0`` each separately; ``total`` is the mean square of all weights."""
    own, count = tasks.own, len(tasks.own)
    squares = (own.weights @ form * own.weights).sum(1)
    inside = own.positive @ form
    added = inside.diagonal(dim1=1, dim2=2).sum(1).clamp_min(1e-300)
    second = (inside * inside.mT).sum((1, 2)).clamp_min(1e-300)
    first = (added.square() / second).clamp_min(1.0).numpy()
    freedom = (own.spare.double() * max(1.0, own.shape[0] / 2)).numpy()
    chance = torch.from_numpy(fdtrc(first, freedom, (squares / added).numpy()))
    floor = NEGLIGIBLE_DEFECT**2 * total
    there = (chance < FILE.chance / count) & (squares - added > floor)
    many = float(there.double().mean()) > FILE.many
    limit = torch.from_numpy(fdtri(first, freedom, 1 - FILE.chance / count)) * added
    beyond, width = limit - added, second.sqrt()
    half = beyond + 2 * FILE.seen_deviations**2 * width
    seen = half + (half.square() - beyond.square() + 2 * FILE.seen_deviations**2 * second).clamp_min(0).sqrt()
    visible = math.sqrt(max(float(seen.quantile(FILE.seen_tasks)), floor) / total)
    if many:
        return Differing(torch.zeros_like(there), True, visible, 1.0)
    return Differing(there, False, visible, _share_upper(there, tasks.blocks))


def _share_upper(there: Tensor, blocks: Tensor | None) -> float:
    """The exact binomial limit of the share, of blocks where tasks of one block are alike."""
    if blocks is not None:
        there = _block_sums(there.double(), blocks) > 0
    count, found = len(there), int(there.sum())
    if found == count:
        return 1.0
    return min(1.0, float(betaincinv(found + 1, count - found, LIMITS.level)) / (FILE.seen * FILE.seen_tasks))
