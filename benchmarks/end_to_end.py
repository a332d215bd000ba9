"""What a user waits for: whole steps of ``ms.train``, with sampling, beside the same without one fast path.

Each row of docs/performance.md has its cell here, set up as ``metasym run`` sets itself up. A fast path is switched
off in place; the runs with and without it advance in turns, and the least processor time of all rounds counts. A path
stays where a whole run takes at least ``EARNS`` times as long without it, or where a target of the table needs it.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

import metasym as ms
from metasym.cli.freed_memory import keep_freed_memory
from metasym.engines.convolution.convolution_engine import ConvolutionEngine
from metasym.engines.engine import Engine
from metasym.paper.build import build_learner, build_problem
from metasym.paper.catalogue import find
from metasym.types import Record, Tasks

Say = Callable[[str], None]
EARNS = 1.15
WITH_ALL = "all"


def _no(*_: object) -> bool:
    return False


def _none(*_: object) -> None:
    return None


WITHOUT: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    WITH_ALL: contextlib.nullcontext,
    "filter_steps.cpp": lambda: mock.patch("metasym.engines.dense.closed_form.can_step", _no),
    "episodes made ahead": lambda: mock.patch("metasym.training.episodes._AHEAD", 1),
    "gradient of moments by hand": lambda: mock.patch.object(ConvolutionEngine, "gradient", Engine.gradient),
    "random_images.cpp": lambda: mock.patch.multiple(
        "metasym.tasks.random_images", _kernels=_none, library=_none
    ),
    "winograd.cpp": lambda: mock.patch("metasym.engines.layerwise.estimates.can_filter", _no),
}
"""What can be switched off, by name."""


@dataclass(frozen=True)
class Cell:
    """The cell of a row: an experiment, what of its recipe is changed, and the fast paths that serve it."""

    name: str
    paths: tuple[str, ...] = ()
    recipe: str = "paper"
    changes: Mapping[str, Any] = field(default_factory=dict)
    steps: int = 20
    """How many are timed in a round."""


_FC = "translation/rank1/small/msr-fc"
_OMNIGLOT = {"queries": 15, "tasks_per_step": 16}

CELLS: dict[str, Cell] = {
    "msr-fc": Cell(_FC, ("filter_steps.cpp", "episodes made ahead"), steps=60),
    "msr-fc-k3": Cell(
        _FC, ("filter_steps.cpp", "episodes made ahead"), changes={"filter_size": 3}, steps=150
    ),
    "msr-joint-fc": Cell("translation/rank1/small/msr-joint-fc", ("episodes made ahead",), steps=30),
    "msr-conv": Cell(
        "rotation/rot45/msr-conv", ("gradient of moments by hand", "random_images.cpp"), steps=10
    ),
    "omniglot-msr": Cell("aug-omniglot/5way-1shot/msr", ("winograd.cpp",), changes=_OMNIGLOT, steps=1),
    "omniglot-maml": Cell("aug-omniglot/5way-1shot/maml", changes=_OMNIGLOT, steps=1),
    "msr-over-maml-q5": Cell("aug-omniglot/5way-1shot/msr", changes={**_OMNIGLOT, "queries": 5}, steps=1),
    "omniglot-20way": Cell(
        "aug-omniglot/20way-1shot/msr", changes={"queries": 5, "tasks_per_step": 8}, steps=1
    ),
    "miniimagenet-msr": Cell(
        "aug-miniimagenet/5way-1shot/msr", changes={"queries": 15, "tasks_per_step": 4}, steps=1
    ),
    "miniimagenet-5shot": Cell(
        "aug-miniimagenet/5way-5shot/msr",
        ("winograd.cpp",),
        changes={"queries": 5, "tasks_per_step": 1},
        steps=1,
    ),
}
"""By the names of the rows (see ``workloads.ROWS``); the last one, with kernels of 5 x 5, is here alone."""


class Timed:
    """Tasks that add up the processor seconds spent on making episodes."""

    def __init__(self, tasks: Tasks) -> None:
        self.tasks, self.seconds = tasks, 0.0

    def __len__(self) -> int:
        return len(self.tasks)

    def episode(self, index: int, generator: torch.Generator) -> ms.Episode:
        """One episode, not timed."""
        return self.tasks.episode(index, generator)

    def episodes(self, ids: torch.Tensor, seeds: torch.Tensor) -> ms.Episode:
        """Many episodes, timed."""
        began = time.process_time()
        found: ms.Episode = self.tasks.episodes(ids, seeds)  # type: ignore[attr-defined]
        self.seconds += time.process_time() - began
        return found


def measure(row: str, *, rounds: int, data: str | None, say: Say) -> dict[str, Any]:
    """Milliseconds of a whole step with everything, and without each fast path of the row's cell."""
    torch.set_num_threads(1)
    keep_freed_memory()
    cell = CELLS[row]
    ways = [WITH_ALL, *cell.paths]
    runs = {}
    for way in ways:
        with WITHOUT[way]():
            runs[way] = _begin(cell, data)
    took: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(rounds):
        for way in ways:
            with WITHOUT[way]():
                began = time.process_time()
                for _ in range(cell.steps):
                    next(runs[way])
                took[way].append(1e3 * (time.process_time() - began) / cell.steps)
    whole = min(took[WITH_ALL])
    found = {
        "row": row,
        "experiment": cell.name,
        "milliseconds": whole,
        "sampling_milliseconds": _sampling(cell, data, rounds),
        "times_as_long_without": {way: min(took[way]) / whole for way in cell.paths},
        "rounds": rounds,
        "load": os.getloadavg()[0],
    }
    without = ", ".join(f"{ratio:.2f} without {way}" for way, ratio in found["times_as_long_without"].items())
    say(
        f"{row}: {whole:.4g} ms a step with sampling ({found['sampling_milliseconds']:.3g} of it); {without or '-'}"
    )
    return found


def _begin(cell: Cell, data: str | None, tasks: Callable[[Tasks], Tasks] = lambda t: t) -> Iterator[Record]:
    """A run of the cell, three steps old."""
    place = {"data": data} if data else {}
    experiment = find(cell.name, cell.recipe, **cell.changes, **place)
    problem = build_problem(experiment)
    recipe = experiment.recipe
    records = ms.train(
        build_learner(experiment, problem, len(problem.train)),
        tasks(problem.train),
        outer_steps=10**9,
        tasks_per_step=recipe.tasks_per_step,
        outer_lr=recipe.outer_lr,
        progress="silent",
    )
    for _ in range(3 if cell.steps > 1 else 1):
        next(records)
    return records


def _sampling(cell: Cell, data: str | None, rounds: int) -> float:
    """Milliseconds a step of making episodes, one step at a time, in a run of its own."""
    made: list[Timed] = []

    def timed(tasks: Tasks) -> Timed:
        made.append(Timed(tasks))
        return made[0]

    records = _begin(cell, data, timed)
    least = float("inf")
    for _ in range(rounds):
        made[0].seconds = 0.0
        for _ in range(cell.steps):
            next(records)
        least = min(least, made[0].seconds / cell.steps)
    return 1e3 * least
