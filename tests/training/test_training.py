"""The outer step: what is drawn, descended, validated and recorded."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR

from metasym.tasks.arrays import ArrayTasks
from metasym.tasks.sampling import sample
from metasym.training.checkpoint import load
from metasym.training.distributed import Ranks
from metasym.training.episodes import Supply
from metasym.training.loop import train
from metasym.training.randomness import step_seed, task_ids
from metasym.training.settings import Files, Validation
from tests.refusals import refused
from tests.training.toy_learner import Lines, ToyMAML, bits, flat, learner, msr, reproducible

SILENT = {"progress": "silent"}


def test_a_step_is_adam_on_the_mean_query_loss_of_the_drawn_tasks():
    made, oracle = learner(), learner()
    records = list(train(made, Lines(), outer_steps=5, tasks_per_step=4, outer_lr=0.01, seed=3, **SILENT))
    optimizer = torch.optim.Adam(oracle.parameters(), lr=0.01)
    for record in records:
        seed = step_seed(3, record.step)
        losses = oracle.outer_loss(sample(Lines(), task_ids(seed, 40, 4), seed))
        optimizer.zero_grad()
        losses.query.mean().backward()
        optimizer.step()
        norm = torch.cat([p.grad.reshape(-1) for p in oracle.parameters()]).norm()
        assert record.outer_loss == pytest.approx(losses.query.mean().item(), rel=1e-6)
        assert record.inner_loss_before == pytest.approx(losses.before.mean().item(), rel=1e-6)
        assert record.inner_loss_after == pytest.approx(losses.after.mean().item(), rel=1e-6)
        assert record.gradient_norm == pytest.approx(norm.item(), rel=1e-6)
        assert record.step_sizes == {"model": pytest.approx(oracle.inner_lr.item())}
        assert record.steps_per_second > 0
    torch.testing.assert_close(flat(made), flat(oracle), rtol=0, atol=1e-6)


def test_it_learns():
    records = list(train(learner(), Lines(), outer_steps=200, tasks_per_step=8, outer_lr=0.03, **SILENT))
    assert records[-1].outer_loss < 0.3 * records[0].outer_loss


def test_draws_are_distinct_cover_the_tasks_and_depend_on_seed_and_step_alone():
    drawn = [task_ids(step_seed(0, step), 10, 4) for step in range(50)]
    assert all(len(set(ids.tolist())) == 4 for ids in drawn)
    assert {int(i) for ids in drawn for i in ids} == set(range(10))
    assert torch.equal(drawn[7], task_ids(step_seed(0, 7), 10, 4))
    assert not torch.equal(drawn[7], task_ids(step_seed(1, 7), 10, 4))
    assert task_ids(1, 10, 10).tolist() == task_ids(1, 10, 32).tolist() == list(range(10))
    assert task_ids(1, 2**40, 3).unique().numel() == 3


def test_equal_seeds_give_equal_bits_and_chunks_equal_values():
    runs = []
    for options in ({}, {}, {"chunk_size": 2}):
        made = learner(**options)
        records = list(train(made, Lines(), outer_steps=6, tasks_per_step=5, **SILENT))
        runs.append((made, list(map(reproducible, records))))
    assert bits(runs[0][0]) == bits(runs[1][0])
    assert runs[0][1] == runs[1][1]
    torch.testing.assert_close(flat(runs[0][0]), flat(runs[2][0]), rtol=0, atol=1e-6)


def test_clipping_bounds_the_step_and_records_the_norm_before():
    made = learner()
    start = flat(made)
    options = {"optimizer": lambda p: torch.optim.SGD(p, lr=1.0), "clip_norm": 0.01}
    (record,) = train(made, Lines(), outer_steps=1, **options, **SILENT)
    assert record.gradient_norm > 0.1
    assert (flat(made) - start).norm().item() == pytest.approx(0.01, rel=1e-3)


class Expanded(ToyMAML):
    """Gives both parameters of its layer one expanded gradient, as autograd may."""

    def outer_gradient(self, episodes, *, total_tasks=None):
        losses, gradient = super().outer_gradient(episodes, total_tasks=total_tasks)
        return losses, {k: torch.full((1,), 2.0).expand(g.numel()).view(g.shape) for k, g in gradient.items()}


@pytest.mark.parametrize("clip_norm", [None, 0.1])
def test_an_expanded_gradient_is_applied_as_what_it_says(clip_norm):
    made = Expanded(nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)))
    start = flat(made)
    list(train(made, Lines(), outer_steps=3, outer_lr=0.01, clip_norm=clip_norm, **SILENT))
    torch.testing.assert_close(start - flat(made), torch.full_like(start, 0.03))


def test_validation_keeps_the_best_and_goes_by_the_goal(tmp_path):
    def score(prediction, target):
        return (prediction - target).square().mean()

    worse_again = 0
    for goal, pick in (("min", min), ("max", max)):
        made = learner()
        held_out = Validation(Lines(3), every=2, metric=score, goal=goal)
        latest = dataclasses.replace(held_out, keep_best=False)
        options = {"optimizer": lambda p: torch.optim.Adam(p, lr=0.3)}
        options |= {"outer_steps": 12, "tasks_per_step": 2, **SILENT}
        last, seen = learner(), {}
        for record in train(last, Lines(), validation=latest, **options):
            assert (record.validation_seconds is None) == (record.validation is None)
            if record.validation is not None:
                seen[record.step] = (record.validation, bits(last))
        assert list(seen) == [2, 4, 6, 8, 10, 12]
        assert bits(last) == seen[12][1]
        best = pick(seen.values(), key=lambda entry: entry[0])
        worse_again += best[1] != seen[12][1]
        records = train(made, Lines(), validation=held_out, **options)
        for _ in range(12):  # exactly as often as there are steps: the last Record comes with the best
            next(records)
        assert best[1] == bits(made)
        records.close()
        # A checkpoint gives what the learner had.
        for validation, wanted in ((held_out, best[1]), (latest, seen[12][1])):
            folder = tmp_path / f"{goal}-{validation.keep_best}"
            options |= {"validation": validation, "out": Files(folder, checkpoint_every=5)}
            list(train(learner(), Lines(), **options))
            assert bits(load(folder / "checkpoint.safetensors", learner())) == wanted
    assert worse_again > 0, "a run has to get worse again for this test"


def test_validation_can_use_fewer_tasks():
    few = [
        next(iter(train(learner(), Lines(), outer_steps=1, validation=held_out, **SILENT))).validation
        for held_out in (Validation(Lines(50), 1, count=n) for n in (2, 2, 50, None))
    ]
    assert few[0] == few[1] != few[2] == few[3]


def test_bfloat16_autocast_trains_near_full_precision():
    full, mixed = learner(), learner()
    a = list(train(full, Lines(), outer_steps=5, **SILENT))
    b = list(train(mixed, Lines(), outer_steps=5, autocast="bfloat16", **SILENT))
    assert a[0].outer_loss != b[0].outer_loss
    assert a[0].outer_loss == pytest.approx(b[0].outer_loss, rel=0.05)
    assert all(p.dtype == torch.float32 for p in mixed.parameters())


@pytest.mark.parametrize("options", [{"every": 0}, {"goal": "up"}, {"count": 0}])
def test_bad_choices_of_validation_are_errors(options):
    with refused(*next(iter(options.items()))):
        Validation(Lines(2), **{"every": 1, **options})


def test_checkpoints_at_no_step_are_refused(tmp_path) -> None:
    with refused("checkpoint_every", 0):
        Files(tmp_path, checkpoint_every=0)


@pytest.mark.parametrize(
    ("options", "about", "found"),
    [
        ({"outer_steps": 0}, "outer_steps", 0),
        ({"tasks_per_step": 0}, "tasks_per_step", 0),
        ({"outer_lr": -1.0}, "outer_lr", -1.0),
        ({"clip_norm": 0.0}, "clip_norm", 0.0),
        ({"on_nonfinite": "ignore"}, "on_nonfinite", "ignore"),
        ({"progress": "loud"}, "progress", "loud"),
        ({"autocast": "float16"}, "autocast", "float16"),
        ({"validation": Lines(2)}, "validation, validate_every", (True, 0)),
        ({"validation": Lines(2), "validate_every": 0}, "validation, validate_every", (True, 0)),
        ({"validate_every": 3}, "validation, validate_every", (False, 3)),
        ({"validation": Validation(Lines(2), 3), "validate_every": 3}, "validate_every", 3),
        ({"seed": 1.5}, "seed", 1.5),
        ({"seed": 2**63}, "seed", 2**63),
        ({"seed": None}, "seed", None),
        ({"device": "abacus"}, "device", "abacus"),
        ({"device": "mps"}, "device", "mps"),
        ({"device": "xpu"}, "device", "xpu"),
        ({"device": "meta"}, "device", "meta"),
        ({"device": 1.5}, "device", 1.5),
        ({"optimizer": "adam"}, "optimizer", "adam"),
        ({"optimizer": lambda p: None}, "optimizer", None),
        ({"scheduler": 3}, "scheduler", 3),
    ],
)
def test_bad_arguments_are_refused_at_the_call(options, about, found):
    with refused(about, found):
        train(learner(), Lines(), **{"outer_steps": 1, **options})


def test_a_metric_that_there_is_not_is_refused_when_it_is_named():
    with refused("metric", "f1"):
        Validation(Lines(2), 1, metric="f1")


def test_no_tasks_and_no_gpu_are_refused():
    with refused("tasks", 0):
        train(learner(), Lines(0), outer_steps=1)
    if not torch.cuda.is_available():
        with refused("device", 0):
            train(learner(), Lines(), outer_steps=1, device="cuda")


def test_an_optimizer_and_its_scheduler_can_be_given_as_they_are():
    made, other = msr(), msr()
    optimizer = torch.optim.SGD(made.outer_parameters().values(), lr=0.1, momentum=0.9)
    scheduler = StepLR(optimizer, 2)
    options = {"outer_steps": 5, "tasks_per_step": 3, **SILENT}
    ready = list(train(made, Lines(), optimizer=optimizer, scheduler=scheduler, **options))
    factories = {
        "optimizer": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        "scheduler": lambda o: StepLR(o, 2),
    }
    assert list(map(reproducible, ready)) == [
        reproducible(r) for r in train(other, Lines(), **factories, **options)
    ]
    assert bits(made) == bits(other) != bits(msr())
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.001)


def test_an_optimizer_of_some_outer_parameters_leaves_the_others():
    made = msr()
    before = bits(made)
    (name, first), *_ = made.outer_parameters().items()
    optimizer = torch.optim.SGD([first], lr=0.1)
    list(train(made, Lines(), outer_steps=1, optimizer=optimizer, **SILENT))
    assert [key for key, value in bits(made).items() if value != before[key]] == [name]


def test_optimizers_and_schedulers_of_something_else_are_refused():
    made, other = msr(), msr()
    own = torch.optim.SGD(made.outer_parameters().values(), lr=0.1)
    foreign = torch.optim.SGD([*made.outer_parameters().values(), *other.parameters()], lr=0.1)
    for options, about, found in (
        ({"optimizer": torch.optim.SGD(other.parameters(), lr=0.1)}, "optimizer", 5),
        ({"optimizer": foreign}, "optimizer", 5),
        ({"scheduler": StepLR(own, 2)}, "scheduler", "of another optimizer"),
        ({"optimizer": own, "scheduler": StepLR(foreign, 2)}, "scheduler", "of another optimizer"),
        ({"optimizer": torch.optim.LBFGS(made.outer_parameters().values())}, "optimizer", "LBFGS"),
    ):
        with refused(about, found):
            train(made, Lines(), outer_steps=1, **options)


def test_a_learner_on_no_real_device_is_refused():
    with refused("device", "meta"):
        train(learner().to("meta"), Lines(), outer_steps=1)


@pytest.mark.parametrize("examples", [2, 5000])
def test_episodes_made_ahead_are_those_of_their_step(examples: int) -> None:
    """Those of eight steps at once, and of one where they are large, from any step on, and on two ranks."""
    x = torch.arange(10.0 * examples).view(10, examples, 1)
    tasks = ArrayTasks(x, x + 0.5, support=1)
    ranks = [Supply(tasks, seed=3, wanted=4, ranks=r) for r in (Ranks(), Ranks(0, 2), Ranks(1, 2))]
    for step in [*range(1, 70), 7, 100, 101]:
        seed = step_seed(3, step)
        wanted = task_ids(seed, 10, 4)
        expected = sample(tasks, wanted, seed)
        (ids, whole), *halves = (supply.at(step) for supply in ranks)
        assert torch.equal(ids, wanted)
        assert torch.equal(whole.ids, wanted)
        for side in (0, 1):
            for part in (0, 1):
                assert torch.equal(whole[part][side], expected[part][side])
                joined = torch.cat([half[part][side] for _, half in halves])
                assert torch.equal(joined, expected[part][side])
