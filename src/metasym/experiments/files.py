"""The JSON files of runs and results: written atomically, checked when they are read."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

from metasym.experiments.paper.config import Experiment, Recipe
from metasym.storage.atomic import write_atomically
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
_FREE = ("device", "threads", "chunk_size", "checkpoint_every", "data")
"""Fields of a recipe that do not say what is computed: a result with others is still this one's."""
_MOST_SHOWN = 4
"""Differing fields that an error names; the rest it counts."""


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Write ``value`` atomically, a line for each key; NaN and infinity, which JSON does not know, as null."""
    make_folder(path.parent)
    lines = [
        f" {json.dumps(key)}: {json.dumps(_finite(item), allow_nan=False)}" for key, item in value.items()
    ]
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode(), what="a JSON file")


def read_json(path: Path, what: str) -> dict[str, Any]:
    """The object in the file, or one line that says why not."""
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise MetasymError(f"{path}: expected {what}, found {error.strerror}") from None
    except (ValueError, RecursionError):
        raise MetasymError(
            f"{path}: expected {what}, found a truncated or corrupted file; move it away to run again"
        ) from None
    if not isinstance(found, dict):
        raise MetasymError(f"{path}: expected {what}, found a {type(found).__name__}")
    return found


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


def same_run(stored: dict[str, Any], experiment: Experiment, path: Path) -> None:
    """Refuse the file ``path``, with the config ``stored``, of another run than ``experiment``'s.

    The error names what differs, and the run's folder or, for a small result file, the file itself.
    """
    wanted = json.loads(json.dumps(experiment.as_dict()))
    ours, theirs = dict(wanted.pop("recipe")), stored.get("recipe")
    # A field that the file does not know yet had the default when it was written.
    theirs = {**dataclasses.asdict(Recipe()), **theirs} if isinstance(theirs, dict) else {}
    pairs = [(key, wanted[key], stored.get(key)) for key in wanted]
    pairs += [(key, ours[key], theirs.get(key)) for key in ours if key not in _FREE]
    differing = [(key, expected, found) for key, expected, found in pairs if expected != found]
    if not differing:
        return
    shown = differing[:_MOST_SHOWN]
    expected = ", ".join(f"{key} {value!r}" for key, value, _ in shown)
    found = ", ".join(f"{value!r}" for _, _, value in shown)
    more = f" ({len(differing) - len(shown)} more fields differ)" if len(differing) > len(shown) else ""
    if path.name in (CONFIG, RESULT):
        raise MetasymError(
            f"{path.parent}: expected an empty folder or a run with {expected}, found one with {found}{more}"
        )
    raise MetasymError(
        f"{path}: expected a result with {expected}, found one with {found}{more}; "
        "move it away to run again, or choose another folder for results"
    )


def make_folder(folder: Path) -> None:
    """Make a folder and those above it, or say in one line why not."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise MetasymError(f"{folder}: expected a folder to write to, found {error.strerror}") from None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
