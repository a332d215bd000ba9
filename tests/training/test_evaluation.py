"""Scores over test tasks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats

from metasym.tasks import AugmentQuery, FewShotTasks, from_arrays
from metasym.training.evaluation import _say_once, evaluate, number_to_score
from metasym.training.loop import train
from metasym.training.randomness import validation_seed
from metasym.training.task_scores import summarise
from tests.refusals import refused
from tests.training.toy_learner import Lines, bits, learner


def test_the_interval_is_student_t_over_tasks():
    values = np.random.default_rng(0).normal(size=30)
    score = summarise(values)
    low, high = stats.t.interval(0.95, 29, loc=values.mean(), scale=stats.sem(values))
    assert score.mean - score.ci95 == pytest.approx(low)
    assert score.mean + score.ci95 == pytest.approx(high)
    assert score.median == np.median(values)
    assert score.per_task == tuple(values)
    assert score.diverged == 0


def test_one_task_has_no_interval():
    score = summarise(np.array([2.0]))
    assert (score.mean, score.median) == (2.0, 2.0)
    assert math.isnan(score.ci95)


def test_diverged_tasks_are_counted_and_the_median_stands():
    score = summarise(np.array([1.0, 2.0, np.nan, np.inf, 3.0]))
    assert score.diverged == 2
    assert score.median == 3.0
    assert not math.isfinite(score.mean)


def test_scores_do_not_depend_on_chunks_and_follow_seed_ids_and_steps():
    made = learner()
    before = bits(made)
    whole = evaluate(made, Lines(10), tasks_per_chunk=100)
    assert len(whole.per_task) == 10
    assert evaluate(made, Lines(10), tasks_per_chunk=3).per_task == whole.per_task
    assert evaluate(made, Lines(10), ids=[7, 2]).per_task == (whole.per_task[7], whole.per_task[2])
    assert evaluate(made, Lines(10), seed=1).per_task != whole.per_task
    assert (
        evaluate(made, Lines(10), inner_steps=5).mean
        < whole.mean
        < evaluate(made, Lines(10), inner_steps=0).mean
    )
    assert bits(made) == before
    assert all(p.grad is None for p in made.parameters())


def test_metrics_by_name_and_by_function():
    made = learner()

    def largest_error(prediction, target):
        return (prediction - target).abs().max()

    assert evaluate(made, Lines(3)).metric == "loss"
    assert evaluate(made, Lines(3), metric=largest_error).metric == "largest_error"
    assert evaluate(made, Lines(3), metric="accuracy").metric == "accuracy"


@pytest.mark.parametrize(
    ("options", "about", "found"),
    [
        ({"metric": "f1"}, "metric", "f1"),
        ({"metric": 3}, "metric", 3),
        ({"ids": []}, "tasks", 0),
        ({"ids": [7]}, "ids", 7),
        ({"ids": [1, -1]}, "ids", -1),
        ({"ids": [0.5]}, "ids", "list"),
        ({"tasks_per_chunk": 0}, "tasks_per_chunk", 0),
        ({"seed": 1.5}, "seed", 1.5),
    ],
)
def test_bad_arguments_are_refused(options, about, found):
    with refused(about, found):
        evaluate(learner(), Lines(3), **options)


def test_evaluation_is_without_dropout_and_restores_every_mode():
    made = learner(dropout=0.9)
    made.model[0].eval()
    state = torch.random.get_rng_state()
    assert evaluate(made, Lines(4)).per_task == evaluate(made, Lines(4)).per_task
    assert torch.equal(torch.random.get_rng_state(), state)
    assert [m.training for m in made.model] == [False, True, True]


class Endless(Lines):
    """Tasks without end: far more than are scored."""

    scored = 7


def test_of_tasks_without_end_as_many_are_scored_as_they_say_and_it_is_said_once(caplog):
    made, tasks = learner(), Endless(1000)
    _say_once.cache_clear()
    found = evaluate(made, tasks)
    assert found.per_task == evaluate(made, tasks, ids=range(7)).per_task
    assert evaluate(made, tasks) == found
    assert len(evaluate(made, tasks, ids=range(9)).per_task) == 9
    assert len(caplog.records) == 1
    assert len(evaluate(made, Endless(5)).per_task) == 5
    endless = AugmentQuery(tasks, lambda x: x)
    assert evaluate(made, endless).per_task == found.per_task
    tasks.scored = 0
    with refused("tasks.scored", 0):
        evaluate(made, tasks)


def test_few_shot_tasks_without_a_number_have_no_end():
    classes = from_arrays(np.zeros((12, 1, 4, 4), np.uint8), np.repeat(np.arange(3), 4))
    options = {"ways": 2, "shots": 1, "queries": 2}
    assert number_to_score(FewShotTasks(classes, **options)) == 600
    assert number_to_score(FewShotTasks(classes, tasks=2000, **options)) == 2000


def test_validation_of_tasks_without_end_scores_the_same_ones():
    records = list(
        train(
            learner(), Lines(), outer_steps=1, validation=Endless(1000), validate_every=1, progress="silent"
        )
    )
    made = learner()
    list(train(made, Lines(), outer_steps=1, progress="silent"))
    expected = evaluate(made, Endless(1000), ids=range(7), seed=validation_seed(0))
    assert records[0].validation == expected.mean


def test_what_takes_long_says_how_far_it_is(monkeypatch, capsys):
    clock = iter(range(0, 1000, 6))  # six seconds between any two looks at it
    monkeypatch.setattr("metasym.training.progress.time.monotonic", lambda: next(clock))
    evaluate(learner(), Lines(10), tasks_per_chunk=4, progress="silent")
    assert capsys.readouterr().err == ""
    evaluate(learner(), Lines(10), tasks_per_chunk=4)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["4/10", "8/10"]
    assert lines[0].split()[3:] == ["0:00:09", "left"]
