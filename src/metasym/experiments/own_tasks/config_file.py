"""What ``config.json`` of ``metasym learn`` may hold, and the command line that makes such a run."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from metasym.diagnosis.findings import Diagnosis
from metasym.experiments.own_tasks.options import Choices, Options
from metasym.storage.described import Count
from metasym.storage.json_files import read_json
from metasym.tasks.task_file import Reading, TaskFile
from metasym.types import MetasymError

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


def check_same(stored: dict[str, Any], wanted: dict[str, Any], folder: Path) -> None:
    """Refuse the folder of another run, naming the first difference."""
    plain = json.loads(json.dumps(wanted))
    pairs = [(key, plain[key], stored.get(key)) for key in ("command", "method")]
    ours, theirs = plain["data"], stored.get("data")
    theirs = theirs if isinstance(theirs, dict) else {}
    pairs += [
        (key, ours[key], theirs.get(key)) for key in ours if key != "path"
    ]  # a file may have been moved
    chosen = stored.get("choices")
    chosen = chosen if isinstance(chosen, dict) else {}
    pairs += [(key, value, chosen.get(key)) for key, value in plain["choices"].items()]
    for key, expected, found in pairs:
        if expected != found:
            raise MetasymError(
                f"{folder}: expected an empty folder or a run with {key} {expected!r}, found one with {found!r}"
            )


def command(file: TaskFile, options: Options) -> str:
    """The command line of a run."""
    parts = ["metasym", COMMAND, str(file.path), "--out", "DIR"]
    usual = Options()
    wishes = {f.name: v for f in fields(Options) if (v := getattr(options, f.name)) != getattr(usual, f.name)}
    for name, value in {**file.reading.changed(), **wishes}.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            parts.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            parts += [f"--{flag}", str(value)]
    return shlex.join(parts)
