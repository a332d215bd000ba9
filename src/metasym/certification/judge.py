"""The one judge of tasks, for ``learn`` and ``discover``: a claim and tasks' examples give a defect with its bound.

Where every task determines its own weights, the bound is about all tasks of the file and those held out refute;
elsewhere the weights are projected out task by task. Rows are judged by :mod:`metasym.certification.beta`, calls by
``discovery.callables.call_certificate``; the unit is the same, see :mod:`metasym.verdicts.defects`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from metasym.certification.all_tasks import AllTasks
from metasym.certification.certificate import Certificate, certify, certify_all
from metasym.certification.own_weights import own_weights
from metasym.evidence.statistics import TaskStatistics
from metasym.groups.signed_permutations import SignedPermutation

Tasks = AllTasks | TaskStatistics
"""All tasks of a file: with their own weights or, where some task does not determine these, their statistics."""


def all_tasks(
    x: Sequence[Tensor], y: Sequence[Tensor], fresh: Tensor, *, offset: bool, blocks: Tensor | None = None
) -> Tasks:
    """Of ``x [N_t, n]`` and ``y [N_t, m]`` of every task; ``fresh [T]`` are held out.

    ``offset``: every task has an offset of its own. ``blocks [T]``: only tasks of different blocks are independent.
    """
    own = own_weights(x, y, offset=offset)
    if own is None:
        if len({len(one) for one in x}) == 1:
            return TaskStatistics.of(torch.stack(list(x)), torch.stack(list(y)), offset=offset)
        return TaskStatistics.of(x, y, offset=offset)
    return AllTasks(own, fresh, torch.arange(len(x)), blocks)


def judge_tasks(
    generators: Sequence[SignedPermutation],
    x: Sequence[Tensor],
    y: Sequence[Tensor],
    fresh: Tensor,
    *,
    tolerance: float,
    offset: bool = True,
) -> Certificate:
    """Hold a group against tasks, those of ``fresh [T]`` not having taken part in finding it."""
    everyone = all_tasks(x, y, fresh, offset=offset)
    if isinstance(everyone, AllTasks):
        return certify_all(everyone, generators, tolerance=tolerance)
    whole = certify(everyone, generators)
    return replace(whole, refuted=certify(everyone[fresh], generators, alone=False).refuted)
