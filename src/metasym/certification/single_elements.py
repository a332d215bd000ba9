"""Single elements of a group tested on tasks, hundreds at once: which of them the tasks do not contradict.

A cheap look before any certificate, at the tasks' own least squares weights: what they have of ``w - g w`` beyond
what noise adds, in units of its uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from metasym.certification.bounds import noise_of
from metasym.certification.certificate_thresholds import LIMITS
from metasym.evidence.fitting import least_squares
from metasym.evidence.statistics import TaskStatistics
from metasym.groups.signed_permutations import SignedPermutation

MOST_WEIGHTS = 1024
"""Weights of a layer whose matrices of second moments are held."""
_BLOCKS = 10
"""Parts of the tasks whose differences show how uncertain the mean over all is."""
_AT_ONCE = 64
"""Elements that are examined together."""


def contradictions(
    tasks: TaskStatistics, elements: Sequence[SignedPermutation], scale: Tensor
) -> Tensor | None:
    """How far ``|w - g w|^2`` stands out of noise for every element, in standard errors: ``[elements]``.

    ``scale [m n]`` are the units of the weights. None where the tasks' own weights are not known well enough.
    """
    m, n = tasks.outputs, tasks.inputs
    ample = tasks[tasks.ample]
    if m * n > MOST_WEIGHTS or len(ample) < max(_BLOCKS, LIMITS.enough_tasks * len(tasks)):
        return None
    own, spread = least_squares(ample)
    flat = own.flatten(1) / scale
    moments = torch.stack([part.T @ part / len(part) for part in flat.tensor_split(_BLOCKS)])
    variance = noise_of(ample, 0.0).variances
    added = spread.mean(0)  # noise of the weights of one output, over its variance: [n, n]
    powers, covariances = moments.diagonal(dim1=1, dim2=2), moments.flatten(1)
    noise = (variance[:, None] * added.diagonal()).reshape(-1) / scale.square()
    places = torch.arange(m * n) * (m * n)
    powers_all = powers.sum(1)
    floor = 1e-12 * float(powers_all.mean())
    found = []
    for some in (elements[i : i + _AT_ONCE] for i in range(0, len(elements), _AT_ONCE)):
        rows, columns = torch.tensor([g.outputs for g in some]), torch.tensor([g.inputs for g in some])
        signs = torch.tensor([g.output_signs for g in some])[:, :, None] * torch.tensor(
            [g.input_signs for g in some]
        )[:, None, :].to(scale)
        images = (rows[:, :, None] * n + columns[:, None, :]).reshape(len(some), -1)
        across = covariances[:, (places + images).reshape(-1)].reshape(_BLOCKS, len(some), -1)
        squares = 2 * powers_all[:, None] - 2 * (across * signs.flatten(1)).sum(2)
        still = (rows == torch.arange(m)).double()  # noise of two outputs is independent
        shared = (still * variance)[:, :, None] * added[torch.arange(n), columns][:, None, :] * signs
        expected = 2 * noise.sum() - 2 * (shared.flatten(1) / (scale * scale[images])).sum(1)
        error = squares.std(0) / math.sqrt(_BLOCKS)
        found.append((squares.mean(0) - expected) / error.clamp_min(max(floor, 1e-300)))
    return torch.cat(found) if found else torch.zeros(0, dtype=torch.float64)
