"""A checkpoint that someone has changed and sealed again: one line with the file and the part."""

from __future__ import annotations

import pytest
import torch

from metasym.storage.file_names import CURRENT
from metasym.storage.serialization import CheckpointError, pack, unpack
from metasym.training.loop import train
from tests.refusals import refused
from tests.training.toy_learner import Lines, learner

OPTIONS = {"tasks_per_step": 3, "outer_lr": 0.01, "seed": 1, "progress": "silent"}


def schedule(optimizer):
    return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    train(
        learner(),
        Lines(),
        outer_steps=2,
        out=folder,
        scheduler=schedule,
        validation=Lines(3),
        validate_every=1,
        **OPTIONS,
    ).run()
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def put(path, value):
    def change(state):
        holder = state
        for step in path[:-1]:
            holder = holder[step]
        if value is KeyError:
            del holder[path[-1]]
        else:
            holder[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "part"),
    [
        (("step",), -1, "step"),
        (("step",), None, "step"),
        (("step",), 2**70, "step"),
        (("run",), [], "run"),
        (("run", "seed"), torch.ones(2), ""),
        (("describe",), 3, "describe"),
        (("learner",), {}, "inner_lr"),
        (("optimizer",), {}, "optimizer.param_groups"),
        (("optimizer", "param_groups"), [], "optimizer.param_groups"),
        (("optimizer", "param_groups", 0, "lr"), {}, "optimizer.param_groups[0].lr"),
        (("optimizer", "param_groups", 0, "lr"), None, "optimizer.param_groups[0].lr"),
        (("optimizer", "param_groups", 0, "betas"), [0.9], "optimizer.param_groups[0].betas"),
        (("optimizer", "state"), 3, "optimizer.state"),
        (("optimizer", "state", 99), {}, "optimizer.state"),
        (("optimizer", "state", 0, "exp_avg"), torch.ones(1000), "optimizer.state.0.exp_avg"),
        (("optimizer", "state", 0, "exp_avg"), KeyError, "optimizer"),
        (("scheduler",), [], "scheduler"),
        (("scheduler", "step"), 3, "scheduler"),
        (("scheduler", "last_epoch"), "x", "scheduler.last_epoch"),
        (("best",), {"value": 1.0}, "best.step"),
        (("best", "state"), {}, "best.state: inner_lr"),
        (("random",), None, "random"),
        (("random", 0, "torch"), torch.ones(3), "random"),
        (("random", 0, "python"), (3, (1, 2), None), "random"),
        (("random", 0, "numpy"), {}, "random[0].numpy.bit_generator"),
        (("random", 0, "numpy", "bit_generator"), "os.system", "random"),
    ],
)
def test_every_part_is_checked(tmp_path, stored, path, value, part):
    for name, data in stored.items():
        (tmp_path / name).write_bytes(data)
    state = unpack(stored[CURRENT], "x")
    put(path, value)(state)
    (tmp_path / CURRENT).write_bytes(pack(state))
    held_out = {"validation": Lines(3), "validate_every": 1}
    with refused(f"{tmp_path / CURRENT}: {part}" if part else "settings", kind=CheckpointError):
        train(
            learner(),
            Lines(),
            outer_steps=4,
            out=tmp_path,
            resume=True,
            scheduler=schedule,
            **held_out,
            **OPTIONS,
        ).run()
