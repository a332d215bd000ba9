"""The demonstration: Proposition 1 in numbers, then convolution learned from data, in about a minute."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F

from metasym import groups
from metasym.learners import Learner
from metasym.paper.catalogue import find
from metasym.report.figures import theoretical_figure
from metasym.report.gauge import diagonal_spread, effective_filter_size
from metasym.report.page import NAME, write
from metasym.runs.reproducing.experiment_run import load_run, run
from metasym.runs.reproducing.run_figures import draw_learner
from metasym.storage.atomic import make_folder
from metasym.symmetry.reparam import symmetries
from metasym.tasks.sampling import sample, seeded
from metasym.tasks.synthetic import WIDTH, Problem
from metasym.testing import equivariance_error
from metasym.types import Batch

if TYPE_CHECKING:
    from rich.table import Table

CONVOLVES = 0.1
"""Weights within this relative distance of convolutions are called so; the demo as it is ends near 0.02."""
_PROBLEM = "translation/rank1/large"
_METHODS = {
    "maml-fc": "fully connected, MAML",
    "maml-conv": "convolution built in, MAML",
    "msr-fc": "fully connected, symmetry learned (MSR)",
}


def demo(out: str | os.PathLike[str], *, seed: int = 0, outer_steps: int = 1000) -> Iterator[str | Table]:
    """Run the demonstration; yields what there is to show, piece by piece; pictures and a page go into ``out``."""
    folder = Path(out)
    make_folder(folder)
    yield from _proposition()
    yield (
        "\n2. Learning convolution from data\n"
        "400 tasks, each a different 1-D convolution, 70 inputs to 68 outputs. A fully connected layer\n"
        "W = U v gets one example of each task. Nothing in it encodes translations."
    )
    scores: dict[str, dict[str, float]] = {}
    drawn = theoretical_figure(folder / "theoretical-U-C4")
    found = ""
    with tempfile.TemporaryDirectory() as runs:
        for label in _METHODS:
            yield f"training {label}, {outer_steps} outer steps ..."
            # One thread: the layers are small, and two threads that wait for each other stall on a busy machine.
            experiment = find(f"{_PROBLEM}/{label}", seed=seed, outer_steps=outer_steps, threads=1)
            place = Path(runs) / label
            result = run(experiment, place, progress="auto")
            scores[label] = {key: result[key] for key in ("mean", "ci95", "median")}
            if label == "msr-fc":
                _, problem, learner = load_run(place)
                assert isinstance(problem, Problem)
                found = _finding(problem, learner)
                drawn += draw_learner(experiment, problem, learner, folder)
        write(Path(runs), folder / NAME, place="metasym demo")
    yield _table(scores)
    yield found
    yield "Pictures: " + ", ".join(str(path) for path in drawn if path.suffix == ".png")
    yield f"A page with all of it, to open in a browser: {folder / NAME}"


def _proposition() -> Iterator[str]:
    """U^G of S_2 and of C_4, and how well the layers they make commute with the group."""
    yield "1. Proposition 1: a symmetry matrix U makes every weight vec(W) = U v equivariant"
    swap = groups.symmetric(2)
    U = groups.symmetry_matrix(swap)
    yield f"U of S_2, the swap of two entries (blocks pi(e), pi(g)):\n{_matrix(U)}"
    v = torch.tensor([3.0, 5.0], dtype=U.dtype)
    yield f"with the filter v = (3, 5) it makes the weight\n{_matrix((U @ v).reshape(2, 2))}"
    turns = groups.image_rotations(3, order=4)
    filters = torch.randn(9, dtype=torch.float64, generator=seeded(0))
    for name, group, entries in (("S_2", swap, v), ("C_4 on 3 x 3 pixels", turns, filters)):
        W = (groups.symmetry_matrix(group) @ entries).reshape(group.order, group.degree)
        x = torch.randn(16, group.degree, dtype=torch.float64, generator=seeded(1))
        random = torch.randn(W.shape, dtype=torch.float64, generator=seeded(2))
        error, other = (
            equivariance_error(partial(F.linear, weight=weight), x, group, group.regular())
            for weight in (W, random)
        )
        yield (
            f"{name}: equivariance error {float(error.max()):.0e}; of a random weight {float(other.max()):.1f}"
        )


def _finding(problem: Problem, learner: Learner) -> str:
    """What was learned, in a sentence."""
    (symmetry,) = symmetries(learner.model).values()
    U = symmetry.matrix()
    episodes = sample(problem.test, torch.arange(len(problem.test)), 0)
    spreads = []
    for i in range(min(20, episodes.count)):
        weight = learner.adapt(Batch(episodes.support.x[i], episodes.support.y[i])).weight
        assert isinstance(weight, torch.Tensor)
        spreads.append(diagonal_spread(weight, WIDTH))
    values = torch.linalg.svdvals(U.detach())
    used = effective_filter_size(U)
    rest = f", then {float(values[used]):.1f}" if used < len(values) else ""
    distance = sorted(spreads)[len(spreads) // 2]
    return (
        f"Found: U uses {used} of its {U.shape[1]} filter entries (singular values "
        f"{', '.join(f'{float(s):.1f}' for s in values[:used])}{rest}), and the "
        f"weights it produces for new tasks are within {distance:.0%} of convolutions of width {WIDTH}: "
        f"{conclusion(distance)}."
    )


def conclusion(distance: float) -> str:
    """Return what a relative distance from convolutions means: 0 is a convolution, about 1 is unrelated."""
    if distance <= CONVOLVES:
        return "it has learned to convolve"
    return "it has not learned to convolve; try more --outer-steps"


def _table(scores: dict[str, dict[str, float]]) -> Table:
    from rich.table import Table

    table = Table(title="Mean squared error on 100 new tasks, one example each", title_justify="left")
    table.add_column("network and method")
    for column in ("mean", "95 % interval", "median"):
        table.add_column(column, justify="right")
    for label, text in _METHODS.items():
        s = scores[label]
        table.add_row(text, f"{s['mean']:.4f}", f"± {s['ci95']:.4f}", f"{s['median']:.4f}")
    return table


def _matrix(values: torch.Tensor) -> str:
    return "\n".join("   " + " ".join(f"{float(v):2g}" for v in row) for row in values)
