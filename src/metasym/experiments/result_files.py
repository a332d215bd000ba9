"""The files of a finished run: their names, and results checked when they are read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from metasym.storage.json_files import read_json
from metasym.training.checkpoint import CONFIG as CONFIG  # the same file as a plain training run's
from metasym.types import MetasymError

RESULT = "result.json"
ANGLES = "angles"
"""The folder, beside a table's small result files, of what ``metasym angles`` has measured."""
REQUIRED = {
    "experiment": str,
    "recipe": str,
    "method": str,
    "metric": str,
    "per_task": list,
    "outer_steps": int,
    "inner_lrs": dict,
    "seed": int,
    "diverged": int,
}


def read_result(path: Path) -> dict[str, Any]:
    """A run's result; numbers that were not finite come back as NaN."""
    found = read_json(path, "a result of metasym run")
    for key, kind in REQUIRED.items():
        if not isinstance(found.get(key), kind):
            raise MetasymError(
                f"{path}: expected a result of metasym run with {key} ({kind.__name__}), "
                f"found {type(found[key]).__name__ if key in found else 'none'}; move it away to run again"
            )
    found["per_task"] = [math.nan if value is None else float(value) for value in found["per_task"]]
    for key in ("mean", "ci95", "median"):
        found[key] = math.nan if found.get(key) is None else float(found[key])
    return found


def result_files(folder: Path) -> list[Path]:
    """The small result files in a folder and below it, sorted."""
    return sorted(p for p in folder.rglob("*.json") if ANGLES not in p.relative_to(folder).parts)
