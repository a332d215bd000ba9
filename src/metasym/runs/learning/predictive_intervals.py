"""Predictive intervals of a run that learned by evidence: how wide they are, and the intervals of a new task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from metasym.evidence.intervals import LEVELS, widths
from metasym.learners.evidence_msr import EvidenceMSR
from metasym.tasks.stored import StoredTasks
from metasym.types import Batch

SUPPORTS = (1, 2, 5, 10, 20)
_MOST_TASKS, _MOST_QUERIES = 200, 10
"""Held-out tasks, and examples of each, whose errors are examined."""


class Predicted(NamedTuple):
    """Predictions with their intervals, all ``[examples, ...]`` as y."""

    mean: Any
    lower: Any
    upper: Any


def interval_widths(learner: EvidenceMSR, held_out: Sequence[StoredTasks], seed: int) -> dict[str, Any]:
    """Half widths in predictive standard deviations, by number of support examples, as ``result.json`` has them."""
    tasks = [part.examples() for part in held_out]
    least = min(int(part.counts.min()) for part in tasks)
    x, y = (torch.cat([getattr(part, name).flatten(2)[:, :least] for part in tasks]) for name in ("x", "y"))
    order = torch.rand(x.shape[:2], generator=torch.Generator().manual_seed(seed)).argsort(1)[:_MOST_TASKS]
    x, y = (
        value[:_MOST_TASKS].gather(1, order[..., None].expand(-1, -1, value.shape[2])) for value in (x, y)
    )
    found = {}
    for support in SUPPORTS:
        if support >= least:
            break
        queries = slice(support, support + _MOST_QUERIES)
        mean, variance = learner.predictive(Batch(x[:, :support], y[:, :support]), x[:, queries])
        errors = (y[:, queries].double() - mean) / variance.sqrt()
        found[str(support)] = widths(errors.flatten(1))
    return {"levels": list(LEVELS), "by_support": found}
