"""Single elements of a group held against tasks, hundreds at once: which of them the tasks do not contradict.

A cheap look before any certificate, at the tasks' own least squares weights: what they have of ``w - g w`` beyond
what noise adds, in units of its uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from metasym.certification.bounds import noise_of
from metasym.certification.elements import Element
from metasym.evidence.fitting import least_squares
from metasym.evidence.statistics import TaskStatistics

LARGEST = 1024
"""Weights of a layer whose matrices of second moments are held."""
_BLOCKS = 10
"""Parts of the tasks whose differences tell how uncertain the mean over all is."""
SURVIVES = 3.0
"""Elements whose square stands out of noise by less than this many standard errors are not contradicted."""


def contradictions(tasks: TaskStatistics, elements: Sequence[Element], scale: Tensor) -> Tensor | None:
    """How far ``|w - g w|^2`` stands out of noise for every element, in standard errors: ``[elements]``.

    ``scale [m n]`` are the units of the weights. None where the tasks' own weights are not known well enough.
    """
    m, n = tasks.outputs, tasks.inputs
    ample = tasks[tasks.counts >= n + 2]
    if m * n > LARGEST or len(ample) < max(_BLOCKS, 0.9 * len(tasks)):
        return None
    own, spread = least_squares(ample)
    flat = own.flatten(1) / scale
    moments = torch.stack([part.T @ part / len(part) for part in flat.tensor_split(_BLOCKS)])
    variance = noise_of(ample, 0.0).variances
    added = spread.mean(0)  # noise of the weights of one output, over its variance: [n, n]
    powers, covariances = moments.diagonal(dim1=1, dim2=2), moments.flatten(1)
    noise = (variance[:, None] * added.diagonal()).reshape(-1) / scale.square()
    here = torch.arange(m * n)
    found = []
    for g in elements:
        rows, columns = torch.tensor(g.outputs), torch.tensor(g.inputs)
        signs = torch.outer(torch.tensor(g.output_signs), torch.tensor(g.input_signs)).double()
        images = (rows[:, None] * n + columns[None, :]).reshape(-1)
        squares = powers.sum(1) * 2 - 2 * (covariances[:, here * (m * n) + images] * signs.reshape(-1)).sum(1)
        still = (rows == torch.arange(m)).double()  # noise of two outputs is independent
        shared = (still * variance)[:, None] * added[torch.arange(n), columns] * signs
        expected = 2 * noise.sum() - 2 * (shared.reshape(-1) / (scale * scale[images])).sum()
        error = float(squares.std()) / math.sqrt(_BLOCKS)
        floor = 1e-12 * float(powers.sum(1).mean())
        found.append(float(squares.mean() - expected) / max(error, floor, 1e-300))
    return torch.tensor(found, dtype=torch.float64)
