"""Checkpoint files: what they hold, and what happens to damaged or foreign ones."""

from __future__ import annotations

import errno
import json
import os
import pickle
import random
from collections import Counter
from pathlib import Path

import pytest
import safetensors.torch
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

from metasym.storage.file_names import CURRENT, PREVIOUS
from metasym.storage.serialization import CheckpointError, pack, unpack
from metasym.training.checkpoint import load, save
from metasym.training.loop import train
from metasym.training.settings import Files
from metasym.types import MetasymError
from tests import forked
from tests.refusals import refused
from tests.training.toy_learner import Lines, ToyMAML, bits, learner, msr

HERE = Path(__file__).parents[2]  # from here ``tests`` can be imported
OPTIONS = {"tasks_per_step": 2, "progress": "silent"}


@pytest.fixture
def run(tmp_path):
    """A folder with a run of four steps: checkpoints of step 4 and, before it, step 2."""
    for _ in train(learner(), Lines(), outer_steps=4, out=Files(tmp_path, checkpoint_every=2), **OPTIONS):
        pass
    return tmp_path


def resume(folder, made=None, tasks=None, **changes):
    options = {
        "outer_steps": 8,
        "out": Files(folder, checkpoint_every=2),
        "resume": True,
        **OPTIONS,
        **changes,
    }
    return list(train(made or learner(), tasks or Lines(), **options))


def resume_refused(about, found, folder, older=None, kind=CheckpointError, **changes):
    """Resuming is refused, no file is touched, and an older checkpoint that could be used is named."""
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    with refused(about, found, kind) as caught:
        resume(folder, **changes)
    assert (PREVIOUS in str(caught.value)) == (older is not None)
    if older is not None:
        assert f"(step {older})" in str(caught.value)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


def test_nested_state_comes_back_as_it_was():
    strided = torch.arange(12.0).view(3, 4).t()
    shared = torch.ones(3)
    state = {
        "none": None,
        "float": [0.1, float("inf"), 1e-300],
        "tuple": (1, (True, "text"), []),
        "keys": {0: {"exp_avg": torch.ones(2)}, 1: {}},
        "$odd": {"$tensor": 1},
        "counter": Counter([2, 2, 5]),
        "tensors": {
            "a": shared,
            "alias": shared,
            "view": shared[1:],
            "strided": strided,
            "scalar": torch.tensor(3),
            "empty": torch.zeros(0, 2),
            "half": torch.tensor([1.5], dtype=torch.bfloat16),
            "bool": torch.tensor([True]),
            "nan": torch.tensor([float("nan")]),
        },
    }
    back = unpack(pack(state), "x")
    tensors, expected = back.pop("tensors"), state.pop("tensors")
    assert back.pop("keys")[0]["exp_avg"].tolist() == state.pop("keys")[0]["exp_avg"].tolist()
    assert back == state
    assert type(back["counter"]) is Counter
    for name, tensor in expected.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name].nan_to_num(7), tensor.nan_to_num(7)), name


def test_state_that_cannot_be_stored_is_named():
    with refused("scheduler/lr", "function"):
        pack({"scheduler": {"lr": lambda step: step}})


def test_the_file_is_ordinary_safetensors_with_readable_names(run):
    stored = safetensors.torch.load_file(run / CURRENT)
    assert stored["learner/model.0.weight"].shape == (1, 3)
    assert "optimizer/state/0/exp_avg" in stored


def test_truncation_at_any_length_is_found(run):
    whole = (run / CURRENT).read_bytes()
    header = int.from_bytes(whole[:8], "little")
    lengths = {0, 1, 7, 8, 9, header, header + 8, header + 9, len(whole) - 1}
    lengths |= {random.Random(0).randrange(len(whole)) for _ in range(40)}
    for length in sorted(lengths):
        (run / CURRENT).write_bytes(whole[:length])
        found = (
            "an empty file" if length == 0 else "another format" if length < header + 8 else "other content"
        )
        resume_refused(str(run / CURRENT), found, run, older=2)


def test_flipped_bytes_are_found_wherever_they_are(run):
    whole = (run / CURRENT).read_bytes()
    header = int.from_bytes(whole[:8], "little")
    draw = random.Random(1)
    offsets = [*range(12), *range(header, header + 16), len(whole) - 1]
    offsets += [draw.randrange(len(whole)) for _ in range(300)]
    for offset in offsets:
        damaged = bytearray(whole)
        damaged[offset] ^= draw.randrange(1, 256)
        with refused("x", kind=CheckpointError):
            unpack(bytes(damaged), "x")
    damaged = bytearray(whole)
    damaged[-1] ^= 1
    (run / CURRENT).write_bytes(bytes(damaged))
    resume_refused(str(run / CURRENT), "other content", run, older=2)


def test_the_older_checkpoint_can_be_used_as_the_error_says(run):
    (run / CURRENT).write_bytes(b"")
    resume_refused(str(run / CURRENT), "an empty file", run, older=2)
    (run / PREVIOUS).rename(run / CURRENT)
    assert resume(run)[0].step == 3


def test_a_pickle_in_its_place_is_refused_and_not_executed(run, tmp_path):
    (run / CURRENT).write_bytes(pickle.dumps(Bomb()))
    resume_refused(str(run / CURRENT), "another format", run, older=2)
    torch.save({"a": torch.ones(2)}, run / CURRENT)
    resume_refused(str(run / CURRENT), "another format", run, older=2)


def test_where_both_are_damaged_no_good_one_is_named(run):
    (run / CURRENT).write_bytes(b"x")
    (run / PREVIOUS).write_bytes((run / PREVIOUS).read_bytes()[:-1])
    resume_refused(str(run / CURRENT), "another format", run)


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a file was unpickled",))


def test_metrics_that_are_empty_a_pickle_or_out_of_order_are_refused_and_kept(run):
    path = run / "metrics.jsonl"
    good = path.read_bytes()
    for damaged, last in (
        (b"", 0),
        (pickle.dumps(Bomb()), 0),
        (b"[" * 100_000 + b"\n", 0),
        (good.replace(b'"step": 3', b'"step": 2'), 2),
        (good.replace(b'"step": 1,', b'"step": 9,'), 0),
        (good.replace(b"\n", b" "), 0),
    ):
        path.write_bytes(damaged)
        resume_refused(str(path), last, run, kind=MetasymError)


def test_flipped_bytes_of_metrics_are_refused_or_leave_whole_records(run):
    """A record that another digit made another number is still one: there is no seal on every line."""
    path = run / "metrics.jsonl"
    good, draw, kept = path.read_bytes(), random.Random(2), {p: p.read_bytes() for p in run.iterdir()}
    found = []
    for _ in range(60):
        damaged = bytearray(good)
        damaged[draw.randrange(len(good))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            resume(run, outer_steps=5)
        except MetasymError as error:
            assert "\n" not in str(error)
            assert path.read_bytes() == bytes(damaged)
            found.append("refused")
        else:
            assert path.read_bytes().startswith(bytes(damaged))
            assert [json.loads(line)["step"] for line in path.read_bytes().splitlines()] == [1, 2, 3, 4, 5]
            found.append("resumed")
        for other, content in kept.items():
            other.write_bytes(content)
    assert set(found) == {"refused", "resumed"}


def test_damaged_metrics_are_refused_and_a_torn_last_line_is_cut(run):
    path = run / "metrics.jsonl"
    good = path.read_bytes()
    path.write_bytes(good + b'{"step": 5, "outer_lo')
    resume(run, outer_steps=5)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines()] == [1, 2, 3, 4, 5]
    for damaged, last in (
        (good[:-3], 3),
        (good[:10], 0),
        (b"\x80rubbish\n" + good, 0),
        (good.replace(b'"step": 3', b'"step": x'), 2),
    ):
        path.write_bytes(damaged)
        resume_refused(str(path), last, run, kind=MetasymError)
    path.unlink()
    assert resume(run)[0].step == 6
    assert json.loads(path.read_text().splitlines()[0])["step"] == 6


def test_checkpoints_of_other_files_learners_models_and_runs_are_refused(run):
    class Other(ToyMAML):
        pass

    deeper = ToyMAML(nn.Sequential(nn.Linear(3, 1), nn.Linear(1, 1)))
    for field, found, changes in (
        ("method", "ToyMAML", {"made": Other(nn.Sequential(nn.Linear(3, 1)))}),
        ("model.0.weight", "float32 [1, 3]", {"made": ToyMAML(nn.Sequential(nn.Linear(2, 1)))}),
        ("inner_lr", "float32 []", {"made": learner().double()}),
        ("model.1.weight", None, {"made": deeper}),
        ("chunk_size", None, {"made": learner(chunk_size=1)}),
        ("optimizer.lr", 0.001, {"outer_lr": 0.5}),
        ("seed", 0, {"seed": 7}),
        ("tasks_per_step", 2, {"tasks_per_step": 3}),
        ("tasks", 40, {"tasks": Lines(41)}),
        ("clip_norm", None, {"clip_norm": 1.0}),
        ("optimizer.name", "Adam", {"optimizer": lambda p: torch.optim.SGD(p, lr=1e-3)}),
        ("scheduler", None, {"scheduler": lambda o: torch.optim.lr_scheduler.StepLR(o, 2)}),
        ("validation", None, {"validation": Lines(2), "validate_every": 2}),
    ):
        resume_refused(f"{run / CURRENT}: {field}", found, run, **changes)
    safetensors.torch.save_file({"a": torch.ones(2)}, run / CURRENT)
    resume_refused(str(run / CURRENT), "another format", run, older=2)
    save(learner(), run / CURRENT)
    resume_refused(str(run / CURRENT), "a saved learner", run, older=2)


def test_another_loss_or_schedule_is_another_run(tmp_path):
    def steps(size, gamma=0.1):
        return lambda optimizer: lr_scheduler.StepLR(optimizer, size, gamma)

    for _ in train(
        learner(),
        Lines(),
        outer_steps=4,
        out=Files(tmp_path, checkpoint_every=2),
        scheduler=steps(2),
        **OPTIONS,
    ):
        pass
    for field, found, changes in (
        ("loss", "mse_loss", {"made": learner(loss=F.l1_loss), "scheduler": steps(2)}),
        ("loss", "mse_loss", {"made": learner(loss=nn.MSELoss()), "scheduler": steps(2)}),
        ("schedule.step_size", 2, {"scheduler": steps(3)}),
        ("schedule.gamma", 0.1, {"scheduler": steps(2, 0.5)}),
        ("scheduler", "StepLR", {"scheduler": lambda o: lr_scheduler.ExponentialLR(o, 0.1)}),
    ):
        resume_refused(f"{tmp_path / CURRENT}: {field}", found, tmp_path, **changes)
    assert resume(tmp_path, scheduler=steps(2))[0].step == 5


def test_a_scheduler_that_has_counted_is_still_the_same(tmp_path):
    made = learner()
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    options = {"optimizer": optimizer, "out": Files(tmp_path, checkpoint_every=2), "resume": True, **OPTIONS}
    options["scheduler"] = lr_scheduler.SequentialLR(
        optimizer,
        [lr_scheduler.LinearLR(optimizer, total_iters=4), lr_scheduler.CosineAnnealingLR(optimizer, 6)],
        milestones=[4],
    )
    list(train(made, Lines(), outer_steps=5, **options))
    assert len(list(train(made, Lines(), outer_steps=9, **options))) == 4


def test_checkpoints_from_before_a_setting_was_compared_are_still_good(run):
    state = unpack((run / CURRENT).read_bytes(), "x")
    del state["run"]["loss"], state["run"]["schedule"]
    (run / CURRENT).write_bytes(pack(state))
    assert resume(run)[0].step == 5


def test_the_settings_are_written_for_readers_and_a_config_that_is_there_is_kept(tmp_path):
    list(train(msr(), Lines(), outer_steps=1, out=Files(tmp_path / "a", checkpoint_every=2), **OPTIONS))
    written = json.loads((tmp_path / "a" / "config.json").read_text())
    assert written["learner"]["method"] == "MSR"
    assert written["learner"]["map"] == "vmap"
    assert written["run"]["tasks_per_step"] == 2
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "config.json").write_text("mine")
    list(train(msr(), Lines(), outer_steps=1, out=Files(tmp_path / "b", checkpoint_every=2), **OPTIONS))
    assert (tmp_path / "b" / "config.json").read_text() == "mine"


def test_two_runs_do_not_share_a_folder(tmp_path):
    running = train(learner(), Lines(), outer_steps=3, out=Files(tmp_path, checkpoint_every=2), **OPTIONS)
    next(running)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with refused(str(tmp_path), "a run that trains there"):
        resume(tmp_path)
    program = f"import tests.training.test_checkpoint as t; t.resume(t.Path({str(tmp_path)!r}))"
    other = forked.run(["-c", program], cwd=HERE)
    assert "MetasymError" in other.stderr
    assert "no other run writes to" in other.stderr
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    running.close()
    assert [r.step for r in resume(tmp_path, outer_steps=3)] == [1, 2, 3]


def test_a_killed_run_leaves_no_lock(tmp_path):
    program = (
        "import os, signal, tests.training.test_checkpoint as t\n"
        f"files = t.Files({str(tmp_path)!r}, checkpoint_every=2)\n"
        "for _ in t.train(t.learner(), t.Lines(), outer_steps=9, out=files, **t.OPTIONS):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = forked.run(["-c", program], cwd=HERE)
    assert killed.returncode == -9, killed.stderr
    assert [r.step for r in resume(tmp_path, outer_steps=2)] == [1, 2]


def test_a_newer_format_is_named(run, monkeypatch):
    monkeypatch.setattr("metasym.storage.serialization.VERSION", 2)
    newer = pack({"learner": {}})
    monkeypatch.undo()
    (run / CURRENT).write_bytes(newer)
    resume_refused(str(run / CURRENT), ("metasym", 2), run, older=2)


def test_a_folder_with_a_run_is_not_overwritten(run):
    for name in (CURRENT, PREVIOUS):
        with refused(str(run), name, CheckpointError):
            resume(run, resume=False)
        (run / name).unlink()
    with refused(str(run / "metrics.jsonl"), "records"):
        resume(run, resume=False)


def test_a_full_disk_keeps_the_checkpoint_that_is_there(run, monkeypatch):
    before = (run / CURRENT).read_bytes()

    def full(_fd):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("metasym.training.checkpoint.os.fsync", full)
        with refused(str(run / CURRENT), "No space left on device"):
            save(learner(), run / CURRENT)
    assert (run / CURRENT).read_bytes() == before
    assert not list(run.glob("*.tmp"))


def test_save_and_load_of_tied_and_strided_parameters(tmp_path):
    def tied():
        made = learner(dropout=0.1)
        made.model.extra = nn.Linear(3, 4)
        made.model.extra.weight = made.model[0].weight
        made.model.view = nn.Parameter(torch.arange(6.0).view(2, 3).t())
        made.register_buffer("rows", made.model[0].weight.detach()[:2])
        return made

    source, target = tied(), tied()
    with torch.no_grad():
        for parameter in source.parameters():
            parameter.normal_()
    save(source, tmp_path / "a.safetensors")
    assert load(tmp_path / "a.safetensors", target) is target
    assert bits(target) == bits(source)
    assert target.model.extra.weight is target.model[0].weight


def test_load_takes_the_best_of_a_run_and_says_what_does_not_fit(run, tmp_path):
    folder = tmp_path / "validated"
    made = learner()
    options = {**OPTIONS, "optimizer": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)}
    steps = list(
        train(
            made,
            Lines(),
            outer_steps=8,
            validation=Lines(3),
            validate_every=1,
            out=Files(folder, checkpoint_every=2),
            **options,
        )
    )
    scores = [r.validation for r in steps]
    assert min(scores) < scores[-1], "the run has to get worse again for this test"
    assert bits(load(folder / CURRENT, learner(seed=1))) == bits(made)
    assert bits(load(folder / CURRENT, learner(seed=1), best=False)) != bits(made)
    assert bits(load(folder / CURRENT, learner(chunk_size=1))) == bits(made)
    with refused(f"{folder / CURRENT}: model.0.weight", "float32 [1, 3]", CheckpointError):
        load(folder / CURRENT, ToyMAML(nn.Sequential(nn.Linear(2, 1))))
    with refused(str(tmp_path / "missing"), os.strerror(errno.ENOENT), CheckpointError):
        load(tmp_path / "missing", made)
    with refused(str(tmp_path / "missing" / "a"), os.strerror(errno.ENOENT)):
        save(made, tmp_path / "missing" / "a")
