"""Resumed runs equal undisturbed ones, bit for bit, whatever the optimizer, scheduler or randomness."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, RMSprop, lr_scheduler

import metasym as ms
from metasym.engines.plan import Choice
from metasym.learners import MAML, MSR
from metasym.storage.file_names import CURRENT
from metasym.tasks.arrays import ArrayTasks
from metasym.training.checkpoint import read_training
from metasym.training.loop import train
from metasym.training.settings import Files
from tests.refusals import refused
from tests.training.toy_learner import Lines, bits, learner, reproducible

OPTIONS = {"tasks_per_step": 3, "progress": "silent"}

OPTIMIZERS = {
    "default": None,
    "adam": lambda p: Adam(p, lr=0.01, amsgrad=True),
    "adam-tensor-lr": lambda p: Adam(p, lr=torch.tensor(0.01)),
    "momentum": lambda p: SGD(p, lr=0.01, momentum=0.9, nesterov=True),
    "adamw": lambda p: AdamW(p, lr=0.01, fused=True),
    "rmsprop": lambda p: RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "groups": lambda p: SGD([{"params": [q], "lr": 0.01 * (i + 1)} for i, q in enumerate(p)]),
}
SCHEDULERS = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.9**step),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.5),
    "multistep": lambda o: lr_scheduler.MultiStepLR(o, [2, 5, 7]),
    "sequential": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, total_iters=4), lr_scheduler.CosineAnnealingLR(o, 6)], milestones=[4]
    ),
    "onecycle": lambda o: lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=12),
    "chained": lambda o: lr_scheduler.ChainedScheduler(
        [lr_scheduler.ConstantLR(o, total_iters=4), lr_scheduler.ExponentialLR(o, 0.9)]
    ),
}


def compare(tmp_path, made=learner, stop=7, steps=10, **changes):
    """Ten steps at once, and ten steps by a process that went away after ``stop``, give the same bits."""
    options = {"outer_steps": steps, **OPTIONS, **changes}
    whole, broken, resumed = made(), made(), made(seed=1)
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    expected = list(train(whole, Lines(), out=Files(tmp_path / "a", checkpoint_every=3), **options))
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    for record in train(broken, Lines(), out=Files(tmp_path / "b", checkpoint_every=3), **options):
        if record.step == stop:
            break
    torch.manual_seed(6)
    rest = list(
        train(resumed, Lines(), out=Files(tmp_path / "b", checkpoint_every=3), resume=True, **options)
    )
    assert rest[0].step == 1 + stop - stop % 3
    assert list(map(reproducible, rest)) == list(map(reproducible, expected[-len(rest) :]))
    assert bits(resumed) == bits(whole)
    return expected


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer(tmp_path, name):
    compare(tmp_path, optimizer=OPTIMIZERS[name])


@pytest.mark.parametrize("name", SCHEDULERS)
def test_every_scheduler(tmp_path, name):
    optimizers = []

    def watched(optimizer):
        made = SCHEDULERS[name](optimizer)
        optimizers.append(optimizer)
        return made

    compare(tmp_path, optimizer=lambda p: SGD(p, lr=0.05, momentum=0.5), scheduler=watched)
    first, _, resumed = (o.param_groups[0]["lr"] for o in optimizers)
    assert first == resumed != 0.05


def test_a_scheduled_rate_that_is_a_tensor(tmp_path):
    compare(tmp_path, optimizer=OPTIMIZERS["adam-tensor-lr"], scheduler=SCHEDULERS["lambda"])


def test_a_plateau_follows_the_validation_score(tmp_path):
    compare(tmp_path, scheduler=SCHEDULERS["plateau"], validation=Lines(3), validate_every=2)


class Noisy(Lines):
    """Tasks that, against the rules, draw from the global generators."""

    def episode(self, index, generator):
        found = super().episode(index, generator)
        shift = random.random() + float(np.random.rand())  # noqa: NPY002
        return found._replace(support=found.support._replace(x=found.support.x + 0.1 * shift))


def test_all_global_random_state(tmp_path, monkeypatch):
    monkeypatch.setattr(f"{__name__}.Lines", Noisy)
    expected = compare(tmp_path, made=lambda seed=0: learner(seed=seed, dropout=0.5))
    assert len({r.outer_loss for r in expected}) == len(expected)


def test_a_parameter_in_another_memory_layout(tmp_path):
    def strided(seed=0):
        made = learner(seed=seed, dropout=0.1)
        weight = made.model[0].weight
        weight.data = weight.data.t().contiguous().t()
        assert not weight.is_contiguous()
        return made

    compare(tmp_path / "default", made=strided)
    compare(tmp_path / "fused", made=strided, optimizer=lambda p: Adam(p, lr=0.01, fused=True))


def test_resuming_a_finished_run_goes_on_to_more_steps(tmp_path):
    whole, short = learner(), learner()
    options = {**OPTIONS, "validation": Lines(3), "validate_every": 4}
    expected = list(
        train(whole, Lines(), outer_steps=10, out=Files(tmp_path / "a", checkpoint_every=3), **options)
    )
    list(train(short, Lines(), outer_steps=5, out=Files(tmp_path / "b", checkpoint_every=3), **options))
    assert (
        list(
            train(
                learner(seed=2),
                Lines(),
                outer_steps=5,
                out=Files(tmp_path / "b", checkpoint_every=3),
                resume=True,
                **options,
            )
        )
        == []
    )
    longer = learner(seed=2)
    rest = list(
        train(
            longer,
            Lines(),
            outer_steps=10,
            out=Files(tmp_path / "b", checkpoint_every=3),
            resume=True,
            **options,
        )
    )
    assert list(map(reproducible, rest)) == list(map(reproducible, expected[5:]))
    assert bits(longer) == bits(whole)


def test_resume_without_a_checkpoint_starts_afresh(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("left by a run killed before its first checkpoint")
    left = tmp_path / "checkpoint.safetensors.0123abcd.tmp"
    left.write_text("half of a")
    found = list(
        train(
            learner(), Lines(), outer_steps=2, out=Files(tmp_path, checkpoint_every=3), resume=True, **OPTIONS
        )
    )
    assert [r.step for r in found] == [1, 2]
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 2
    assert not left.exists()


def test_an_optimizer_that_needs_a_closure_is_refused():
    with refused("optimizer", "LBFGS"):
        train(learner(), Lines(), outer_steps=2, optimizer=torch.optim.LBFGS, **OPTIONS)


def test_resuming_with_another_engine_says_so_in_one_line(tmp_path, caplog):
    """The checkpoint holds which engine and kernels ran; the bits may differ, and nobody would know."""

    def layer(**options):
        torch.manual_seed(0)
        model = ms.reparameterize(nn.Linear(3, 1, bias=False), "dense", filter_size=2)
        return MSR(model, inner_steps=1, **options)

    list(train(layer(), Lines(), outer_steps=2, out=Files(tmp_path, checkpoint_every=3), **OPTIONS))
    stored = read_training(tmp_path / CURRENT)
    assert stored["computed_by"]["engine"] == "closed"
    list(
        train(
            layer(), Lines(), outer_steps=3, out=Files(tmp_path, checkpoint_every=3), resume=True, **OPTIONS
        )
    )
    assert not caplog.records
    with pytest.MonkeyPatch.context() as patch:
        mapped = Choice("engine", "mapped", "as if the estimates were others")
        patch.setattr("metasym.engines.select.choose", lambda *_: mapped)
        list(
            train(
                layer(),
                Lines(),
                outer_steps=4,
                out=Files(tmp_path, checkpoint_every=3),
                resume=True,
                **OPTIONS,
            )
        )
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith("metasym: resumed at step 3 with engine mapped instead of closed")
    assert "\n" not in said


def test_resuming_without_the_compiled_kernels_says_so_in_one_line(tmp_path, caplog, monkeypatch):
    """As on a machine without a compiler: the engine is the same, its kernel is not, and the last bits may differ."""

    def convolution():
        torch.manual_seed(0)
        return MAML(nn.Conv2d(1, 2, 3, bias=False), inner_steps=1, paths="engine=closed")

    draw = torch.Generator().manual_seed(0)
    images = (torch.randn(5, 4, *shape, generator=draw) for shape in ((1, 8, 8), (2, 6, 6)))
    tasks = ArrayTasks(*images, support=1)
    monkeypatch.setattr("metasym.engines.kernels.engine_kernels.library", lambda name: object())
    list(train(convolution(), tasks, outer_steps=2, out=Files(tmp_path, checkpoint_every=3), **OPTIONS))
    before = {"engine": "closed", "patch_moments": "compiled"}
    assert read_training(tmp_path / CURRENT)["computed_by"] == before
    monkeypatch.setattr("metasym.engines.kernels.engine_kernels.library", lambda name: None)
    list(
        train(
            convolution(),
            tasks,
            outer_steps=3,
            out=Files(tmp_path, checkpoint_every=3),
            resume=True,
            **OPTIONS,
        )
    )
    (record,) = caplog.records
    said = record.getMessage()
    assert said.startswith(
        "metasym: resumed at step 2 with patch_moments torch instead of compiled: the last"
    )
    assert "\n" not in said
    assert read_training(tmp_path / CURRENT)["computed_by"] == {**before, "patch_moments": "torch"}
