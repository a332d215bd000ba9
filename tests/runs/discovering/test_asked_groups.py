"""Does the function behind rows have a group that a user asks about?"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import metasym as ms
from metasym.cli.main import main
from metasym.verdicts.asked_groups import FunctionAnswer
from metasym.verdicts.outcomes import Outcome
from metasym.verdicts.verdict import Status

Array = npt.NDArray[np.float64]


def ring(x: Array) -> Array:
    """Of four inputs on a ring: D_4."""
    found: Array = (x * np.roll(x, 1, axis=1)).sum(1) + np.tanh(x).sum(1)
    return found


def asked(gain: float, group: str = "dihedral") -> FunctionAnswer:
    draw = np.random.default_rng(0)
    x = draw.normal(size=(240, 4))
    y = ring(x * np.array([1, 1, 1, gain]))
    y = y + 0.01 * y.std() * draw.normal(size=240)
    found = ms.discover(x, y, continuous=False, finite=True, group=group).answer
    assert found is not None
    return found


def true_defect(gain: float) -> float:
    x = np.random.default_rng(1).normal(size=(20_000, 4)) * np.array([1, 1, 1, gain])
    back = np.array([1, 1, 1, gain])
    orders = [np.roll(order, k) for order in (np.arange(4), np.arange(4)[::-1]) for k in range(4)]
    moved = [((ring((x / back)[:, order] * back) - ring(x)) ** 2).mean() for order in orders]
    return float(np.sqrt(np.mean(moved) / ring(x).var()))


def test_yes() -> None:
    found = asked(1.0)
    assert (found.status, found.name, found.order, found.invariance) == (Status.CERTIFIED, "D_4", 8, True)
    assert found.defect_upper < 0.08
    assert not found.breaking
    assert FunctionAnswer.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_how_nearly() -> None:
    found = asked(1.1)
    assert (found.status, found.refuted) == (Status.APPROXIMATE, True)
    assert found.defect <= true_defect(1.1) * 1.5
    assert true_defect(1.1) <= found.defect_upper
    assert all(3 in one.move.moved_inputs for one in found.breaking)


def test_no() -> None:
    found = asked(2.0)
    assert (found.status, found.refuted) == (Status.NONE, True)
    assert true_defect(2.0) <= found.defect_upper
    assert found.breaking


def largest_size(draw: np.random.Generator) -> tuple[Array, Array]:
    """Four numbers and the largest of their sizes: a function with kinks that Z_2 wr S_4 keeps."""
    x: Array = draw.normal(size=(400, 4))
    return x, np.abs(x).max(1)


def test_what_is_undetermined_refutes_nothing() -> None:
    draw = np.random.default_rng(3)
    draw.normal(size=600 * 13 + 1200)
    x, y = largest_size(draw)
    run = ms.discover(x, y, continuous=False, group="permutations")
    assert run.answer is not None
    assert not run.answer.refuted
    assert run.answer.status not in (Status.NONE,)
    assert run.answer.reasons
    for candidate in run.verdict.candidates:
        assert candidate.outcome is not Outcome.REFUTED


def test_a_part_of_what_is_found_holds_as_tightly() -> None:
    run = ms.discover(*largest_size(np.random.default_rng(0)), continuous=False, group="permutations")
    [claim] = run.verdict.claims
    assert run.answer is not None
    assert (claim.size, run.answer.order) == (384, 24)
    assert run.answer.status is Status.CERTIFIED
    assert run.answer.defect_upper <= claim.defect_upper
    assert run.answer.part_of == claim.name
    assert not run.answer.reasons


@pytest.mark.parametrize(
    ("x", "y"), [(np.zeros((5, 9, 3)), np.zeros((5, 9, 3))), (lambda x: x, np.zeros((9, 3)))]
)
def test_what_is_no_rows_is_asked_elsewhere(x: object, y: Array) -> None:
    with pytest.raises(ms.MetasymError) as error:
        ms.discover(x, y, group="shifts")
    assert error.value.about == "group"


def test_the_answer_stands_in_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(2).normal(size=(120, 2))
    np.savez(tmp_path / "data.npz", x=x, y=np.sin(x).sum(1))
    flags = ["--no-continuous", "--group", "reflection", "--progress", "silent"]
    assert main(["discover", str(tmp_path / "data.npz"), "--out", str(tmp_path / "run"), *flags]) in (0, None)
    found = ms.open_run(tmp_path / "run").answer
    assert found.status is Status.CERTIFIED
    assert str(found) in capsys.readouterr().out.replace("\n", " ").replace("  ", " ")
    assert str(found) in ms.open_run(tmp_path / "run").report().read_text()
