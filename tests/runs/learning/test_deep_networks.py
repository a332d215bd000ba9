"""What ``learn`` tells about networks of several layers: the tasks and the network, two subjects."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import metasym as ms
from metasym.report.comparison_words import linear_instead
from metasym.verdicts.function_reports import AdaptedFunctions, ElementOfFunctions, Held
from metasym.verdicts.network_words import deep_words
from metasym.verdicts.verdict import Status

POINTS = 6
QUICK = {"model": "mlp", "hidden": 6, "support": 12, "outer_steps": 3, "inner_steps": 1}


def family(symmetric: bool, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """``tanh`` between two maps of each task's own; with circulant ones that are their own mirror images, or any."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=(60, 24, POINTS))
    y = np.empty_like(x)
    place = np.abs(np.arange(POINTS)[:, None] - np.arange(POINTS))
    ring = np.minimum(place, POINTS - place)
    for t in range(60):
        first, second = (
            draw.normal(size=4)[ring] / 2 if symmetric else draw.normal(size=(POINTS, POINTS)) / 2
            for _ in "ab"
        )
        y[t] = np.tanh(x[t] @ first.T) @ second.T
    return x, y


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> ms.Run:
    return ms.learn(*family(symmetric=True), out=tmp_path_factory.mktemp("deep") / "run", **QUICK)


def test_the_tasks_have_the_group_whatever_the_network_has_learned(learned: ms.Run) -> None:
    assert learned.verdict.status is Status.CERTIFIED
    (claim,) = learned.verdict.claims
    assert (claim.name, claim.size) == ("D_6", 12)
    assert str(learned) == str(learned.verdict)
    assert claim.violation_upper < 0.04
    # Three steps teach the network nothing: that is its own verdict, not the tasks'.
    assert learned.function.defect > 0.3
    assert learned.function.tasks == 12


def test_the_network_is_asked_about_what_the_tasks_have_and_so_is_the_baseline(learned: ms.Run) -> None:
    plain = ms.open_run(learned.folder / "maml")
    assert len(learned.function.elements) == len(plain.function.elements) == 12
    again = ms.check_equivariance(learned, group="dihedral")
    assert again.defect == pytest.approx(learned.function.defect, rel=1e-5)


def test_the_first_sentences_of_the_page_are_about_tasks_network_and_the_linear_layer(
    learned: ms.Run,
) -> None:
    result, plain = learned.result, ms.open_run(learned.folder / "maml").result
    tasks, networks = deep_words(result, plain)
    instead = linear_instead(result)
    assert instead is not None  # three steps of a network are no match for a linear layer
    page = learned.report().read_text()
    assert all(words.split(":")[0].split(";")[0] in page for words in (tasks, networks, instead))


def test_a_family_without_symmetry_is_claimed_to_have_none(tmp_path: Path) -> None:
    run = ms.learn(*family(symmetric=False, seed=1), out=tmp_path / "run", baseline=False, **QUICK)
    assert run.verdict.claims == ()
    assert run.verdict.status in (Status.UNDECIDED, Status.NONE)
    assert "function" not in run.result
    with pytest.raises(ms.MetasymError):
        _ = run.function


@pytest.mark.parametrize(
    ("violation", "held"),
    [(0.0, Held.EXACTLY), (0.01, Held.NEARLY), (0.08, Held.NEAR), (1.9, Held.NOT)],
)
def test_a_network_that_is_near_is_not_said_to_fail(violation: float, held: Held) -> None:
    one = ElementOfFunctions("g", violation, violation, None, 0.0)
    assert one.held is held
    found = AdaptedFunctions("D_16", 40, 0.1, False, (one,), "")
    assert AdaptedFunctions.from_json(found.to_json()) == found
