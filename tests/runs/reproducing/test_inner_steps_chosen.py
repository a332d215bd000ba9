"""The inner steps at test that validation tasks prefer: chosen once, on no test task, kept when a run is loaded."""

from __future__ import annotations

import pytest

from metasym.paper import find, image_problem
from metasym.runs.reproducing import scoring
from metasym.runs.reproducing.experiment_run import load_run, run
from metasym.tasks.sampling import mix
from metasym.training.evaluation import evaluate
from tests.refusals import refused, refused_command
from tests.runs.reproducing.tiny_images import FEW, tiny

__all__ = ["tiny"]  # a fixture

PROBLEM = "aug-omniglot/5way-1shot"
CHOOSING = {**FEW, "choose_inner_steps": 3, "test_inner_steps": 7, "outer_steps": 2, "test_tasks": 4}


@pytest.fixture(autouse=True)
def few_tasks(monkeypatch):
    monkeypatch.setattr(image_problem, "CHOOSING_TASKS", 6)


@pytest.mark.parametrize("method", ["msr", "maml", "anil"])
def test_the_number_that_validation_prefers(tiny, tmp_path, method):
    experiment = find(f"{PROBLEM}/{method}", "paper-day", **CHOOSING)
    found = run(experiment, tmp_path, progress="silent")
    _, problem, learner = load_run(tmp_path)
    by_hand = {
        steps: evaluate(
            learner, problem.choosing, inner_steps=steps, metric="accuracy", seed=int(mix(0, 19))
        ).mean
        for steps in (1, 2, 3)
    }
    assert {int(k): v for k, v in found["inner_steps_validation"].items()} == pytest.approx(by_hand)
    best = max(by_hand.values())
    assert found["inner_steps_chosen"] == min(steps for steps in by_hand if by_hand[steps] == best)
    assert learner.test_inner_steps == found["inner_steps_chosen"]
    score = evaluate(
        learner,
        problem.test,
        inner_steps=found["inner_steps_chosen"],
        metric="accuracy",
        seed=scoring.test_seed(experiment),
    )
    assert found["per_task"] == pytest.approx(list(score.per_task))


def test_choosing_sees_neither_training_nor_test_classes(monkeypatch, tmp_path):
    asked = []

    def tasks(classes, **options):
        asked.append((classes, options["queries"]))

    splits = {"train": range(3), "validation": range(2), "test": range(1)}
    monkeypatch.setattr(image_problem, "image_classes", lambda _: list(splits.values()))
    monkeypatch.setattr(image_problem, "FewShotTasks", tasks)
    monkeypatch.setattr(image_problem, "AugmentQuery", lambda tasks, _: tasks)
    image_problem.build_image_problem(find(f"{PROBLEM}/msr", "paper-day"))
    assert [classes for classes, queries in asked if queries == 5] == [range(3), range(2), range(2)]


def test_a_run_whose_number_is_fixed_says_nothing(tiny, tmp_path):
    found = run(find(f"{PROBLEM}/maml", "paper-day", **FEW), tmp_path / "fixed", progress="silent")
    assert "inner_steps_chosen" not in found
    nothing_adapts = find(f"{PROBLEM}/protonet", "paper-day", **CHOOSING)
    assert "inner_steps_chosen" not in run(nothing_adapts, tmp_path / "protonet", progress="silent")


def test_of_equal_numbers_the_smallest():
    assert scoring.best_inner_steps({1: 0.5, 2: 0.7, 3: 0.7}) == 2
    assert scoring.best_inner_steps({1: 0.7, 2: 0.7}) == 1


def test_only_where_classes_are_held_out():
    with refused("choose_inner_steps", "rotation/rot90/msr-conv"):
        find("rotation/rot90/msr-conv", choose_inner_steps=2)
    command = ["run", "translation/rank1/small/msr-fc", "--out", "x", "--choose-inner-steps", "2"]
    refused_command(command, "choose_inner_steps", "translation/rank1/small/msr-fc")
