"""Table 3's cells: their recipes, and whole runs of each on tiny images."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

from metasym.cli import main
from metasym.learners import ANIL, MAML, MSR, ProtoNet
from metasym.paper import find, names
from metasym.paper.build import build_few_shot_model, build_problem, learner_of
from metasym.paper.config import Recipe
from metasym.paper.image_cells import COLUMNS, METHODS, TABLE3, setting
from metasym.paper.network_sizes import counts
from metasym.runs.reproducing.experiment_run import command, load_run, run
from metasym.runs.reproducing.whole_tables import QUICK, plan, reproduce
from metasym.runs.spent_resources import Spent
from metasym.storage.json_files import read_json, write_json
from metasym.tasks.sampling import sample
from metasym.training.distributed import connect
from tests.refusals import refused, refused_command
from tests.runs.reproducing.tiny_images import FEW, tiny

__all__ = ["tiny"]  # a fixture


@pytest.mark.paper
def test_the_papers_recipes():
    for name in names("aug-*"):
        recipe, column = find(name).recipe, setting(find(name).problem)
        omniglot = column.data == "omniglot"
        assert (recipe.outer_steps, recipe.test_tasks) == (60_000, 1000)
        assert (recipe.inner_steps, recipe.test_inner_steps) == (1, 3)
        assert recipe.inner_lr == (0.4 if omniglot else 0.05)
        assert recipe.tasks_per_step == (32 if omniglot else 10)
        assert recipe.outer_lr == (5e-4 if name.startswith("aug-miniimagenet/5way-5shot") else 1e-3)
        assert (recipe.queries, recipe.test_queries, recipe.optimizer) == (15, 15, "adam")
    assert str(TABLE3["aug-omniglot/5way-1shot/msr"]) == "95.3 ± 0.3"
    assert str(TABLE3["aug-omniglot/20way-1shot/anil"]) == "67.5 ± 3.5"
    assert str(TABLE3["aug-miniimagenet/5way-5shot/maml-d8"]) == "56.8 ± 1.1"


SMALLER = {"outer_steps", "tasks_per_step", "queries"}


@pytest.mark.parametrize(
    ("budget", "others"), [("paper-cpu", {"test_tasks"}), ("paper-day", {"schedule", "validate_every"})]
)
def test_a_budget_changes_few_fields_only_and_the_same_for_all_methods(budget, others):
    for column in COLUMNS:
        budgets = set()
        for method in METHODS:
            paper, cheap = (find(f"{column}/{method}", r).recipe for r in ("paper", budget))
            changed = {
                f.name for f in dataclasses.fields(Recipe) if getattr(paper, f.name) != getattr(cheap, f.name)
            }
            assert changed == SMALLER | others
            assert all(getattr(cheap, name) < getattr(paper, name) for name in SMALLER)
            budgets.add(tuple(getattr(cheap, name) for name in sorted(changed)))
        assert len(budgets) == 1


def test_the_best_recipe_sees_as_many_tasks_as_a_day_and_is_the_same_for_all_methods():
    for column in COLUMNS:
        changed = []
        for method in METHODS:
            day, best = (find(f"{column}/{method}", r).recipe for r in ("paper-day", "best"))
            assert best.outer_steps * best.tasks_per_step == day.outer_steps * day.tasks_per_step
            assert best.test_tasks == day.test_tasks == 1000
            fields = [f.name for f in dataclasses.fields(Recipe)]
            changed.append({f: getattr(best, f) for f in fields if getattr(best, f) != getattr(day, f)})
        assert all(found == changed[0] for found in changed)
        assert changed[0]["choose_inner_steps"] >= 3  # the paper's number is among those to choose from


def test_the_sizes_of_the_budgets():
    omniglot = find("aug-omniglot/20way-5shot/anil", "paper-cpu").recipe
    assert (omniglot.outer_steps, omniglot.tasks_per_step, omniglot.queries) == (1000, 16, 5)
    assert (omniglot.test_tasks, omniglot.test_queries) == (600, 15)
    hour, day = (find("aug-miniimagenet/5way-1shot/msr", r).recipe for r in ("paper-cpu", "paper-day"))
    assert day.outer_steps * day.tasks_per_step == 20 * hour.outer_steps * hour.tasks_per_step
    assert day.test_tasks == 1000
    for name in ("cpu", "day"):
        with refused("budget", "rotation/rot45/msr-conv"):
            find("rotation/rot45/msr-conv", f"paper-{name}")


KINDS = {"maml": MAML, "maml-big": MAML, "anil": ANIL, "protonet": ProtoNet, "maml-d8": MAML, "msr": MSR}


@pytest.mark.parametrize("method", METHODS)
def test_learners_adapt_what_their_method_says(method):
    experiment = find(f"aug-omniglot/5way-1shot/{method}")
    model = build_few_shot_model(experiment)
    learner = learner_of(experiment, model, 1)
    assert type(learner) is KINDS[method]
    assert learner.loss is torch.nn.functional.cross_entropy
    found = counts(experiment)
    everything = sum(p.numel() for p in model.parameters())
    assert found.learned == everything
    assert found.adapted == {"anil": 64 * 5 + 5, "protonet": 0}.get(method, everything - found.U)
    assert (found.U > 0) == (method == "msr")
    assert (found.frozen > 0) == (method == "maml-d8")


@pytest.mark.parametrize("name", names("aug-*"))
def test_every_cell_trains_tests_and_loads(name, tiny, tmp_path):
    experiment = find(name, "paper-cpu", **FEW)
    result = run(experiment, tmp_path, progress="silent")
    assert result["metric"] == "accuracy"
    assert result["outer_steps"] == 1
    assert len(result["per_task"]) == 2
    assert all(0 <= value <= 1 for value in result["per_task"])
    assert result["mean"] == pytest.approx(sum(result["per_task"]) / 2)
    assert result["curve"]["step"] == [1]
    assert result["seconds"] > 0
    assert result["peak_memory_mb"] > 0
    assert bool(result["inner_lrs"]) == (experiment.method != "protonet")
    if name.startswith("aug-omniglot/5way-1shot"):
        again, problem, learner = load_run(tmp_path)
        assert again == experiment
        episode = sample(problem.test, torch.arange(1), 0)
        trained = learner.scores(episode, learner.loss)
        start = learner_of(experiment, build_few_shot_model(experiment), 1).scores(episode, learner.loss)
        assert not torch.equal(trained, start)


def test_only_query_images_are_augmented_in_every_part(tiny):
    problem = build_problem(find("aug-omniglot/5way-5shot/msr", "paper-cpu", **FEW))
    for tasks in (problem.train, problem.validation, problem.test):
        found, plain = sample(tasks, torch.arange(2), 3), sample(tasks.tasks, torch.arange(2), 3)
        assert torch.equal(found.support.x, plain.support.x)
        assert not torch.equal(found.query.x, plain.query.x)
        assert torch.equal(found.query.y, plain.query.y)
        assert found.support.x.shape == (2, 25, 1, 16, 16)


def test_a_run_learns_what_is_easy_and_resumes_to_the_same_bits(tiny, tmp_path):
    changes = {**FEW, "outer_steps": 4, "tasks_per_step": 2, "checkpoint_every": 2, "seed": 1}
    experiment = find("aug-omniglot/5way-1shot/msr", "paper-cpu", **changes)
    whole = run(experiment, tmp_path / "whole", progress="silent")
    run(experiment.replace(outer_steps=2), tmp_path / "part", progress="silent")
    for name in ("config.json", "result.json"):
        (tmp_path / "part" / name).unlink()
    metrics = tmp_path / "part" / "metrics.jsonl"
    metrics.write_text(metrics.read_text().replace('"skipped_tasks": 0', '"skipped_tasks": 3', 1))
    resumed = run(experiment, tmp_path / "part", resume=True, progress="silent")
    assert resumed["per_task"] == whole["per_task"]
    assert (whole["starts"], resumed["starts"]) == (1, 2)
    assert (whole["skipped_tasks"], resumed["skipped_tasks"]) == (0, 3)  # of the first start too
    assert resumed["cpu_seconds"] > 0
    assert resumed["curve"] == whole["curve"]
    assert whole["curve"]["outer_loss"][-1] < whole["curve"]["outer_loss"][0]


def test_what_a_run_costs_is_added_up_over_its_starts(tmp_path):
    before = {"seconds": 2000.0, "cpu_seconds": 1000.0, "peak_memory_mb": 1e6, "starts": 2}
    write_json(tmp_path / "spent.json", before)
    spent = Spent(tmp_path, afresh=False)
    sum(range(10**6))
    ranks = connect(torch.device("cpu"))
    spent.note(49, ranks)
    assert read_json(tmp_path / "spent.json", "it")["starts"] == 2
    spent.note(50, ranks)
    noted = read_json(tmp_path / "spent.json", "it")
    assert 1000 < noted["cpu_seconds"] < 1100
    assert 2000 < noted["seconds"] < 2100
    assert (noted["peak_memory_mb"], noted["starts"]) == (1e6, 3)
    anew = Spent(tmp_path, afresh=True).so_far()
    assert anew["cpu_seconds"] < 100
    assert anew["seconds"] < 100


@pytest.mark.parametrize("budget", ["cpu", "day"])
def test_the_command_of_a_budget_run(budget):
    experiment = find("aug-omniglot/5way-1shot/msr", f"paper-{budget}", seed=2, data="/here")
    expected = f"metasym run aug-omniglot/5way-1shot/msr --out DIR --budget {budget} --seed 2"
    assert command(experiment) == expected


def test_the_command_line(tiny, tmp_path, capsys):
    name = "aug-omniglot/5way-1shot/maml"
    few = [part for key, value in FEW.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    assert main(["run", name, "--budget", "cpu", "--out", str(tmp_path), *few, "--progress", "silent"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"{name}: accuracy ")
    assert "% after 1 outer steps; the paper's after 60,000: 87.3 ± 0.5" in shown
    assert json.loads((tmp_path / "result.json").read_text())["recipe"] == "paper-cpu"
    for recipe in ("best", "paper"):
        refused_command(["run", name, "--budget", "cpu", "--recipe", recipe, "--out", "x"], "--recipe")
    other = "translation/rank1/small/msr-fc"
    refused_command(["run", other, "--budget", "cpu", "--out", "x"], "budget", other)


def test_cost_needs_no_data_and_shows_all_six(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("METASYM_DATA", str(tmp_path / "nothing"))
    assert main(["cost", "aug-omniglot/20way-1shot/msr"]) == 0
    text = capsys.readouterr().out
    assert "features.conv4" in text
    assert [line.split()[0] for line in text.splitlines()[-6:]] == list(METHODS)
    assert main(["cost", "aug-miniimagenet/5way-1shot/maml"]) == 0
    assert "msr" in capsys.readouterr().out
    assert main(["cost", "aug-omniglot/5way-1shot/maml-d8", "--d8-fields", "8"]) == 0
    counted = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines()[-6:]}
    assert "19,205" in counted["maml-d8"]  # of the network that was asked for
    assert "112,005" in counted["maml"]


def test_quick_table3_runs_every_cell_for_20_steps():
    found = plan("table3", quick=True, seeds=[0], recipes=["paper-cpu"], data="somewhere")
    assert [e.name for e in found] == names("aug-*")
    assert {e.recipe.outer_steps for e in found} == {20}
    assert {e.recipe.data for e in found} == {"somewhere"}
    assert {e.name.partition("/")[0] for e in found} <= set(QUICK)


def test_table3_is_made_cell_by_cell(tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(QUICK, "aug-omniglot", FEW)
    options = {
        "quick": True,
        "seeds": [0],
        "recipes": ["paper-cpu"],
        "only": "aug-omniglot/5way-1shot/*",
        "progress": "silent",
    }
    one = reproduce("table3", tmp_path, **{**options, "only": "aug-omniglot/5way-1shot/msr"})
    notes: list[str] = []
    written = reproduce("table3", tmp_path, **options, note=notes.append)
    assert notes[0] == "table3: 6 runs, 1 of them finished before"
    assert set(one) < set(written)
    assert len(written) == 6
    assert any("accuracy" in note for note in notes)


def test_bad_settings():
    with refused("validation_fraction", 0.1):
        find("aug-omniglot/5way-1shot/msr", validation_fraction=0.1)
    with refused("symmetry", "dense"):
        build_few_shot_model(find("aug-omniglot/5way-1shot/msr", symmetry="dense"))
    with refused("rotated_classes", "aug-miniimagenet/5way-1shot/msr"):
        build_problem(find("aug-miniimagenet/5way-1shot/msr", rotated_classes=True))
