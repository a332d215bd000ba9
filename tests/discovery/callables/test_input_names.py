"""What the user calls the inputs of a function is what words, notes, JSON and the page call them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import metasym as ms
from metasym.runs.discovering.function_files import read_inputs
from metasym.verdicts.discovery_reasons import RefutedByCalls

NAMES = ("px", "py", "pz", "temp")
X = np.random.default_rng(0).normal(size=(400, 4))


def energy(x: Any) -> Any:
    return (x[:, :3] ** 2).sum(1)


@pytest.fixture(scope="module")
def run() -> ms.DiscoveredRun:
    return ms.discover(energy, pd.DataFrame(X, columns=list(NAMES)), tolerance=0.02)


def test_every_claim_knows_the_names(run: ms.DiscoveredRun) -> None:
    assert {claim.input_names for claim in run.verdict.claims} == {NAMES}
    assert {claim.kind for claim in run.verdict.claims} == {"finite", "continuous"}
    for claim in run.verdict.to_json()["symmetries"]:
        assert claim["input_names"] == list(NAMES)
        assert all(name in claim["words"] for name in ("px", "pz"))
        assert "input" not in claim["words"]
    assert run.config["data"]["input_names"] == list(NAMES)


def test_the_page_names_what_a_move_does(run: ms.DiscoveredRun, tmp_path: Path) -> None:
    page = run.report(tmp_path / "page.html").read_text()
    assert "px ↔ py" in page or "py ↔ pz" in page or "px ↔ pz" in page


def test_notes_name_the_input_that_does_nothing(run: ms.DiscoveredRun) -> None:
    about = [note for note in run.notes if "temp" in note]
    assert len(about) == 1
    assert not any(name in about[0] for name in NAMES[:3])


def test_refused_moves_are_written_with_names() -> None:
    run = ms.discover(
        lambda x: np.exp(-x[:, 0]) + np.exp(-1.06 * x[:, 1]),
        pd.DataFrame(X[:, :2], columns=["a", "b"]),
        continuous=False,
    )
    named = [one.name for c in run.verdict.candidates for one in c.reasons if isinstance(one, RefutedByCalls)]
    assert named
    assert all("a" in one or "b" in one for one in named)


def test_a_function_that_draws_frames_names_the_inputs() -> None:
    def draw(count: int, generator: np.random.Generator) -> pd.DataFrame:
        return pd.DataFrame(generator.normal(size=(count, 4)), columns=list(NAMES))

    run = ms.discover(energy, draw, continuous=False)
    assert run.verdict.claims[0].input_names == NAMES


def test_a_file_of_inputs_names_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=X, input_names=np.array(NAMES))
    x, names = read_inputs(tmp_path / "x.npz")
    assert names == NAMES
    np.testing.assert_array_equal(x, X)
