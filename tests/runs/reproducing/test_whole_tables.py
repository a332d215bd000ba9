"""Reproducing a table runs only what is missing: run folders and small result files both count."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from metasym.runs.files.result_files import read_result
from metasym.runs.reproducing.whole_tables import plan, reproduce
from tests.refusals import refused, within

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
    with refused(within(first[0], "recipe.outer_lr"), 1.0):
        reproduce(
            "table1", tmp_path / "c", results=results, quick=True, seeds=[0], only=ONLY, progress="silent"
        )
    first[0].write_bytes(before[0][:-30])  # a damaged one is named, and kept
    with refused(str(first[0])):
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


def test_reproduce_runs_what_is_missing_and_writes_small_files(tmp_path):
    notes: list[str] = []
    options = {"quick": True, "seeds": (0, 1), "only": "rank1/small/maml", "progress": "silent"}
    written = reproduce("table1", tmp_path, note=notes.append, **options)
    assert len(written) == 6
    assert notes[0] == "table1: 6 runs, 0 of them finished before"
    small = read_result(written[0])
    whole = read_result(tmp_path / "paper-quick" / small["experiment"] / "seed0" / "result.json")
    assert small["per_task"] == pytest.approx(whole["per_task"], rel=1e-5)
    assert written[0].parts[-4:-1] == ("results", "table1", "paper")
    notes.clear()
    again = reproduce("table1", tmp_path, note=notes.append, **options)
    assert again == written
    assert notes == ["table1: 6 runs, 6 of them finished before"]


def test_reproduce_goes_on_after_a_run_that_failed(tmp_path):
    bad = tmp_path / "paper-quick" / "translation/rank1/small/maml-fc" / "seed0"
    bad.mkdir(parents=True)
    (bad / "config.json").write_text("{}")
    notes: list[str] = []
    with refused(str(bad), 1):
        reproduce(
            "table1",
            tmp_path,
            quick=True,
            seeds=(0,),
            only="rank1/small/maml",
            progress="silent",
            note=notes.append,
        )
    assert len(list((tmp_path / "results" / "table1" / "paper").iterdir())) == 2


@pytest.mark.parametrize(
    ("options", "about", "found"),
    [
        ({"table": "table9"}, "table", "table9"),
        ({"table": "table1", "only": "zzz"}, "only", "zzz"),
        ({"table": "table1", "jobs": 0}, "jobs", 0),
        (
            {"table": "table1", "recipes": ["paper-1e-3"]},
            "recipe",
            ("paper-1e-3", "translation/rank1/small/maml-fc"),
        ),
    ],
)
def test_reproduce_refuses_bad_input(tmp_path, options, about, found):
    with refused(about, found):
        reproduce(out=tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_reproduce_refuses_a_finished_run_of_other_settings(tmp_path):
    options = {"quick": True, "seeds": (0,), "only": "rank1/small/maml-conv", "progress": "silent"}
    reproduce("table1", tmp_path, **options)
    path = tmp_path / "paper-quick" / "translation/rank1/small/maml-conv" / "seed0" / "result.json"
    path.write_text(path.read_text().replace('"outer_lr": 0.0005', '"outer_lr": 0.5'))
    with refused(within(path.parent, "recipe.outer_lr"), 0.5):
        reproduce("table1", tmp_path, **options)
