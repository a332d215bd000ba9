"""The files of a finished run: their names, and what a result may hold, checked when it is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NotRequired, Required, TypedDict

from metasym.storage.described import Count, Number, Scalar, Score, Seed, described
from metasym.storage.json_files import read_json
from metasym.training.checkpoint import CONFIG as CONFIG  # the same file as a plain training run's
from metasym.types import MetasymError
from metasym.verdicts.symmetry_report import SymmetryReport

RESULT = "result.json"
ANGLES = "angles"
"""The folder, beside a table's small result files, of what ``metasym angles`` has measured."""


class _SupportScore(TypedDict, total=False):
    mean: Score
    ci95: Score
    penalty: Score
    per_task: list[Score]


class _Completed(TypedDict):
    strength: Number
    support: NotRequired[Count]
    before: NotRequired[Score]
    after: NotRequired[Score]
    train_support: NotRequired[Count]
    before_train: NotRequired[Score]
    after_train: NotRequired[Score]


class _Curve(TypedDict):
    step: list[Count]
    validation: list[Score]
    outer_loss: list[Score]


class ResultFile(TypedDict, total=False):
    """``result.json`` of ``metasym run`` and ``metasym learn``; what only one of them writes is optional."""

    experiment: Required[str]
    recipe: Required[str]
    method: Required[str]
    metric: Required[str]
    per_task: Required[list[Score]]
    outer_steps: Required[Count]
    inner_lrs: Required[dict[str, Score]]
    inner_steps_chosen: Count
    inner_steps_validation: dict[str, Score]
    seed: Required[Seed]
    diverged: Required[Count]
    mean: Score
    ci95: Score
    median: Score
    support: Count
    by_support: dict[str, _SupportScore]
    without_symmetry: dict[str, _SupportScore]
    penalty: Score
    target_mean_square: Score
    mean_prediction: Score
    out_of_time: bool
    recovered_at: list[Count]
    """The outer steps at which training diverged, and went back to take smaller inner steps."""
    outer_steps_per_second: Score
    skipped_tasks: Count
    filter_sizes: list[Count] | dict[str, list[Count]]
    completed: _Completed | None
    parameters: Count
    seconds: Score
    test_seconds: Score
    cpu_seconds: Score
    peak_memory_mb: Score
    starts: Count
    problem: str
    command: str
    commit: str | None
    versions: dict[str, Scalar]
    threads: Count | None
    config: dict[str, Any]
    symmetry: dict[str, Any]
    curve: _Curve


def read_result(path: Path) -> dict[str, Any]:
    """A run's result; numbers that were not finite come back as NaN."""
    found = read_json(path, "a result of metasym run")
    try:
        described(found, ResultFile, str(path))
        if "symmetry" in found:
            SymmetryReport.from_json(found["symmetry"], f"{path}: symmetry")
    except MetasymError as error:
        raise MetasymError(f"{error}; move it away to run again") from None
    found["per_task"] = [_number(value) for value in found["per_task"]]
    for key in ("mean", "ci95", "median"):
        found[key] = _number(found.get(key))
    return found


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def result_files(folder: Path) -> list[Path]:
    """The small result files in a folder and below it, sorted."""
    return sorted(p for p in folder.rglob("*.json") if ANGLES not in p.relative_to(folder).parts)
