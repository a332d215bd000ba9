"""How far the runs of a table are, while they run: read from their files, without touching a run."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from metasym.paper.config import Experiment
from metasym.paper.image_cells import setting
from metasym.paper.image_problem import (
    CHOOSING_TASKS,
    PAPER_TEST_TASKS,
    VALIDATION_QUERIES,
    VALIDATION_TASKS,
)
from metasym.paper.synthetic_cells import RECIPES
from metasym.runs import spent_resources as resources
from metasym.runs.files.result_files import read_result
from metasym.runs.reproducing.same_experiment import same_run
from metasym.runs.reproducing.whole_tables import kept, plan, recipe_folder, results_folder, run_folder
from metasym.storage.file_names import CONFIG, FIND, RESULT
from metasym.storage.json_files import read_json
from metasym.storage.locks import is_held
from metasym.training.metrics import NAME, StoredRecord, read_records
from metasym.types import MetasymError

DONE, RUNNING, TESTING, WAITING = "done", "running", "testing", "waiting"
STOPPED, TRAINED, REFUSED = "stopped", "trained", "refused"
"""``stopped``: begun, but no process works on it; ``trained``: the same, with only the test left to do;
``refused``: the folder has another run, or a file that cannot be read."""
_BACKWARD = 3
"""A gradient step takes nearly as long as so many passes of its images through the network."""


@dataclass(frozen=True)
class CellState:
    """How far one cell of a table is."""

    name: str
    recipe: str
    seed: int
    image_size: int | None
    """The image size of a rotation problem; None elsewhere."""
    metric: str
    steps: int
    """Outer steps in all."""
    state: str = WAITING
    step: int = 0
    """Outer steps taken, those of a first stage included."""
    validation: float | None = None
    """The last score on validation tasks, where the recipe has any."""
    validated_at: int | None = None
    """The step of that score."""
    test: float | None = None
    """The mean over the test tasks, once it is known."""
    ci95: float | None = None
    hours: float | None = None
    """Processor time so far, over all starts; what is not noted yet (at most 50 steps) is missing."""
    hours_left: float | None = None
    """Hours until the result, None where there is no rate yet: the steps at the rate since the run was last started,
    which counts validations from the first one on, and the test by what the last validation took."""
    error: str | None = None
    """Why it was refused."""

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        return dataclasses.asdict(self)


def table_status(
    table: str,
    out: str | os.PathLike[str],
    *,
    results: str | os.PathLike[str] | None = None,
    quick: bool = False,
    seeds: Sequence[int] = (0, 1, 2),
    recipes: Sequence[str] | None = None,
    only: str | None = None,
    data: str | None = None,
) -> list[CellState]:
    """The state of every cell that ``reproduce`` with the same arguments would run, in its order.

    Nothing is written, and runs that are training are not disturbed. A folder or a small file that ``reproduce``
    would refuse is a cell of the state ``refused``.
    """
    base = Path(out)
    # Figures are drawn from the folders of runs: for them a small result file does not replace a folder.
    target = None if table == "figures" else results_folder(base, results, quick=quick)
    return [
        cell_state(experiment, run_folder(base, experiment, quick=quick), target)
        for experiment in plan(table, quick=quick, seeds=seeds, recipes=recipes, only=only, data=data)
    ]


def begun(
    table: str,
    out: str | os.PathLike[str],
    *,
    quick: bool = False,
    only: str | None = None,
    data: str | None = None,
) -> list[CellState]:
    """The state of every run of ``table`` that ``out`` has, whatever its recipe and seed."""
    base = Path(out)
    cells = {experiment.name for experiment in plan(table, quick=quick, only=only)}
    found = []
    for recipe in RECIPES:
        below = base / recipe_folder(recipe, quick=quick)
        seeds = {
            int(seed)
            for name in cells
            for run in (below / name).glob("*seed*")
            if (seed := run.name.rpartition("seed")[2]).isdecimal() and (run / CONFIG).exists()
        }
        if seeds:
            there = plan(table, quick=quick, seeds=sorted(seeds), recipes=[recipe], only=only, data=data)
            folders = [(experiment, run_folder(base, experiment, quick=quick)) for experiment in there]
            found += [cell_state(*run, None) for run in folders if (run[1] / CONFIG).exists()]
    return found


def cell_state(experiment: Experiment, folder: Path, results: Path | None) -> CellState:
    """The state of one cell, from the folder of its run and (if they count) the folder of small result files."""
    recipe = experiment.recipe
    known = CellState(
        name=experiment.name,
        recipe=experiment.recipe_name,
        seed=recipe.seed,
        image_size=recipe.image_size if experiment.problem.startswith("rotation/") else None,
        metric=experiment.metric,
        steps=recipe.find_steps + recipe.outer_steps,
    )
    try:
        return _state(known, experiment, folder, results)
    except MetasymError as error:
        return dataclasses.replace(known, state=REFUSED, error=str(error))


def _state(known: CellState, experiment: Experiment, folder: Path, results: Path | None) -> CellState:
    if (folder / CONFIG).exists():
        same_run(read_json(folder / CONFIG, "the config of a run"), experiment, folder / CONFIG)
    if (folder / RESULT).exists():
        found = read_result(folder / RESULT)
        same_run(found.get("config", {}), experiment, folder / RESULT)
        return _done(known, found, experiment.recipe.find_steps)
    small = None if results is None else kept(experiment, results)
    if small is not None:
        return _done(known, read_result(small), experiment.recipe.find_steps)
    return _unfinished(known, experiment, folder)


def _done(known: CellState, found: dict[str, Any], find_steps: int) -> CellState:
    curve = found.get("curve") or {"step": [], "validation": []}
    seconds = found.get("cpu_seconds", found.get("seconds"))
    return dataclasses.replace(
        known,
        state=DONE,
        step=known.steps,
        validation=curve["validation"][-1] if curve["validation"] else None,
        validated_at=find_steps + curve["step"][-1] if curve["step"] else None,
        test=found["mean"],
        ci95=found["ci95"],
        hours=None if seconds is None else seconds / 3600,
        hours_left=0.0,
    )


def _unfinished(known: CellState, experiment: Experiment, folder: Path) -> CellState:
    find_steps = experiment.recipe.find_steps
    held = is_held(folder) or is_held(folder / FIND)
    first = _last(read_records(folder / FIND / NAME).records) if find_steps else None
    records = read_records(folder / NAME).records
    last = _last(records)
    if last is None and first is None and not (held or (folder / CONFIG).exists()):
        return known
    step = find_steps + last["step"] if last else first["step"] if first else 0
    newest = last or first
    rate = newest.get("steps_per_second") if newest else None
    scored = _last([r for r in records if r.get("validation") is not None])
    test = _test_seconds(experiment, None if scored is None else scored.get("validation_seconds"))
    trained = step >= known.steps
    if held and trained:
        test = max(0.0, test - (time.time() - (folder / NAME).stat().st_mtime))
    spent: dict[str, Any] = {}
    if (folder / resources.NAME).exists():
        spent = read_json(folder / resources.NAME, "what a run has cost", resources.SpentFile)
    seconds = spent.get("cpu_seconds")
    return dataclasses.replace(
        known,
        state=(TESTING if trained else RUNNING) if held else TRAINED if trained else STOPPED,
        step=step,
        validation=None if scored is None else scored.get("validation"),
        validated_at=None if scored is None else find_steps + scored["step"],
        hours=None if seconds is None else seconds / 3600,
        hours_left=((known.steps - step) / rate + test) / 3600 if rate else None,
    )


def _test_seconds(experiment: Experiment, validation_seconds: float | None) -> float:
    """What the test will take, by what a validation took; 0 where no validation tells.

    Only Table 3's tests take long. A test has more tasks than a validation, and more queries a class; counted are the
    passes of images through the network (ANIL's and ProtoNets' support images pass once).
    """
    if validation_seconds is None or not experiment.has_classes:
        return 0.0
    recipe, column = experiment.recipe, setting(experiment.problem)

    def work(inner_steps: int, queries: int, tasks: int) -> int:
        support = 1 if experiment.method in ("anil", "protonet") else max(1, _BACKWARD * inner_steps)
        return (support * column.shots + queries) * tasks

    steps = recipe.test_inner_steps
    choosing = sum(
        work(k, VALIDATION_QUERIES, CHOOSING_TASKS) for k in range(1, recipe.choose_inner_steps + 1)
    )
    test = work(steps, recipe.test_queries, recipe.test_tasks or PAPER_TEST_TASKS)
    return validation_seconds * (choosing + test) / work(steps, VALIDATION_QUERIES, VALIDATION_TASKS)


def _last(records: Sequence[StoredRecord]) -> StoredRecord | None:
    return records[-1] if records else None
