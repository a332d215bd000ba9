"""What ``config.json`` of ``metasym learn`` may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from metasym.experiments.own_tasks.options import Choices
from metasym.storage.described import Count
from metasym.storage.json_files import read_json
from metasym.tasks.task_file import Reading

COMMAND = "learn"


class ArrayFile(TypedDict):
    """One array of the tasks that ``metasym learn`` was given."""

    shape: list[Count]
    dtype: str
    crc32: Count


class Counts(TypedDict):
    """How many examples tasks of different sizes have."""

    least: Count
    most: Count
    crc32: Count


class DataFile(TypedDict):
    """The tasks that ``metasym learn`` was given."""

    path: str
    x: ArrayFile
    y: ArrayFile
    classes: Count
    counts: NotRequired[Counts]
    input_names: NotRequired[list[str]]
    output_names: NotRequired[list[str]]
    reading: NotRequired[Reading]


class FindingFile(TypedDict):
    """One thing that was noticed about the data."""

    kind: str
    severity: Literal["caution", "note"]
    sentence: str
    numbers: dict[str, Any]


class LearnConfig(TypedDict):
    """``config.json`` of ``metasym learn``."""

    command: Literal["learn"]
    experiment: str
    recipe: str
    method: Literal["msr", "maml"]
    data: DataFile
    findings: NotRequired[list[FindingFile]]
    choices: Choices


def read_config(path: Path) -> dict[str, Any]:
    """The config of a run of ``metasym learn``, every field as it may be."""
    return read_json(path, "the config of a run of metasym learn", LearnConfig)
