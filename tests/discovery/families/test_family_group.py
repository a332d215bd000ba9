"""Families of nonlinear tasks whose group is planted, and the same with it broken."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

import metasym as ms
from metasym.cli import main
from metasym.discovery.families.family_symmetries import FamilyModel
from metasym.verdicts.discovery_words import claim_words

Array = npt.NDArray[np.float64]
POINTS = 6


def circular(weights: Array) -> Array:
    found = np.zeros((POINTS, POINTS))
    for i in range(POINTS):
        for d, weight in enumerate(weights):
            found[i, (i + d - 1) % POINTS] = weight
    return found


def convolutions(kind: str, seed: int, tasks: int = 90, examples: int = 30) -> tuple[Array, Array]:
    """Convolution, tanh, convolution with filters of each task's own; ``kind`` breaks the symmetry."""
    draw = np.random.default_rng([seed, 3])
    x = draw.normal(size=(tasks, examples, POINTS))
    y = np.empty_like(x)
    uneven = {"gain": 0.2, "slight": 0.04}
    gain = 1 + uneven[kind] * draw.normal(size=POINTS) if kind in uneven else np.ones(POINTS)
    bend = 0.6 * draw.normal(size=POINTS) if kind == "bend" else np.zeros(POINTS)
    for t in range(tasks):
        if kind == "dense":
            a, b = draw.normal(size=(2, POINTS, POINTS)) / 2
        elif kind == "dihedral":
            a, b = (circular(draw.normal(size=2)[[1, 0, 1]]) for _ in range(2))
        else:
            a, b = (circular(draw.normal(size=3)) for _ in range(2))
        y[t] = np.tanh(x[t] @ a.T) @ b.T * gain + bend * (x[t] ** 2 - 1)
    return x, y


@pytest.mark.parametrize(("kind", "name", "order"), [("cyclic", "Z_6", 6), ("dihedral", "D_6", 12)])
def test_the_group_of_a_family_is_named(kind: str, name: str, order: int) -> None:
    x, y = convolutions(kind, 0)
    found = ms.discover(x, y)
    [one] = found.symmetries
    assert (one["kind"], one["name"], one["order"]) == ("finite", name, order)
    # The generators act as permutations that keep every task.
    for g in one["generators"]:
        shift = {(g["inputs"][i] - i) % POINTS for i in range(POINTS)}
        assert len(shift) == 1 or kind == "dihedral"
        assert g["inputs"] == g["outputs"]
    assert found.symmetric is not None
    assert found.symmetric.error < found.plain.error


@pytest.mark.parametrize("kind", ["dense", "gain", "slight", "bend"])
def test_a_family_without_it_is_refused(kind: str) -> None:
    """``bend`` breaks what is even in x alone, as the tasks' linear maps do not; ``slight``: gains differ by 4 %."""
    x, y = convolutions(kind, 1)
    assert ms.discover(x, y).symmetries == []


def test_the_command_gives_a_model_that_adapts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x, y = convolutions("cyclic", 0)
    np.savez(tmp_path / "family.npz", x=x, y=y)
    out = tmp_path / "run"
    assert main(["discover", str(tmp_path / "family.npz"), "--out", str(out), "--progress", "silent"]) == 0
    run = ms.open_run(out)
    (claim,) = run.verdict.claims
    assert (claim.kind, claim.name, claim.size) == ("finite", "Z_6", 6)
    assert claim_words(claim) in capsys.readouterr().out
    model = run.model
    assert isinstance(model, FamilyModel)
    network = model.adapt(x[0], y[0])
    points = torch.tensor(x[1])
    torch.testing.assert_close(network(points.roll(1, 1)), network(points).roll(1, 1), atol=1e-8, rtol=0)
    assert float(((network(torch.tensor(x[0])) - torch.tensor(y[0])) ** 2).mean()) < 0.3 * y[0].var()
    assert main(["report", str(out)]) == 0
