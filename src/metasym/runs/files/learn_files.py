"""What ``config.json`` of ``metasym learn`` may hold, and the command line that makes such a run."""

from __future__ import annotations

import json
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from metasym.diagnosis.findings import Diagnosis
from metasym.runs.files.learn_options import Choices, Options
from metasym.storage.described import Count
from metasym.storage.json_files import read_json
from metasym.tasks.task_file import Columns, Reading, TaskFile
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
    input_names: NotRequired[list[str]]
    output_names: NotRequired[list[str]]
    columns: NotRequired[ColumnsFile]
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


def columns_of(data: dict[str, Any], where: str) -> Columns | None:
    """The columns of the table that a run with this ``data`` in its config learned from; None of arrays."""
    stored, reading = data.get("columns"), data.get("reading", {})
    if stored is not None:
        return Columns(stored["task"], tuple(stored["inputs"]), tuple(stored["outputs"]))
    if "inputs" not in reading or "outputs" not in reading:
        return None
    # Runs of earlier versions: their names are the columns', unless the user gave others or they are classes.
    sides = []
    for flag, own in (("inputs", False), ("outputs", bool(data["classes"]))):
        names = f"{flag[:-1]}_names"
        words = tuple(word.strip() for word in reading[flag].split(","))
        if names in reading or own:
            if any(sign in word for word in words for sign in "*?["):
                raise MetasymError(
                    f"{where}: expected a run that stores which columns it learned from, found one of an earlier "
                    f"version, with the pattern --{flag} {reading[flag]}: learn again"
                )
            sides.append(words)
        else:
            sides.append(tuple(data[names]))
    return Columns(str(reading["task"]), *sides)


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
    # A file may have been moved, and runs of earlier versions do not name their columns.
    left_out = {"path"} if "columns" in theirs else {"path", "columns"}
    pairs += [(key, ours[key], theirs.get(key)) for key in ours if key not in left_out]
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
