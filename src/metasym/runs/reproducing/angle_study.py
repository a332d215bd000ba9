"""How a trained run of Table 3 treats turned query images: which invariance it has learned.

The run adapts to each test task's support images, as they are, and is then asked about the same query images in
several ways: as they are, augmented as in training, and turned by one fixed angle, with and without flips.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from torch import Tensor

from metasym.learners.base import accuracy
from metasym.paper.image_problem import ImageProblem
from metasym.runs.files.result_files import read_result
from metasym.runs.machine import commit
from metasym.runs.reproducing.experiment_run import load_run
from metasym.runs.reproducing.same_experiment import read_experiment
from metasym.runs.reproducing.scoring import test_seed
from metasym.storage.atomic import make_inside
from metasym.storage.described import Count, Number, Score, Seed
from metasym.storage.file_names import ANGLES, RESULT
from metasym.storage.json_files import read_json, write_json
from metasym.tasks.augment import rotate
from metasym.tasks.sampling import mix, sample, seeded
from metasym.training.task_scores import summarise
from metasym.types import Batch, MetasymError

DEGREES = tuple(range(0, 181, 15))
_FLIPS = 23

Note = Callable[[int, int], None]


def measure_angles(
    folder: str | os.PathLike[str],
    *,
    tasks: int = 200,
    degrees: Sequence[int] = DEGREES,
    data: str | None = None,
    note: Note = lambda _done, _of: None,
) -> dict[str, Any]:
    """Accuracy of the run in ``folder`` on its first ``tasks`` test tasks, for each way of showing the queries.

    Ways: ``plain`` (as they are), ``augmented`` (the very images of the run's own test), and for each of
    ``degrees``, counter-clockwise, ``turned`` and ``flipped``: turned after both flips at random, as in the paper's
    augmentation. The result has the mean, its 95 % interval, the accuracy on each task, and a digest of the images,
    by which runs on the same tasks are recognised. ``data`` is the folder of the images, if it is not the one used in
    training. ``note`` receives how many tasks are done.
    """
    experiment, problem, learner = load_run(folder, data=data)
    if not isinstance(problem, ImageProblem):
        raise MetasymError(
            f"{folder}: expected a run of Table 3, found {experiment.name}",
            about=str(folder),
            found=experiment.name,
        )
    trained = read_result(Path(folder) / RESULT)
    count = min(tasks, len(problem.test))
    found: dict[str, list[float]] = {}
    episodes = hashlib.sha256()
    for index in range(count):
        ids, seed = torch.tensor([index]), test_seed(experiment)
        plain, augmented = sample(problem.plain_test, ids, seed), sample(problem.test, ids, seed)
        episodes.update(plain.support.x.numpy().tobytes() + plain.query.x.numpy().tobytes())
        adapted = learner.adapt(Batch(plain.support.x[0], plain.support.y[0]))
        generator = seeded(int(mix(seed, _FLIPS, index)))
        with torch.no_grad():
            ways = _ways(plain.query.x[0], augmented.query.x[0], degrees, generator)
            for way, images in ways:
                right = accuracy(adapted(images), plain.query.y[0])
                found.setdefault(way, []).append(float(right))
        note(index + 1, count)
    return {
        "experiment": experiment.name,
        "command": f"metasym angles RUN --tasks {tasks}",
        "commit": commit(),
        "recipe": experiment.recipe_name,
        "seed": experiment.recipe.seed,
        "outer_steps": trained["outer_steps"],
        "tasks": count,
        "queries": experiment.recipe.test_queries,
        "episodes": episodes.hexdigest()[:16],
        "degrees": list(degrees),
        "scores": {way: _score(values) for way, values in found.items()},
    }


class AngleScores(TypedDict):
    """Accuracies for one way of showing the queries."""

    mean: Number
    ci95: Score
    per_task: list[Number]


class AnglesFile(TypedDict):
    """What ``metasym angles`` writes."""

    experiment: str
    recipe: str
    seed: Seed
    outer_steps: Count
    tasks: Count
    queries: Count
    episodes: str
    degrees: list[int]
    scores: dict[str, AngleScores]


def angles_file(found: dict[str, Any], folder: Path) -> Path:
    """Write what :func:`measure_angles` has found into the folder ``angles`` inside ``folder``."""
    path = make_inside(folder, ANGLES) / _name(found["recipe"], found["experiment"], found["seed"])
    write_json(path, found)
    return path


def check_names(folders: Sequence[Path]) -> None:
    """Refuse runs whose files would have the same name: the second would replace the first."""
    names: dict[str, Path] = {}
    for folder in folders:
        experiment = read_experiment(folder)
        name = _name(experiment.recipe_name, experiment.name, experiment.recipe.seed)
        if name in names:
            raise MetasymError(
                f"expected runs of different cells, recipes or seeds, found {names[name]} and {folder}, both {name}",
                about=name,
                found=(str(names[name]), str(folder)),
            )
        names[name] = folder


def _name(recipe: str, experiment: str, seed: int) -> str:
    return f"{recipe}-{experiment.replace('/', '-')}-seed{seed}.json"


def read_angles(path: Path) -> dict[str, Any]:
    """What :func:`angles_file` has written."""
    found = read_json(path, "a file of metasym angles", AnglesFile)
    for way in (
        "plain",
        "augmented",
        *(f"{kind} {d}" for kind in ("turned", "flipped") for d in found["degrees"]),
    ):
        if way not in found["scores"]:
            raise MetasymError(f"{path}: expected scores.{way}, found none", about=f"{path}: scores.{way}")
    return found


def _ways(
    images: Tensor, augmented: Tensor, degrees: Sequence[int], generator: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    yield "plain", images
    yield "augmented", augmented
    upside, across = torch.rand(2, len(images), 1, 1, 1, generator=generator) < 0.5
    flipped = torch.where(upside, images.flip(-2), images)
    flipped = torch.where(across, flipped.flip(-1), flipped)
    for angle in degrees:
        turn = torch.full((len(images),), float(angle))
        yield f"turned {angle}", rotate(images, turn)
        yield f"flipped {angle}", rotate(flipped, turn)


def _score(values: list[float]) -> dict[str, Any]:
    score = summarise(np.asarray(values, dtype=np.float64), "accuracy")
    return {
        "mean": score.mean,
        "ci95": score.ci95,
        "per_task": [float(f"{value:.4g}") for value in values],
    }
