"""Runs that are there already: finished, of another experiment, damaged, or older than a field."""

from __future__ import annotations

import json
import pickle
import random

import pytest

from metasym.runs.reproducing.experiment_run import load_run, run
from metasym.storage.json_files import write_json
from metasym.types import MetasymError
from tests.refusals import refused, within
from tests.runs.reproducing.quick_runs import quick


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    first = run(quick(), tmp_path, progress="silent")
    monkeypatch.setattr(
        __import__("metasym.runs.reproducing.experiment_run", fromlist=["train"]),
        "train",
        lambda *a, **k: pytest.fail("ran"),
    )
    assert run(quick(), tmp_path, progress="silent") == first
    assert run(quick(threads=1), tmp_path, resume=True) == first


def test_the_folder_of_another_experiment_is_refused_and_stays_as_it_was(tmp_path):
    run(quick(), tmp_path, progress="silent")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for other, what, found in (
        (quick("translation/rank2/small/msr-fc"), "name", quick().name),
        (quick(seed=4), "recipe.seed", 0),
        (quick(outer_lr=0.1), "recipe.outer_lr", quick().recipe.outer_lr),
    ):
        for resume in (False, True):
            with refused(within(tmp_path, what), found):
                run(other, tmp_path, resume=resume)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"experiment": "x"}', '{"per_task": 3}'])
def test_a_corrupt_result_is_named_and_kept(tmp_path, content):
    run(quick(outer_steps=1), tmp_path, progress="silent")
    (tmp_path / "result.json").write_text(content)
    with refused():
        run(quick(outer_steps=1), tmp_path, resume=True)
    assert (tmp_path / "result.json").read_text() == content


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a config was unpickled",))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, pickle.dumps(Bomb()), b"\xff\xfe{}"])
def test_a_corrupt_config_is_named_and_kept(tmp_path, content):
    run(quick(outer_steps=1), tmp_path, progress="silent")
    (tmp_path / "config.json").write_bytes(content)
    for work in (lambda: run(quick(outer_steps=1), tmp_path, resume=True), lambda: load_run(tmp_path)):
        with refused(str(tmp_path / "config.json")):
            work()
    assert (tmp_path / "config.json").read_bytes() == content


def test_flipped_bytes_of_a_config_are_one_line_or_the_same_run(tmp_path):
    first = run(quick(outer_steps=1), tmp_path, progress="silent")
    good, draw, refused = (tmp_path / "config.json").read_bytes(), random.Random(0), 0
    for _ in range(200):
        damaged = bytearray(good)
        damaged[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        (tmp_path / "config.json").write_bytes(damaged)
        try:
            assert run(quick(outer_steps=1), tmp_path, resume=True) == first
        except MetasymError as error:
            assert "\n" not in str(error)
            refused += 1
        assert (tmp_path / "config.json").read_bytes() == bytes(damaged)
    assert refused > 50


def test_a_run_whose_config_was_moved_away_goes_on_and_has_one_again(tmp_path):
    first = run(quick(), tmp_path, progress="silent")
    config = (tmp_path / "config.json").read_bytes()
    (tmp_path / "config.json").unlink()
    (tmp_path / "result.json").unlink()
    assert run(quick(), tmp_path, resume=True, progress="silent")["per_task"] == first["per_task"]
    assert (tmp_path / "config.json").read_bytes() == config


def test_results_from_before_a_field_existed_are_still_good(tmp_path):
    first = run(quick(), tmp_path, progress="silent")
    for name in ("config.json", "result.json"):
        path = tmp_path / name
        stored = json.loads(path.read_text())
        config = stored if name == "config.json" else stored["config"]
        for field in ("warmup_steps", "map", "autocast"):
            del config["recipe"][field]
        del config["learner"]
        write_json(path, stored)
    assert run(quick(), tmp_path)["per_task"] == first["per_task"]
    assert load_run(tmp_path)[0] == quick()
    with refused(within(tmp_path, "recipe.map"), "auto"):
        run(quick(map="loop"), tmp_path)
    with refused(within(tmp_path, "recipe.warmup_steps"), 0):
        run(quick(warmup_steps=3), tmp_path)
