"""The files of a finished run: their names, and what a result may hold, checked when it is read."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal, NotRequired, Required, TypedDict

from metasym.runs.files.discover_files import AnswerFile, ClaimFile, DiscoverConfig, RefusedFile, VerdictFile
from metasym.runs.files.schemas import VERSION
from metasym.storage.described import Count, Number, Scalar, Score, Seed, described
from metasym.storage.file_names import ANGLES, RATES, RESULT
from metasym.storage.json_files import read_json, write_json
from metasym.types import MetasymError
from metasym.types import Score as TaskScore
from metasym.verdicts.symmetry_report import SymmetryReport

DIVERGED = 10.0
"""A task whose error is this many times the mean square of the targets has diverged, finite or not."""


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


class _Element(TypedDict):
    name: str
    violation: Score
    violation_upper: Score
    defect_upper: Score
    same_class: Score
    score: Score


class FunctionResult(TypedDict):
    """How far adapted networks are from a group: ``AdaptedFunctions``."""

    group: str
    tasks: Count
    score: Score
    labels: bool
    elements: list[_Element]
    note: str


class TasksShare(TypedDict):
    """What the tasks of a deep network share, by functions fitted to them."""

    verdict: VerdictFile
    symmetries: list[ClaimFile]
    refused: list[RefusedFile]


class _Intervals(TypedDict):
    """How wide predictive intervals are, in standard deviations: a width for each level."""

    levels: list[Number]
    by_support: dict[str, list[Number]]


class RunResult(TypedDict, total=False):
    """What ``result.json`` of every kind of run has."""

    schema: Count
    experiment: Required[str]
    recipe: Required[str]
    peak_memory_mb: Score


class ScoredResult(RunResult, total=False):
    """``result.json`` of ``metasym run`` and ``metasym learn``; what only one of them writes is optional."""

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
    test_seconds: Score
    cpu_seconds: Score
    starts: Count
    problem: str
    threads: Count | None
    seconds: Score
    command: str
    """The command line that makes the run again."""
    commit: str | None
    versions: dict[str, Scalar]
    config: dict[str, Any]
    symmetry: dict[str, Any]
    intervals: _Intervals
    tasks_share: TasksShare
    """Of a network of several layers; ``function`` is what the adapted networks have of it."""
    function: FunctionResult
    linear: dict[str, _SupportScore]
    """The scores of one linear layer, beside a network of several."""
    curve: _Curve


class _Scores(TypedDict):
    """A model's error on held-out examples."""

    metric: Literal["mse", "accuracy"]
    mean: Score
    ci95: Score
    relative: Score
    by_output: NotRequired[list[Score]]


class DiscoverResult(RunResult):
    """``result.json`` of ``metasym discover``."""

    verdict: VerdictFile
    symmetries: list[ClaimFile]
    refused: list[RefusedFile]
    answer: NotRequired[AnswerFile | None]
    """About a group that was asked about; None where none was."""
    plain: _Scores | None
    """None where a function was called, and nothing fitted."""
    symmetric: _Scores | None
    examples: Count
    held_out: Count
    family: bool
    notes: list[str]
    seconds: Score
    command: str
    """The command line that makes the run again."""
    commit: str | None
    versions: dict[str, Scalar]
    config: DiscoverConfig


def read_result(path: Path) -> dict[str, Any]:
    """A run's result, of whichever command; scores that were not finite come back as NaN."""
    found = read_json(path, "a result of metasym run")
    discovered = "symmetries" in found
    try:
        described(found, DiscoverResult if discovered else ScoredResult, str(path))
        if "symmetry" in found:
            SymmetryReport.from_json(found["symmetry"], f"{path}: symmetry")
    except MetasymError as error:
        raise MetasymError(
            f"{error}; move it away to run again", about=error.about, found=error.found
        ) from None
    if not discovered:
        found["per_task"] = [_number(value) for value in found["per_task"]]
        for key in ("mean", "ci95", "median"):
            found[key] = _number(found.get(key))
    return found


def write_result(folder: Path, result: dict[str, Any]) -> dict[str, Any]:
    """Write ``result.json``, and give what a reader of it gets."""
    write_json(folder / RESULT, {"schema": VERSION, **result})
    return read_result(folder / RESULT)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)


def score_of(result: dict[str, Any]) -> TaskScore:
    """The test score in a result of ``metasym run`` or ``metasym learn``."""
    return TaskScore(
        per_task=tuple(result["per_task"]),
        mean=result["mean"],
        ci95=result["ci95"],
        median=result["median"],
        metric=result["metric"],
        diverged=result["diverged"],
    )


def result_files(folder: Path) -> list[Path]:
    """The small result files in a folder and below it, sorted."""
    return sorted(p for p in folder.rglob("*.json") if not {ANGLES, RATES} & set(p.relative_to(folder).parts))
