"""Whether a file that is there already belongs to the run that is asked for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from metasym.paper.config import Experiment, Recipe, experiment_from
from metasym.runs.files.config_files import read_config
from metasym.storage.file_names import CONFIG, RESULT
from metasym.storage.same_run import check_same_run

_FREE = ("device", "threads", "chunk_size", "checkpoint_every", "data")
"""Fields of a recipe that do not change what is computed: a result that differs only in these still counts."""


def read_experiment(folder: Path) -> Experiment:
    """The experiment of the run of ``metasym run`` in ``folder``."""
    return experiment_from(read_config(folder, "run"), str(folder / CONFIG))


def same_run(stored: dict[str, Any], experiment: Experiment, path: Path) -> None:
    """Refuse the file ``path``, with the config ``stored``, if it belongs to another run than ``experiment``'s.

    The error names what differs, and the run's folder or, for a small result file, the file itself.
    """
    theirs = stored.get("recipe")
    # A field that is missing in the file did not exist when the file was written: it had its default.
    recipe = {**dataclasses.asdict(Recipe()), **theirs} if isinstance(theirs, dict) else {}
    wanted = {**experiment.as_dict(), "recipe": _computed(experiment.as_dict()["recipe"])}
    found = {**{key: stored.get(key) for key in wanted}, "recipe": _computed(recipe)}
    if path.name in (CONFIG, RESULT):
        check_same_run(wanted, found, str(path.parent))
    else:
        remedy = "; move it away to run again, or choose another folder for results"
        check_same_run(wanted, found, str(path), "a result", remedy)


def _computed(recipe: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in recipe.items() if key not in _FREE}
