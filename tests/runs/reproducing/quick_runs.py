"""A cell of Table 1 with so few steps and tasks that it takes a moment."""

from __future__ import annotations

from typing import Any

from metasym.paper import find
from metasym.paper.config import Experiment

QUICK = {"outer_steps": 4, "train_tasks": 8, "test_tasks": 5, "checkpoint_every": 2, "tasks_per_step": 4}
NAME = "translation/rank1/small/msr-fc"


def quick(name: str = NAME, **changes: Any) -> Experiment:
    """The experiment with ``QUICK`` and other changes."""
    return find(name, **{**QUICK, **changes})
