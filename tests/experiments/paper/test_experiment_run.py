from __future__ import annotations

import json
import math
import os
import pickle
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from metasym.experiments.paper import experiment_run, find, run
from metasym.experiments.paper.experiment_run import command, flags, load_run
from metasym.experiments.paper.whole_tables import reproduce
from metasym.experiments.result_files import read_result
from metasym.storage.json_files import write_json
from metasym.symmetry.reparam import symmetries
from metasym.tasks.sampling import sample
from metasym.training.checkpoint import CURRENT, read_training
from metasym.training.loop import train
from metasym.types import Batch, MetasymError

HERE = Path(__file__).parent
QUICK = {"outer_steps": 4, "train_tasks": 8, "test_tasks": 5, "checkpoint_every": 2, "tasks_per_step": 4}
NAME = "translation/rank1/small/msr-fc"
REQUIRED = {
    *("experiment", "recipe", "method", "metric", "mean", "ci95", "per_task", "outer_steps"),
    *("outer_steps_per_second", "inner_lrs", "seed", "versions", "median", "diverged", "command", "commit"),
    *("seconds", "peak_memory_mb", "parameters"),
}


def quick(name: str = NAME, **changes):
    return find(name, **{**QUICK, **changes})


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
    module = __import__("metasym.experiments.paper.experiment_run", fromlist=["train"])

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
    with pytest.raises(MetasymError, match="resume that run"):
        run(quick(), tmp_path / "cut", progress="silent")
    resumed = run(quick(), tmp_path / "cut", resume=True, progress="silent")
    assert resumed["per_task"] == whole["per_task"]


def test_a_finished_run_is_not_run_again(tmp_path, monkeypatch):
    first = run(quick(), tmp_path, progress="silent")
    monkeypatch.setattr(
        __import__("metasym.experiments.paper.experiment_run", fromlist=["train"]),
        "train",
        lambda *a, **k: pytest.fail("ran"),
    )
    assert run(quick(), tmp_path, progress="silent") == first
    assert run(quick(threads=1), tmp_path, resume=True) == first


def test_the_folder_of_another_experiment_is_refused_and_stays_as_it_was(tmp_path):
    run(quick(), tmp_path, progress="silent")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    for other, what in (
        (quick("translation/rank2/small/msr-fc"), "name"),
        (quick(seed=4), "seed 4, found one with 0"),
        (quick(outer_lr=0.1), "outer_lr 0.1"),
    ):
        for resume in (False, True):
            with pytest.raises(MetasymError, match=what):
                run(other, tmp_path, resume=resume)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("content", ["", "{", "[]", '{"experiment": "x"}', '{"per_task": 3}'])
def test_a_corrupt_result_is_named_and_kept(tmp_path, content):
    run(quick(outer_steps=1), tmp_path, progress="silent")
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(MetasymError, match=r"result\.json: expected ") as caught:
        run(quick(outer_steps=1), tmp_path, resume=True)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "result.json").read_text() == content


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a config was unpickled",))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"[" * 100_000, pickle.dumps(Bomb()), b"\xff\xfe{}"])
def test_a_corrupt_config_is_named_and_kept(tmp_path, content):
    run(quick(outer_steps=1), tmp_path, progress="silent")
    (tmp_path / "config.json").write_bytes(content)
    for work in (lambda: run(quick(outer_steps=1), tmp_path, resume=True), lambda: load_run(tmp_path)):
        with pytest.raises(
            MetasymError, match=r"config\.json: expected the config of a run, found"
        ) as caught:
            work()
        assert "\n" not in str(caught.value)
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
    assert flags(find(NAME, map="loop")) == ["--map", "loop"]
    for changes, what in (({"map": "loop"}, "map 'loop'"), ({"autocast": "bfloat16"}, "autocast 'bfloat16'")):
        with pytest.raises(MetasymError, match=f"{what}, found one with"):
            run(quick(outer_steps=2, **changes), tmp_path / "plain")
    with pytest.raises(MetasymError, match="map to be one of auto, vmap, loop"):
        quick(map="pool")


def test_the_map_reaches_the_multi_task_learner(tmp_path):
    run(quick("translation/rank1/small/mtsr-fc", outer_steps=1, map="loop"), tmp_path, progress="silent")
    assert json.loads((tmp_path / "config.json").read_text())["learner"]["map"] == "loop"


def test_a_bad_device_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(MetasymError, match="'mps'"):
        run(quick(device="mps"), tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_two_ranks_write_and_say_everything_once(tmp_path):
    """With one rank's writing refused by the operating system, nobody but rank 0 can have written."""
    changes = [f"--{name.replace('_', '-')}={value}" for name, value in QUICK.items()]
    agent = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [
        *agent,
        str(HERE / "only_rank_0_writes.py"),
        "run",
        NAME,
        "--out",
        str(tmp_path / "two"),
        *changes,
    ]
    options = {"capture_output": True, "text": True, "env": {**os.environ, "OMP_NUM_THREADS": "1"}}
    for _ in range(2):  # the second time the finished result is shown
        done = subprocess.run([*command, "--progress", "silent"], timeout=120, check=False, **options)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count(f"{NAME}: mse ") == 1
        assert done.stdout.count("result.json") == 1
    one = run(quick(), tmp_path / "one", progress="silent")
    two = read_result(tmp_path / "two" / "result.json")
    assert two["per_task"] == pytest.approx(one["per_task"], rel=1e-4)
    configs = [json.loads((tmp_path / d / "config.json").read_text()) for d in ("one", "two")]
    assert configs[0] == configs[1]
    other = [*command, "--seed=3", "--resume"]
    refused = subprocess.run(other, timeout=120, check=False, **options)
    assert refused.returncode != 0
    # By each rank at once, and again at the end of what torchrun has to say: the last thing a user reads.
    assert refused.stderr.count("metasym: error: ") == 4
    assert "seed 3, found one with 0" in refused.stderr.rstrip("=\n").splitlines()[-1]


def test_unwritable_places_are_one_line(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(MetasymError, match="expected a folder to write to, found Not a directory"):
        run(quick(), tmp_path / "file" / "run")
    with pytest.raises(MetasymError, match="expected a folder to write to"):
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


def test_the_first_stage_of_a_recipe_is_found_pruned_and_loaded(tmp_path):
    """With find_steps the filter is compressed to what the nuclear norm left, resumed and loaded alike."""
    changes = {"find_steps": 60, "nuclear": 3.0, "train_tasks": 32, "tasks_per_step": 16}
    wanted = find(NAME, "best", **{**QUICK, **changes})
    found = run(wanted, tmp_path / "a", progress="silent")
    (size,) = found["filter_sizes"]
    assert size < 70
    assert found["outer_steps"] == 64
    _, _, learner = load_run(tmp_path / "a")
    assert next(iter(learner.model.parameters())).numel() == size
    (tmp_path / "a" / "result.json").unlink()  # killed before the result: the rest is the same to the bit
    again = run(wanted, tmp_path / "a", resume=True, progress="silent")
    assert again["per_task"] == found["per_task"]


def test_a_first_stage_with_a_solver_of_its_own_leaves_equal_directions_for_gradient_steps(tmp_path):
    changes = {"outer_steps": 1, "find_steps": 40, "train_tasks": 32, "test_tasks": 4, "image_size": 6}
    wanted = find("rotation/rot45-flip/msr-conv", "best", **changes, outer_lr=1e-12)
    found = run(wanted, tmp_path, progress="silent")
    assert "v" in found["inner_lrs"]  # the second stage takes gradient steps
    _, problem, learner = load_run(tmp_path)
    (symmetry,) = symmetries(learner.model).values()
    strengths = torch.linalg.svdvals(symmetry.matrix().detach())
    assert torch.allclose(strengths, torch.full_like(strengths, 48**0.5), rtol=1e-4)
    inside = torch.linalg.qr(symmetry.matrix().detach().double()).Q.T @ problem.true_basis
    assert float(torch.linalg.svdvals(inside).median()) > 0.9  # exact solves find the space in few steps


def test_the_plan_that_is_written_down_is_that_of_the_learner_that_the_first_stage_left(
    tmp_path, monkeypatch
):
    first = experiment_run._find

    def found(*arguments):
        model = first(*arguments)
        model.register_forward_hook(
            lambda module, inputs, output: output
        )  # no closed form knows what hooks do
        return model

    changes = {"outer_steps": 1, "find_steps": 1, "train_tasks": 8, "test_tasks": 2, "image_size": 6}
    experiment = find("rotation/rot45-flip/msr-conv", "best", tasks_per_step=2, **changes)
    plain = run(experiment, tmp_path / "plain", progress="silent")
    assert plain["config"]["paths"]["engine"]["way"] == "closed"
    monkeypatch.setattr(experiment_run, "_find", found)
    said = []
    result = run(experiment, tmp_path / "hooked", progress="silent", note=said.append)
    assert result["config"]["paths"]["engine"]["way"] == "mapped"
    assert said[0].startswith("engine: mapped (not one plain convolution")
    assert read_training(tmp_path / "hooked" / CURRENT)["computed_by"]["engine"] == "mapped"


def test_mixed_precision_is_in_the_plan_that_is_written_down(tmp_path):
    """bfloat16 has no closed form: the plan says what runs, and the checkpoint too."""
    result = run(quick(autocast="bfloat16"), tmp_path, progress="silent")
    assert result["config"]["paths"]["engine"] == {
        "way": "mapped",
        "why": "mixed precision",
        "milliseconds": {},
    }
    assert read_training(tmp_path / CURRENT)["computed_by"]["engine"] == "mapped"
    with pytest.raises(
        MetasymError, match="expected engine=mapped here .mixed precision., found engine=closed"
    ):
        run(quick(autocast="bfloat16", paths="engine=closed"), tmp_path / "other", progress="silent")


def test_the_command_of_a_result_is_the_command_that_makes_it():
    assert command(find(NAME)) == f"metasym run {NAME} --out DIR"
    changed = find(NAME, learn_start=False, filter_std=None, seed=3)
    assert flags(changed) == ["--no-learn-start", "--filter-std", "none", "--seed", "3"]
    assert flags(find(NAME, "best")) == ["--recipe", "best"]


def test_json_files_have_a_line_for_each_key(tmp_path):
    value = {"a": [1.5, float("nan"), 3], "b": {"c": []}, "d": "x, ]"}
    write_json(tmp_path / "x.json", value)
    text = (tmp_path / "x.json").read_text()
    assert json.loads(text) == {"a": [1.5, None, 3], "b": {"c": []}, "d": "x, ]"}
    assert len(text.splitlines()) == 5


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
    with pytest.raises(MetasymError, match="found 1 runs that failed, first .*maml-fc/seed0"):
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
    ("options", "message"),
    [
        ({"table": "table9"}, "expected one of table1"),
        ({"table": "table1", "only": "zzz"}, "matches experiments of table1, found 'zzz'"),
        ({"table": "table1", "jobs": 0}, "expected jobs >= 1, found 0"),
        ({"table": "table1", "recipes": ["paper-1e-3"]}, "expected a rotation experiment"),
    ],
)
def test_reproduce_refuses_bad_input(tmp_path, options, message):
    with pytest.raises(MetasymError, match=message):
        reproduce(out=tmp_path / "new", **options)
    assert not (tmp_path / "new").exists()


def test_reproduce_refuses_a_finished_run_of_other_settings(tmp_path):
    options = {"quick": True, "seeds": (0,), "only": "rank1/small/maml-conv", "progress": "silent"}
    reproduce("table1", tmp_path, **options)
    path = tmp_path / "paper-quick" / "translation/rank1/small/maml-conv" / "seed0" / "result.json"
    path.write_text(path.read_text().replace('"outer_lr": 0.0005', '"outer_lr": 0.5'))
    with pytest.raises(MetasymError, match="outer_lr 0.0005, found one with 0.5"):
        reproduce("table1", tmp_path, **options)


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
    with pytest.raises(MetasymError, match="map 'loop', found one with 'auto'"):
        run(quick(map="loop"), tmp_path)
    with pytest.raises(MetasymError, match="warmup_steps 3, found one with 0"):
        run(quick(warmup_steps=3), tmp_path)
