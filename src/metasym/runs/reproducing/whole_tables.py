"""A whole table: run every cell that has not been run yet, and collect the results into small files."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from metasym.paper.catalogue import find, names
from metasym.paper.config import Experiment, Recipe
from metasym.runs.cells import Backend, Cell, Where, run_cells
from metasym.runs.files.result_files import read_result
from metasym.runs.reproducing.experiment_run import recipe_flags, run
from metasym.runs.reproducing.same_experiment import same_run
from metasym.storage.atomic import check_inside, make_folder
from metasym.storage.file_names import RESULT
from metasym.storage.json_files import write_json
from metasym.training.progress import ProgressChoice
from metasym.types import MetasymError

TABLES: dict[str, tuple[str, ...]] = {
    "table1": ("translation/*",),
    "table2": ("rotation/*",),
    "table3": ("aug-*",),
    "lrs": ("translation/*/msr-joint-fc",),
    "sizes": ("rotation/*",),
    "figures": ("translation/rank1/large/msr-fc", "rotation/*/msr-conv"),
}
"""Patterns of the names of each table's experiments."""

SIZES = (4, 6, 8, 16, 32)
"""Image sizes of the table ``sizes``: on small images the symmetry pays, on large ones data replaces it."""

USUAL_RECIPES = {"sizes": ("best",)}
"""The recipes of a table where none are asked for; elsewhere the paper's."""

USUAL_SEEDS = {"table3": (0,), "figures": (0,)}
"""The seeds of a table where none are asked for; elsewhere three."""

_ONE_TASK = {
    "outer_steps": 20,
    "tasks_per_step": 1,
    "queries": 1,
    "test_tasks": 10,
    "test_queries": 1,
    "validate_every": 0,
    "choose_inner_steps": 0,
}
QUICK: dict[str, dict[str, Any]] = {
    "translation": {"outer_steps": 50, "train_tasks": 64, "test_tasks": 20},
    "rotation": {"outer_steps": 20, "train_tasks": 64, "test_tasks": 16, "image_size": 8},
    "aug-omniglot": _ONE_TASK,
    "aug-miniimagenet": _ONE_TASK,
}
"""What ``--quick`` changes: a smoke test of every cell."""

Note = Callable[[str], None]


def reproduce(
    table: str,
    out: str | os.PathLike[str],
    *,
    results: str | os.PathLike[str] | None = None,
    jobs: int = 1,
    backend: Backend = "threading",
    scheduler: str | None = None,
    quick: bool = False,
    seeds: Sequence[int] = (0, 1, 2),
    recipes: Sequence[str] | None = None,
    only: str | None = None,
    data: str | None = None,
    progress: ProgressChoice = "auto",
    note: Note = lambda _: None,
) -> list[Path]:
    """Run what is missing of ``table`` and return the small result files, one for each cell and seed.

    Run folders are ``out/recipe/experiment/seed``; the small files go to ``results/table/recipe`` (default
    ``results``, and ``out/results`` with ``quick``). ``only`` is a pattern of experiments' names. With
    ``jobs`` above 1, cells run side by side in processes of one thread each; with ``backend="dask"``, on the workers
    of the cluster whose scheduler has the address ``scheduler``, which see the same folders. A cell that fails does
    not stop the others; one error at the end names those that failed. ``note`` receives each event. A cell whose
    small file is there already counts as run, so that a table can be completed without the other runs' folders.
    ``data`` is the folder of the images that ``table3`` needs.
    """
    wanted = plan(table, quick=quick, seeds=seeds, recipes=recipes, only=only, data=data)
    where = Where(jobs, backend, scheduler)
    base = Path(out)
    target = results_folder(base, results, quick=quick)
    make_folder(base)
    if target.is_relative_to(base):
        check_inside(base, target)
    folders = {run_folder(base, experiment, quick=quick): experiment for experiment in wanted}
    for folder in folders:
        check_inside(base, folder)
    missing = _missing(table, folders, target)
    note(f"{table}: {len(folders)} runs, {len(folders) - len(missing)} of them finished before")
    failed = _run_beside(missing, where, note) if where.beside else _run_here(missing, progress, note)
    written = []
    for folder, experiment in folders.items():
        if folder not in failed:
            written.append(_collect(folder, experiment, target, table))
    if failed:
        first = next(iter(failed))
        raise MetasymError(
            f"expected {len(folders)} results, found {len(failed)} runs that failed, first {first}: {failed[first]}",
            about=str(first),
            found=len(failed),
        )
    return written


def commands(
    table: str,
    out: str | os.PathLike[str],
    *,
    results: str | os.PathLike[str] | None = None,
    quick: bool = False,
    **selected: Any,
) -> list[str]:
    """A line for a shell for each cell that has not been run yet, for the job arrays of a cluster.

    :func:`reproduce` with the same arguments then collects what they have written.
    """
    wanted = plan(table, quick=quick, **selected)
    folders = {run_folder(Path(out), experiment, quick=quick): experiment for experiment in wanted}
    missing = _missing(table, folders, results_folder(Path(out), results, quick=quick))
    return [shlex.join(_cell(*one).command) for one in missing.items()]


def _missing(table: str, folders: dict[Path, Experiment], target: Path) -> dict[Path, Experiment]:
    """What has not been run yet."""
    return {
        folder: experiment
        for folder, experiment in folders.items()
        if not (folder / RESULT).exists() and (table == "figures" or kept(experiment, target) is None)
    }


def plan(
    table: str,
    *,
    quick: bool = False,
    seeds: Sequence[int] = (0, 1, 2),
    recipes: Sequence[str] | None = None,
    only: str | None = None,
    data: str | None = None,
) -> list[Experiment]:
    """The experiments of ``table``, one for each cell, recipe and seed (``sizes``: and image size)."""
    if table not in TABLES:
        raise MetasymError(
            f"expected one of {', '.join(TABLES)}, found {table!r}", about="table", found=table
        )
    chosen = [name for pattern in TABLES[table] for name in names(pattern)]
    if only is not None:
        matching = set(names(only))
        chosen = [name for name in chosen if name in matching]
    if not chosen:
        raise MetasymError(
            f"expected a pattern that matches experiments of {table}, found {only!r}",
            about="only",
            found=only,
        )
    sizes: list[dict[str, Any]] = [{"image_size": size} for size in SIZES] if table == "sizes" else [{}]
    found = []
    for recipe in recipes or USUAL_RECIPES.get(table, ("paper",)):
        for name, size in itertools.product(chosen, sizes):
            changes = dict(QUICK[name.partition("/")[0]]) if quick else {}
            if data is not None:
                changes["data"] = data
            if quick and name.endswith("/mtsr-fc"):
                changes["test_inner_steps"] = changes["outer_steps"]
            if quick and find(name, recipe).recipe.find_steps:
                changes["find_steps"] = changes["outer_steps"]
            found += [find(name, recipe, **{**changes, **size}, seed=seed) for seed in seeds]
    return found


def run_folder(base: Path, experiment: Experiment, *, quick: bool = False) -> Path:
    """The folder of one run below ``base``."""
    return base / recipe_folder(experiment.recipe_name, quick=quick) / experiment.name / _variant(experiment)


def recipe_folder(recipe: str, *, quick: bool) -> str:
    """The name of the folder of a recipe's runs: those of ``--quick`` have one of their own."""
    return f"{recipe}-quick" if quick else recipe


def _run_here(missing: dict[Path, Experiment], progress: ProgressChoice, note: Note) -> dict[Path, str]:
    failed = {}
    for number, (folder, experiment) in enumerate(missing.items(), start=1):
        note(f"[{number}/{len(missing)}] {experiment.name} ({_label(experiment)})")
        try:
            found = run(experiment, folder, resume=True, progress=progress)
            note(_summary(found))
        except MetasymError as error:
            failed[folder] = str(error)
            note(f"  failed: {error}")
    return failed


def _run_beside(missing: dict[Path, Experiment], where: Where, note: Note) -> dict[Path, str]:
    failed: dict[Path, str] = {}
    folders, ended = list(missing), itertools.count(1)

    def done(number: int, error: str | None) -> None:
        folder = folders[number]
        experiment = missing[folder]
        note(f"[{next(ended)}/{len(missing)}] {experiment.name} ({_label(experiment)})")
        if error is None:
            note(_summary(read_result(folder / RESULT)))
        else:
            failed[folder] = error
            note(f"  failed: {error}")

    run_cells([_cell(folder, experiment) for folder, experiment in missing.items()], where, done)
    return failed


def _cell(folder: Path, experiment: Experiment) -> Cell:
    head = ("run", experiment.name, "--out", str(folder), "--resume")
    flags = (*recipe_flags(experiment), "--threads", "1", "--progress", "silent")
    return Cell("metasym", (*head, *flags), folder)


def _collect(folder: Path, experiment: Experiment, results: Path, table: str) -> Path:
    """The small file of a finished run: its result with the per-task scores rounded.

    Where the run's folder is gone (the small files are kept in the repository, the folders are not), the
    small file that is there is used.
    """
    path = results / table / _small_file(experiment)
    check_inside(results, path.parent)
    if (folder / RESULT).exists():
        found = read_result(folder / RESULT)
        same_run(found.get("config", {}), experiment, folder / RESULT)
        found["per_task"] = [float(f"{value:.6g}") for value in found["per_task"]]
        found["config"]["recipe"]["data"] = None  # a place on this machine
        write_json(path, found)
    elif not path.exists():
        other = kept(experiment, results)
        assert other is not None  # reproduce has looked
        write_json(path, read_result(other))
    return path


def results_folder(base: Path, results: str | os.PathLike[str] | None, *, quick: bool) -> Path:
    """The folder of the small result files: the one that is given, or the usual one."""
    if results is not None:
        return Path(results)
    return base / "results" if quick else Path("results")


def kept(experiment: Experiment, results: Path) -> Path | None:
    """The small file of exactly this experiment, in the folder of any table."""
    for path in sorted(results.glob(f"*/{_small_file(experiment)}")):
        same_run(read_result(path).get("config", {}), experiment, path)
        return path
    return None


def _small_file(experiment: Experiment) -> str:
    return f"{experiment.recipe_name}/{experiment.name.replace('/', '-')}-{_variant(experiment)}.json"


def _variant(experiment: Experiment) -> str:
    """What distinguishes runs of one cell and recipe: the seed, and an unusual image size."""
    size = experiment.recipe.image_size
    usual = Recipe().image_size
    return f"seed{experiment.recipe.seed}" if size == usual else f"size{size}-seed{experiment.recipe.seed}"


def _label(experiment: Experiment) -> str:
    return f"recipe {experiment.recipe_name}, {_variant(experiment)}"


def _summary(found: dict[str, Any]) -> str:
    rate = found.get("outer_steps_per_second")
    speed = "" if rate is None else f", {rate:.1f} steps/s"
    return f"  {score_line(found)}, {found['seconds']:.0f} s{speed}"


def score_line(found: dict[str, Any]) -> str:
    """The score of a result, in a few words."""
    unit, digits = (100, 1) if found["metric"] == "accuracy" else (1, 4)
    # A single task has no interval.
    beside = "" if len(found["per_task"]) == 1 else f" ± {unit * found['ci95']:.{digits}f}"
    if found["metric"] == "accuracy":
        return f"accuracy {unit * found['mean']:.{digits}f}{beside} %"
    return (
        f"mse {found['mean']:.{digits}f}{beside}, median {found['median']:.4f}, "
        f"{found['diverged']} of {len(found['per_task'])} tasks diverged"
    )
