"""Reproducing a table runs only what is missing: run folders and small result files both count."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from metasym.experiments.paper.whole_tables import plan, reproduce
from metasym.types import MetasymError

ONLY = "translation/rank1/small/m*-conv"


def test_small_files_stand_for_runs_whose_folders_are_gone(tmp_path: Path) -> None:
    results, notes = tmp_path / "results", []
    first = reproduce(
        "table1", tmp_path / "a", results=results, quick=True, seeds=[0], only=ONLY, progress="silent"
    )
    before = [path.read_bytes() for path in first]
    shutil.rmtree(tmp_path / "a")
    again = reproduce(
        "table1", tmp_path / "b", results=results, quick=True, seeds=[0], only=ONLY, progress="silent",
        note=notes.append,
    )  # fmt: skip
    assert again == first
    assert [path.read_bytes() for path in again] == before
    assert notes == ["table1: 1 runs, 1 of them finished before"]
    stored = json.loads(first[0].read_text())
    stored["config"]["recipe"]["outer_lr"] = 1.0  # the file of another recipe is refused, not overwritten
    first[0].write_text(json.dumps(stored))
    refused = re.escape(
        f"{first[0]}: expected a result with outer_lr 0.0005, found one with 1.0; move it away"
    )
    with pytest.raises(MetasymError, match=refused):
        reproduce(
            "table1", tmp_path / "c", results=results, quick=True, seeds=[0], only=ONLY, progress="silent"
        )
    first[0].write_bytes(before[0][:-30])  # a damaged one is named, and kept
    with pytest.raises(MetasymError, match=f"{re.escape(str(first[0]))}: .*truncated or corrupted"):
        reproduce(
            "table1", tmp_path / "d", results=results, quick=True, seeds=[0], only=ONLY, progress="silent"
        )
    assert first[0].read_bytes() == before[0][:-30]


def test_quick_shortens_both_stages() -> None:
    found = plan("table1", quick=True, seeds=[0], recipes=["best"], only="translation/rank1/small/*")
    steps = {e.name.rpartition("/")[2]: (e.recipe.find_steps, e.recipe.outer_steps) for e in found}
    assert steps["msr-fc"] == (50, 50)
    assert steps["maml-fc"] == (0, 50)


def test_sizes_plan() -> None:
    found = plan("sizes", seeds=[0])
    assert {e.recipe_name for e in found} == {"best"}
    assert len(found) == 3 * 3 * 5
    assert sorted({e.recipe.image_size for e in found}) == [4, 6, 8, 16, 32]
