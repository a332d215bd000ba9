"""Run times by method for the discovery problems: ``ms.discover`` and what others train on the same examples.

A step of ``discover`` is a whole call. Of networks one training step is timed, and multiplied by the steps of the
published training: 3 layers of 384, batches of 500, 900,000 / N epochs but at most 1,000 (Finzi et al., ICML 2021,
``experiments/data_efficiency.py``); LieGAN's generator and discriminator in batches of 64, 100 epochs (Yang et al.,
ICML 2023, the README's command). Networks only predict; of the rivals LieGAN alone looks for a symmetry.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

import metasym as ms
from benchmarks.runner import machine, worker

Step = Callable[[], float]
Examples = tuple[NDArray[Any], NDArray[Any]]
_WIDTH, _DISCRIMINATOR = 384, 512


@dataclass(frozen=True)
class Problem:
    """What is discovered in: examples (imported when they are needed), and the keywords of ``ms.discover``."""

    title: str
    examples: Callable[[], Examples]
    keywords: dict[str, bool]
    rivals: tuple[str, ...] = ()


def _o5() -> Examples:
    from studies.known_functions import o5

    found = o5(300)(0)
    return found.x, found.y


def _polynomial(name: str) -> Callable[[], Examples]:
    def make() -> Examples:
        from studies.known_polynomials import POLYNOMIALS

        found = POLYNOMIALS[name](0)
        return found.x, found.y

    return make


def _two_bodies() -> Examples:
    from studies.two_bodies import pairs

    return pairs(np.random.default_rng([0, 41]), 250, 1000)


def _moments() -> Examples:
    from studies.discover_finite import MOMENTS

    found = MOMENTS["moments"](0)
    return found.x, found.y


def _labelled(name: str) -> Callable[[], Examples]:
    def make() -> Examples:
        from studies.classified import LABELLED

        found = LABELLED[name](0)
        return found.x, found.y

    return make


def _points() -> Examples:
    from studies.discover import FAMILIES

    return FAMILIES["points-Z_8"](0)[:2]


_CONTINUOUS, _FINITE = {"finite": False}, {"continuous": False}
PROBLEMS = {
    "o5": Problem("O(5), N = 300", _o5, _CONTINUOUS, ("MLP",)),
    "inertia": Problem("moments of inertia, N = 1,000", _polynomial("inertia"), _CONTINUOUS, ("MLP",)),
    "lorentz": Problem("Lorentz, N = 1,000", _polynomial("lorentz"), _CONTINUOUS, ("MLP",)),
    "two-bodies": Problem("two bodies, N = 1,000", _two_bodies, _CONTINUOUS, ("MLP", "LieGAN")),
    "moments": Problem("S_5 x S_3 of moments of inertia, N = 1,000", _moments, _FINITE, ("MLP",)),
    "boards": Problem("D_4 of tic-tac-toe, 1,800 positions", _labelled("boards"), _FINITE),
    "digits": Problem("flips of digits, 1,797 images", _labelled("digits-flipped"), _FINITE),
    "points": Problem("Z_8 of 8 points, 200 tasks of 40", _points, {}),
}


def trained_steps(method: str, examples: int) -> int:
    """How many steps the published training has."""
    if method == "MLP":
        return min(900_000 // examples, 1000) * math.ceil(examples / 500)
    return {"discover": 1, "LieGAN": 100 * math.ceil(examples / 64)}[method]


def step_of(name: str) -> Step:
    """``PROBLEM/METHOD``: a step of the method on the problem's examples."""
    problem, method = name.split("/")
    x, y = PROBLEMS[problem].examples()
    if method == "discover":
        keywords: Any = PROBLEMS[problem].keywords
        return lambda: float(len(ms.discover(x, y, seed=0, **keywords).symmetries))
    a, b = (torch.tensor(part, dtype=torch.float32).reshape(len(x), -1) for part in (x, y))
    return {"MLP": _network, "LieGAN": _liegan}[method](a, b)


def _network(x: Tensor, y: Tensor) -> Step:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sizes = [x.shape[1], _WIDTH, _WIDTH, _WIDTH]
        hidden = [layer for a, b in itertools.pairwise(sizes) for layer in (nn.Linear(a, b), nn.SiLU())]
        model = nn.Sequential(*hidden, nn.Linear(_WIDTH, y.shape[1]))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, fused=True)
    g = torch.Generator().manual_seed(0)

    def step() -> float:
        batch = torch.randperm(len(x), generator=g)[:500]
        loss = F.mse_loss(model(x[batch]), y[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _liegan(x: Tensor, y: Tensor) -> Step:
    """One generator of ``x`` and ``y``, which have equal dimensions; its blocks are not masked."""
    n, g = x.shape[1], torch.Generator().manual_seed(0)
    lie = nn.Parameter(torch.randn(n, n, generator=g) * (2 / n) ** 0.5)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        discriminator = nn.Sequential(
            nn.Linear(2 * n, _DISCRIMINATOR), nn.LeakyReLU(0.2),
            nn.Linear(_DISCRIMINATOR, _DISCRIMINATOR), nn.LeakyReLU(0.2),
            nn.Linear(_DISCRIMINATOR, 1),
        )  # fmt: skip
    moving = torch.optim.Adam([lie], lr=1e-3, betas=(0.5, 0.999))
    judging = torch.optim.Adam(discriminator.parameters(), lr=2e-4, fused=True)

    def judged(pairs: Tensor, real: float) -> Tensor:
        said = discriminator(pairs)
        return F.binary_cross_entropy_with_logits(said, torch.full_like(said, real))

    def step() -> float:
        batch = torch.randint(len(x), (64,), generator=g)
        a, b = x[batch], y[batch]
        turns = torch.matrix_exp(torch.randn(64, 1, 1, generator=g) * lie)
        moved = torch.cat([(turns @ part[..., None])[..., 0] for part in (a, b)], 1)
        loss = judged(moved, 1.0) + F.cosine_similarity(moved[:, :n], a).mean().abs()
        moving.zero_grad()
        loss.backward()
        moving.step()
        apart = (judged(torch.cat([a, b], 1), 1.0) + judged(moved.detach(), 0.0)) / 2
        judging.zero_grad()
        apart.backward()
        judging.step()
        return float(apart.detach())

    return step


def run_times(name: str, rounds: int, seconds: float, say: Callable[[str], None]) -> dict[str, Any]:
    """Seconds of one core that every method takes on a problem, in turns, each in a process of its own."""
    problem = PROBLEMS[name]
    methods = ("discover", *problem.rivals)
    examples = len(problem.examples()[0])
    times: dict[str, list[float]] = {method: [] for method in methods}
    with contextlib.ExitStack() as stack:
        workers = {m: stack.enter_context(worker("discovering", f"{name}/{m}")) for m in methods}
        for turn in range(rounds):
            for method in methods:
                done = workers[method].run(0.0 if method == "discover" else seconds)
                times[method].append(done["processor"] / done["steps"] * trained_steps(method, examples))
            shown = ", ".join(f"{m} {times[m][-1]:.3g} s" for m in methods)
            say(f"{name}: round {turn + 1} of {rounds}: {shown}")
    return {
        "problem": name,
        "title": problem.title,
        "seconds": {
            m: {"median": statistics.median(t), "least": min(t), "most": max(t), "rounds": len(t)}
            for m, t in times.items()
        },
        "machine": machine(),
    }
