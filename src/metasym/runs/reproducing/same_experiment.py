"""Whether a file that is there already belongs to the run that is asked for."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from metasym.paper.config import Experiment, Recipe, experiment_from
from metasym.runs.files.result_files import CONFIG, RESULT
from metasym.storage.json_files import read_json
from metasym.types import MetasymError

_FREE = ("device", "threads", "chunk_size", "checkpoint_every", "data")
"""Fields of a recipe that do not change what is computed: a result that differs only in these still counts."""
_MOST_SHOWN = 4
"""Differing fields that an error names; the rest it counts."""


def read_experiment(path: Path) -> Experiment:
    """The experiment in ``config.json`` of ``metasym run``."""
    return experiment_from(read_json(path, "the config of a run"), str(path))


def same_run(stored: dict[str, Any], experiment: Experiment, path: Path) -> None:
    """Refuse the file ``path``, with the config ``stored``, if it belongs to another run than ``experiment``'s.

    The error names what differs, and the run's folder or, for a small result file, the file itself.
    """
    wanted = json.loads(json.dumps(experiment.as_dict()))
    ours, theirs = dict(wanted.pop("recipe")), stored.get("recipe")
    # A field that is missing in the file did not exist when the file was written: it had its default.
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
