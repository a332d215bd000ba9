"""The first stage of ``best``: how few filter entries are needed, and what the second stage is given."""

from __future__ import annotations

import torch

from metasym.paper import find
from metasym.runs.reproducing import experiment_run
from metasym.runs.reproducing.experiment_run import load_run, run
from metasym.storage.file_names import CURRENT
from metasym.symmetry.reparam import symmetries
from metasym.training.checkpoint import read_training
from tests.runs.reproducing.quick_runs import NAME, QUICK


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
