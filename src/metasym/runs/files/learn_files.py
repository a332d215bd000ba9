"""What ``config.json`` of ``metasym learn`` may hold, and the command line that makes such a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired, TypedDict

from metasym.diagnosis.findings import Diagnosis
from metasym.runs.files.command_line import command_line, flags
from metasym.runs.files.learn_options import Choices, Options
from metasym.storage.described import Count
from metasym.storage.options import changed
from metasym.tasks.task_file import Columns, Reading, TaskFile

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


class ColumnsFile(TypedDict):
    """The columns of the table that the tasks were read from, by name."""

    task: str
    inputs: list[str]
    outputs: list[str]


class DataFile(TypedDict):
    """The tasks that ``metasym learn`` was given."""

    path: str
    x: ArrayFile
    y: ArrayFile
    classes: Count
    counts: NotRequired[Counts]
    rows: NotRequired[Count]
    input_names: NotRequired[list[str]]
    output_names: NotRequired[list[str]]
    columns: NotRequired[ColumnsFile]
    blocks: NotRequired[Count]
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


def columns_of(data: Mapping[str, Any]) -> Columns | None:
    """The columns of the table that a run with this ``data`` in its config learned from; None of arrays."""
    stored = data.get("columns")
    if stored is None:
        return None
    return Columns(stored["task"], tuple(stored["inputs"]), tuple(stored["outputs"]))


def config_of(file: TaskFile, diagnosis: Diagnosis, choices: Choices, method: str) -> dict[str, Any]:
    """What ``config.json`` holds before training begins: enough to know the run again, and to load it."""
    return {
        "command": COMMAND,
        "experiment": f"{COMMAND}/{file.path.stem}",
        "recipe": COMMAND,
        "method": method,
        "data": file.describe(),
        "findings": diagnosis.as_list(),
        "choices": choices.as_dict(),
    }


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What makes a run the run it is: a file may have been moved, and findings follow from the data."""
    data = {key: value for key, value in config["data"].items() if key != "path"}
    return {"method": config["method"], "data": data, "choices": config["choices"]}


def command(file: TaskFile, options: Options) -> str:
    """The command line of a run."""
    return command_line(COMMAND, str(file.path), flags({**changed(file.reading), **changed(options)}))
