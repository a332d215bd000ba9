"""The recipe ``best``: for each cell, what differs from the paper's recipe.

Chosen on validation tasks cut from the training tasks, never on test tasks. The data, the number of support
examples and the test protocol are the paper's.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

BEST: dict[str, dict[str, Any]] = {}
"""Changes by pattern of the experiment's name; where several match, later ones win."""


def best_changes(name: str) -> dict[str, Any]:
    """The fields of the recipe that ``best`` changes for the experiment ``name``."""
    changes: dict[str, Any] = {}
    for pattern, fields in BEST.items():
        if fnmatchcase(name, pattern):
            changes.update(fields)
    return changes
