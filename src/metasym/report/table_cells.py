"""The cells of a table: all seeds of one experiment with one recipe, read from small result files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from metasym.paper.catalogue import names
from metasym.paper.synthetic_cells import RECIPES
from metasym.runs.files.result_files import DIVERGED, read_result, result_files
from metasym.training.task_scores import summarise
from metasym.types import MetasymError


@dataclass(frozen=True)
class Cell:
    """All seeds of one experiment with one recipe."""

    name: str
    recipe: str
    seeds: tuple[int, ...]
    mean: float
    """The mean over all test tasks of all seeds."""
    ci95: float
    """The 95 % interval of that mean, over the tasks of all seeds."""
    lowest: float
    """The lowest of the seeds' means."""
    highest: float
    """The highest of the seeds' means."""
    median: float
    diverged: int
    rest: float
    """The mean over the tasks that did not diverge: one task alone cannot dominate it."""
    rest_ci95: float
    tasks: int
    outer_steps: int
    image_size: int
    inner_lrs: dict[str, float]
    """The mean over the seeds."""
    tasks_per_step: int = 0
    hours: float = math.nan
    """Processor time of the longest run, over all its starts."""
    inner_steps: tuple[int, ...] = ()
    """The numbers of inner steps at test, over all seeds; empty where nothing adapts."""
    memory: float = math.nan
    """The memory of the largest run, in MiB."""
    per_task: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """The scores of the test tasks, by seed: runs of the same seed have the same tasks."""


def load_cells(
    folder: Path,
    recipes: Sequence[str] | None = None,
    only: str | None = None,
    seeds: Sequence[int] | None = None,
) -> list[Cell]:
    """The cells in a folder of small result files (and below it), in the order of the catalogue.

    ``recipes``, ``only``, a pattern of experiments' names, and ``seeds`` choose among them.
    """
    groups: dict[tuple[str, str, int], list[dict[str, Any]]] = {}
    wanted = None if only is None else set(names(only))
    for path in result_files(folder):
        found = read_result(path)
        if (
            (recipes and found["recipe"] not in recipes)
            or (wanted is not None and found["experiment"] not in wanted)
            or (seeds is not None and found["seed"] not in seeds)
        ):
            continue
        groups.setdefault((found["recipe"], found["experiment"], _image_size(found)), []).append(found)
    if not groups:
        which = "".join(
            [
                f" of {' and '.join(recipes)}" if recipes else "",
                f" for {only}" if only else "",
                f" with seed {' or '.join(map(str, seeds))}" if seeds else "",
            ]
        )
        raise MetasymError(f"{folder}: expected result files{which}, found none", about=str(folder), found=0)
    order = {name: i for i, name in enumerate(names())}
    keys = sorted(groups, key=lambda key: (_place(key[0]), order.get(key[1], len(order)), key[2]))
    return [pool(groups[key]) for key in keys]


def pool(results: Sequence[dict[str, Any]]) -> Cell:
    """One cell from the results of its seeds."""
    first = results[0]
    tasks = np.concatenate([np.asarray(r["per_task"], dtype=np.float64) for r in results])
    means = [float(np.mean(r["per_task"])) for r in results]
    score = summarise(tasks)
    bounds = [DIVERGED * r.get("target_mean_square", math.inf) for r in results]
    limit = np.repeat(bounds, [len(r["per_task"]) for r in results])
    rest = tasks[np.isfinite(tasks) & (tasks <= limit)]
    others = summarise(rest) if len(rest) else score
    rates = {
        key: float(np.mean([r["inner_lrs"][key] for r in results if r["inner_lrs"].get(key) is not None]))
        for key in first["inner_lrs"]
    }
    return Cell(
        name=first["experiment"],
        recipe=first["recipe"],
        seeds=tuple(sorted(r["seed"] for r in results)),
        mean=score.mean,
        ci95=score.ci95,
        lowest=float(np.nanmin([*means, math.inf])),
        highest=float(np.max(means)),  # NaN where one of them is
        median=score.median,
        diverged=sum(r["diverged"] for r in results),
        rest=others.mean,
        rest_ci95=others.ci95,
        tasks=len(tasks),
        outer_steps=first["outer_steps"],
        image_size=_image_size(first),
        inner_lrs=rates,
        tasks_per_step=first["config"]["recipe"].get("tasks_per_step", 0),
        hours=max(float(r.get("cpu_seconds", r.get("seconds", math.nan))) for r in results) / 3600,
        inner_steps=tuple(sorted({steps for r in results if (steps := _test_steps(r)) is not None})),
        memory=max(float(r.get("peak_memory_mb", math.nan)) for r in results),
        per_task={r["seed"]: tuple(r["per_task"]) for r in results},
    )


def _test_steps(found: dict[str, Any]) -> int | None:
    """The inner steps of a run's test: those that its validation chose, or its recipe's."""
    if found["method"] == "protonet":
        return None
    chosen = found.get("inner_steps_chosen", found["config"]["recipe"].get("test_inner_steps"))
    return None if chosen is None else int(chosen)


def _place(recipe: str) -> tuple[int, str]:
    """The order of recipes: as the catalogue has them, others behind."""
    return (RECIPES.index(recipe) if recipe in RECIPES else len(RECIPES), recipe)


def _image_size(found: dict[str, Any]) -> int:
    return int(found["config"]["recipe"]["image_size"])
