"""What ``config.json`` of ``metasym learn`` may hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypedDict

from metasym.experiments.own_tasks.options import Choices
from metasym.storage.described import Count
from metasym.storage.json_files import read_json

COMMAND = "learn"


class ArrayFile(TypedDict):
    """One array of the tasks that ``metasym learn`` was given."""

    shape: list[Count]
    dtype: str
    crc32: Count


class DataFile(TypedDict):
    """The tasks that ``metasym learn`` was given."""

    path: str
    x: ArrayFile
    y: ArrayFile
    classes: Count


class LearnConfig(TypedDict):
    """``config.json`` of ``metasym learn``."""

    command: Literal["learn"]
    experiment: str
    recipe: str
    method: Literal["msr", "maml"]
    data: DataFile
    choices: Choices


def read_config(path: Path) -> dict[str, Any]:
    """The config of a run of ``metasym learn``, every field as it may be."""
    return read_json(path, "the config of a run of metasym learn", LearnConfig)
