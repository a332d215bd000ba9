"""One experiment from beginning to end: its files, its result, resuming, threads, ranks, precision."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from metasym.paper import find
from metasym.runs.files.result_files import read_result
from metasym.runs.reproducing import scoring
from metasym.runs.reproducing.experiment_run import command, load_run, recipe_flags, run
from metasym.storage.file_names import CURRENT
from metasym.tasks.sampling import sample
from metasym.training import progress
from metasym.training.checkpoint import read_training
from metasym.training.loop import train
from metasym.types import Batch
from tests import forked
from tests.refusals import refused, within
from tests.runs.reproducing.quick_runs import NAME, QUICK, quick

HERE = Path(__file__).parent
REQUIRED = {
    *("experiment", "recipe", "method", "metric", "mean", "ci95", "per_task", "outer_steps"),
    *("outer_steps_per_second", "inner_lrs", "seed", "versions", "median", "diverged", "command", "commit"),
    *("seconds", "peak_memory_mb", "parameters"),
}


def test_a_run_writes_its_files_and_the_result_has_every_field(tmp_path):
    found = run(quick(), tmp_path, progress="silent")
    files = {path.name for path in tmp_path.iterdir()}
    assert {"config.json", "metrics.jsonl", "checkpoint.safetensors", "result.json"} <= files
    assert not [name for name in files if name.endswith(".tmp")]
    stored = json.loads((tmp_path / "result.json").read_text())
    assert set(stored) >= REQUIRED
    assert stored["experiment"] == NAME
    assert len(stored["per_task"]) == 5
    assert stored["mean"] == pytest.approx(np.mean(stored["per_task"]))
    assert set(stored["inner_lrs"]) == {"v"}
    assert stored["parameters"] == 4760 * 70 + 70 + 1
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 4
    assert found["per_task"] == stored["per_task"]
    assert stored["config"] == json.loads((tmp_path / "config.json").read_text())


@pytest.mark.parametrize(
    "name",
    [
        NAME,
        "translation/rank2/large/maml-lc",
        "translation/rank1/small/mtsr-fc",
        "rotation/rot90/msr-conv",
    ],
)
def test_two_runs_are_bit_identical(tmp_path, name):
    size = {"image_size": 6} if name.startswith("rotation/") else {}
    experiment = quick(name, outer_steps=3, test_inner_steps=2, **size)
    runs = [run(experiment, tmp_path / str(i), progress="silent") for i in range(2)]
    assert runs[0]["per_task"] == runs[1]["per_task"]
    assert runs[0]["inner_lrs"] == runs[1]["inner_lrs"]
    other = run(experiment.replace(seed=1), tmp_path / "other", progress="silent")
    assert other["per_task"] != runs[0]["per_task"]


def test_the_final_test_shows_how_far_it_is(tmp_path, monkeypatch, capsys):
    """It may take as long as the training. Lines that come after some seconds come at once here."""
    for seconds in ("_PATIENCE_SECONDS", "_LINE_SECONDS"):
        monkeypatch.setattr(progress, seconds, 0.0)
    monkeypatch.setitem(scoring._CHUNKS, NAME.partition("/")[0], 5)
    run(quick(test_tasks=12), tmp_path, progress="plain")
    _, _, behind = capsys.readouterr().err.rpartition("step 4/4")
    assert re.findall(r"scored (\d+)/(\d+) tasks", behind) == [("5", "12"), ("10", "12")]


def test_the_number_of_threads_changes_next_to_nothing(tmp_path):
    """Sums are taken in another order: the last bits move, and after 60 steps the score by less than 1e-4."""
    one, two = (
        run(quick(threads=n, outer_steps=60, tasks_per_step=8), tmp_path / str(n), progress="silent")
        for n in (1, 2)
    )
    assert (one["threads"], two["threads"]) == (1, 2)
    assert two["mean"] == pytest.approx(one["mean"], rel=1e-4)


def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, monkeypatch):
    whole = run(quick(), tmp_path / "whole", progress="silent")
    module = __import__("metasym.runs.reproducing.experiment_run", fromlist=["train"])

    def dying(*arguments, **options):
        for record in train(*arguments, **options):
            if record.step == 3:
                raise KeyboardInterrupt
            yield record

    monkeypatch.setattr(module, "train", dying)
    with pytest.raises(KeyboardInterrupt):
        run(quick(), tmp_path / "cut", progress="silent")
    monkeypatch.undo()
    assert not (tmp_path / "cut" / "result.json").exists()
    with refused(str(tmp_path / "cut")):
        run(quick(), tmp_path / "cut", progress="silent")
    resumed = run(quick(), tmp_path / "cut", resume=True, progress="silent")
    assert resumed["per_task"] == whole["per_task"]


def test_the_map_and_the_precision_are_set_used_and_written_down(tmp_path):
    plain = run(quick(outer_steps=2), tmp_path / "plain", progress="silent")
    looped = run(quick(outer_steps=2, map="loop"), tmp_path / "loop", progress="silent")
    mixed = run(quick(outer_steps=2, autocast="bfloat16"), tmp_path / "mixed", progress="silent")
    written = [json.loads((tmp_path / d / "config.json").read_text()) for d in ("plain", "loop", "mixed")]
    assert [w["recipe"]["map"] for w in written] == ["auto", "loop", "auto"]
    assert [w["learner"]["map"] for w in written] == ["vmap", "loop", "vmap"]
    assert [w["recipe"]["autocast"] for w in written] == ["none", "none", "bfloat16"]
    assert looped["per_task"] == pytest.approx(plain["per_task"], rel=1e-4)
    assert mixed["inner_lrs"] != plain["inner_lrs"]
    assert recipe_flags(find(NAME, map="loop")) == ["--map", "loop"]
    stored = tmp_path / "plain"
    for changes, found in (({"map": "loop"}, "auto"), ({"autocast": "bfloat16"}, "none")):
        (name,) = changes
        with refused(within(stored, f"recipe.{name}"), found):
            run(quick(outer_steps=2, **changes), tmp_path / "plain")
    with refused("map", "pool"):
        quick(map="pool")


@pytest.mark.parametrize("changes", [{"map": "loop"}, {"paths": "map=loop"}])
def test_the_map_reaches_the_multi_task_learner(tmp_path, changes):
    experiment = quick("translation/rank1/small/mtsr-fc", outer_steps=1, test_inner_steps=2, **changes)
    run(experiment, tmp_path, progress="silent")
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["learner"]["map"] == "loop"
    assert {name: choice["way"] for name, choice in written["paths"].items()} == {
        "engine": "mapped",
        "map": "loop",
    }


def test_a_way_that_the_multi_task_learner_cannot_take_is_refused(tmp_path):
    with refused("engine") as caught:
        run(quick("translation/rank1/small/mtsr-fc", paths="engine=closed"), tmp_path, progress="silent")
    assert caught.value.found[0] == "closed"


def test_a_bad_device_is_refused_before_anything_is_written(tmp_path):
    with refused("device", "mps"):
        run(quick(device="mps"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_two_ranks_write_and_say_everything_once(tmp_path):
    """With one rank's writing refused by the operating system, nobody but rank 0 can have written."""
    changes = [f"--{name.replace('_', '-')}={value}" for name, value in QUICK.items()]
    agent = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [str(HERE / "only_rank_0_writes.py"), "run", NAME, "--out", str(tmp_path / "two"), *changes]
    options = {"capture_output": True, "text": True, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    for _ in range(2):  # the second time the finished result is shown
        done = forked.run([*command, "--progress", "silent"], ranks=2)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(f"{NAME}: mse ") == 1
        assert done.stdout.count("result.json") == 1
    one = run(quick(), tmp_path / "one", progress="silent")
    two = read_result(tmp_path / "two" / "result.json")
    assert two["per_task"] == pytest.approx(one["per_task"], rel=1e-4)
    configs = [json.loads((tmp_path / d / "config.json").read_text()) for d in ("one", "two")]
    assert configs[0] == configs[1]
    other = [*agent, *command, "--seed=3", "--resume"]
    refused = subprocess.run(other, timeout=120, check=False, **options)
    assert refused.returncode != 0
    # By each rank at once, and again at the end of what torchrun has to say: the last thing a user reads.
    assert refused.stderr.count("metasym: error: ") == 4
    assert "seed 3, found one with 0" in refused.stderr.rstrip("=\n").splitlines()[-1]


def test_unwritable_places_are_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    with refused(str(tmp_path / "file" / "run"), "Not a directory"):
        run(quick(), tmp_path / "file" / "run")
    with refused(str(tmp_path / "file")):
        run(quick(), tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


def test_validation_keeps_the_best_and_uses_training_tasks_only(tmp_path):
    experiment = quick(
        validation_fraction=0.25, validate_every=2, schedule="cosine", warmup_steps=1, optimizer="adamw"
    )
    run(experiment, tmp_path, progress="silent")
    records = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [r["validation"] is not None for r in records] == [False, True, False, True]


def test_a_run_can_be_loaded(tmp_path):
    found = run(quick(), tmp_path, progress="silent")
    experiment, problem, learner = load_run(tmp_path)
    assert experiment == quick()
    episodes = sample(problem.test, torch.tensor([0]), 0)
    model = learner.adapt(Batch(episodes.support.x[0], episodes.support.y[0]))
    assert model(episodes.query.x[0]).shape == (19, 68)
    assert list(learner.step_sizes().values()) == list(found["inner_lrs"].values())


def test_diverged_tasks_are_counted(tmp_path):
    found = run(
        quick(step_sizes="fixed", inner_lr=1e30, outer_steps=1, inner_steps=0), tmp_path, progress="silent"
    )
    assert found["diverged"] == 5
    assert math.isnan(found["mean"])
    assert "NaN" not in (tmp_path / "result.json").read_text()


def test_mixed_precision_is_in_the_plan_that_is_written_down(tmp_path):
    """bfloat16 has no closed form: the plan says what runs, and the checkpoint too."""
    result = run(quick(autocast="bfloat16"), tmp_path, progress="silent")
    assert result["config"]["paths"]["engine"] == {
        "way": "mapped",
        "why": "mixed precision",
        "milliseconds": {},
    }
    assert read_training(tmp_path / CURRENT)["computed_by"]["engine"] == "mapped"
    with refused("engine") as caught:
        run(quick(autocast="bfloat16", paths="engine=closed"), tmp_path / "other", progress="silent")
    assert caught.value.found[0] == "closed"


def test_the_command_of_a_result_is_the_command_that_makes_it():
    assert command(find(NAME)) == f"metasym run {NAME} --out DIR"
    changed = find(NAME, learn_start=False, filter_std=None, seed=3)
    assert recipe_flags(changed) == ["--no-learn-start", "--filter-std", "none", "--seed", "3"]
    assert recipe_flags(find(NAME, "best")) == ["--recipe", "best"]
