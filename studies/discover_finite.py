"""Runs on functions whose finite symmetries are known: what is claimed is compared with the function itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import metasym as ms
from studies.classified import LABELLED, Labelled

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Numbers:
    """Examples of a function of numbers, the function itself, and the least order of what should be named."""

    x: Array
    y: Array
    function: Callable[[Array], Array]
    order: int
    """0 where only a part, or nothing, is true."""


def moments(kind: str, count: int = 1000) -> Callable[[int], Numbers]:
    """Moments of inertia of five masses at five places: S_5 permutes the masses, S_3 the axes and the nine outputs.

    ``heavy``: the fifth mass counts a tenth more. ``long``: so does the third axis. ``tilted``: the first place's
    first coordinate is added to the first output. ``near``: the fifth mass counts a hundredth more.
    """

    def function(x: Array) -> Array:
        masses, places = x[:, :5], x[:, 5:].reshape(-1, 5, 3)
        if kind in ("heavy", "near"):
            masses = masses * np.array([1, 1, 1, 1, 1.1 if kind == "heavy" else 1.01])
        if kind == "long":
            places = places * np.array([1, 1, 1.1])
        squares = np.einsum("pk,pki,pki->p", masses, places, places)
        found = squares[:, None, None] * np.eye(3) - np.einsum("pk,pki,pkj->pij", masses, places, places)
        if kind == "tilted":
            found[:, 0, 0] += 0.5 * places[:, 0, 0]
        return found.reshape(-1, 9)

    def make(seed: int) -> Numbers:
        x = np.random.default_rng([seed, 53]).normal(size=(count, 20))
        x[:, :5] = np.log1p(np.exp(x[:, :5]))
        return Numbers(x, function(x), function, 0 if kind else 120)

    return make


MOMENTS = {
    "moments": moments(""),
    "moments-heavy": moments("heavy"),
    "moments-long": moments("long"),
    "moments-tilted": moments("tilted"),
    "moments-near": moments("near"),
}
FINITE = (*MOMENTS, *LABELLED)


def run_finite(name: str, seed: int) -> dict[str, Any]:
    """What is claimed, whether it is true, and what it is worth."""
    if name in MOMENTS:
        numbers = MOMENTS[name](seed)
        found = ms.discover(numbers.x, numbers.y, seed=seed, continuous=False)
        verdict = _of_numbers(numbers, found)
    else:
        labelled = LABELLED[name](seed)
        found = ms.discover(labelled.x, labelled.y, seed=seed, continuous=False)
        verdict = _of_labels(labelled, found)
    best = found.symmetric or found.plain
    return {
        "problem": name,
        "seed": seed,
        "verdict": verdict,
        "claimed": [one["name"] for one in found.symmetries],
        "violation_upper": [one["violation_upper"] for one in found.symmetries],
        "refused": [one["words"] for one in found.refused],
        "metric": found.metric,
        "plain_error": found.plain.error,
        "test_mse": best.error,
        "test_relative": best.relative,
        "plain_relative": found.plain.relative,
        "symmetric_relative": None if found.symmetric is None else found.symmetric.relative,
    }


def _of_numbers(truth: Numbers, found: ms.DiscoveredRun) -> str:
    """Every generator is tried on fresh points."""
    points = np.random.default_rng(7).normal(size=(50, truth.x.shape[1]))
    answers = truth.function(points)
    for claim in found.symmetries:
        for g in claim["generators"]:
            moved, wanted = np.empty_like(points), np.empty_like(answers)
            moved[:, g["inputs"]] = points * g["input_signs"]
            wanted[:, g["outputs"]] = answers * g["output_signs"]
            if np.abs(truth.function(moved) - wanted).max() > 1e-9:
                return "wrong"
    if not found.symmetries:
        return "refused"
    return "right" if truth.order and max(c["order"] for c in found.symmetries) >= truth.order else "part"


def _of_labels(truth: Labelled, found: ms.DiscoveredRun) -> str:
    true = {tuple(np.argsort(one).tolist()) for one in truth.true} | {tuple(o.tolist()) for o in truth.true}
    if not found.symmetries:
        return "refused"
    for claim in found.symmetries:
        for g in claim["generators"]:
            if tuple(g["inputs"]) not in true or -1 in g["input_signs"] or claim["outputs"]:
                return "wrong"
    return "right" if max(c["order"] for c in found.symmetries) == len(truth.true) else "part"
