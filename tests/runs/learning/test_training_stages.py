"""The parts of training that decide something: what is pruned, which penalty, when to stop."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import metasym as ms
from metasym.diagnosis.checks import diagnose
from metasym.runs.files.learn_options import Options
from metasym.runs.learning.automatic_choices import choose
from metasym.runs.learning.chosen_learners import choose_penalty, iterations, msr
from metasym.runs.learning.restored_directions import choose_strength, missing
from metasym.runs.learning.training_stages import FIND_LR, NUCLEAR, _is_over, _tolerance, find_rates
from metasym.tasks.reading import read_tasks
from metasym.tasks.stored import StoredTasks
from tests.runs.learning.test_learn import circular


def prepared(folder, U: torch.Tensor, noise: float = 0.0):
    """Tasks of Z_4, the choices for them, and a learner with the given U."""
    data = circular(tasks=40)
    data["y"] = data["y"] + noise * np.random.default_rng(1).standard_normal(data["y"].shape)
    np.savez(folder / "tasks.npz", **data)
    file = read_tasks(folder / "tasks.npz")
    choices, _ = choose(file, Options(solver="ridge"), diagnose(file))
    layer = torch.nn.Linear(4, 4, bias=False)
    symmetry = ms.DenseSymmetry((4, 4), U=U.float())
    ms.reparameterize(layer, lambda *_: symmetry, filter_std=0.0)
    return (
        choices,
        msr(choices, layer, F.mse_loss),
        StoredTasks(file, range(40), support=4, layout=choices.layout),
    )


def with_more(scale: float) -> torch.Tensor:
    """The four directions that the tasks use, and three that they do not, ``scale`` times as long."""
    used = ms.groups.equivariant_basis(ms.groups.cyclic(4), ms.groups.cyclic(4))
    other = torch.linalg.svd(used).U[:, 4:7]
    return 3 * torch.cat([used, scale * other], dim=1)


@pytest.mark.parametrize(("scale", "tolerance"), [(0.4, 0.5), (0.2, 0.5), (0.002, 0.5)])
def test_what_the_tasks_do_not_use_is_pruned(tmp_path, scale, tolerance):
    choices, learner, tasks = prepared(tmp_path, with_more(scale))
    assert _tolerance(choices, learner, tasks) == tolerance
    assert ms.compress(learner.model, tolerance=tolerance) == {"": 4}


def test_what_the_tasks_do_use_stays_however_weak(tmp_path):
    U = with_more(0.0)[:, :4]
    U[:, 3] *= 0.08
    choices, learner, tasks = prepared(tmp_path, U)
    assert _tolerance(choices, learner, tasks) < 0.08


def test_what_was_never_seen_is_given_back(tmp_path):
    """The defect of few tasks: a U that lacks a direction is no worse pruned than whole, so nothing was noticed."""
    choices, learner, tasks = prepared(tmp_path, with_more(0.0)[:, :3])
    square = float(np.square(circular(tasks=40)["y"]).mean())
    found, given = missing(choices, learner, tasks, square)
    assert given is not None
    assert given.before_train > 0.1 * square
    assert given.after_train < 0.01 * square
    assert found.model.weight.shape == (4, 4)
    assert found.penalty == learner.penalty


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_U_with_all_directions_is_left_alone(tmp_path, noise):
    choices, learner, tasks = prepared(tmp_path, with_more(0.0)[:, :4], noise)
    assert missing(choices, learner, tasks, 1.0) == (learner, None)


def test_a_filter_size_that_was_asked_for_is_kept(tmp_path):
    choices, learner, tasks = prepared(tmp_path, with_more(0.0)[:, :3])
    asked = dataclasses.replace(choices, filter_size=3)
    assert missing(asked, learner, tasks, 1.0) == (learner, None)


def test_a_symmetry_stays_readable_unless_that_costs_too_much():
    errors = {0.0: (0.6, 0.4), 0.01: (0.6, 0.01), 0.1: (0.58, 0.0), 0.3: (0.5, 0.0), 1.0: (0.55, 0.0)}
    assert choose_strength(errors, [], 1.0) == 0.3  # the best from few examples
    assert choose_strength(errors, [0.0, 0.01, 0.1], 1.0) == 0.1
    assert choose_strength({**errors, 1.0: (0.1, 0.0)}, [0.0, 0.01, 0.1], 1.0) == 1.0
    assert choose_strength({0.0: (0.01, 0.02), 0.01: (0.02, 0.0), 1.0: (0.9, 0.0)}, [0.0, 0.01], 1.0) == 0.0
    assert choose_strength({0.0: (0.5, 0.5), 0.01: (0.51, 0.2), 1.0: (0.9, 0.0)}, [], 1.0) == 0.01


def test_the_penalty_follows_the_noise(tmp_path):
    clean, noisy = (prepared(tmp_path, with_more(0.0)[:, :4] / 3, noise) for noise in (0.0, 1.0))
    assert choose_penalty(*clean) < 1e-3
    assert choose_penalty(*noisy) > 1e-2


def test_training_stops_some_time_after_the_best():
    assert not _is_over([], "mse", 2)
    assert not _is_over([3.0, 1.0, 2.0], "mse", 2)
    assert _is_over([3.0, 1.0, 2.0, 1.5], "mse", 2)
    assert not _is_over([3.0, 1.0, 2.0, 0.5], "mse", 2)
    assert _is_over([0.2, 0.9, 0.5, 0.6], "accuracy", 2)
    assert _is_over([1.0, math.nan, math.nan], "mse", 2)


def test_rates_of_the_first_stage_follow_the_size_of_U():
    assert find_rates(64) == (FIND_LR, NUCLEAR)
    rate, nuclear = find_rates(4760)
    assert rate < FIND_LR / 5
    assert nuclear == pytest.approx(0.1)


def test_no_more_iterations_than_there_are_examples():
    assert iterations(1) == 1
    assert iterations(100) == 20
