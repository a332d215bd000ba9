"""The sentence whether a symmetry pays, from every number of support examples."""

from __future__ import annotations

import numpy as np
import pytest

from metasym.report.comparison_words import bought, judgement


def result(
    scores: dict[int, float], metric: str = "mse", spread: float = 0.1, tasks: int = 20, shared: int = 0
):
    """A result whose tasks score ``scores`` by support, spread alike around them; equal ``shared``: equal spread."""
    noise = np.random.default_rng(shared).standard_normal(tasks)
    by_support = {}
    for count, mean in scores.items():
        per_task = (mean + spread * mean * (noise - noise.mean())).tolist()
        by_support[str(count)] = {"mean": mean, "ci95": spread * mean, "per_task": per_task}
    return {"metric": metric, "mean_prediction": 1.0, "by_support": by_support}


@pytest.mark.parametrize(
    ("ours", "theirs", "sentence"),
    [
        (
            {1: 0.1, 10: 0.2},
            {1: 0.9, 10: 0.5},
            ("X pays: from 1 and 10 support examples its score is significantly better"),
        ),
        (
            {1: 0.1, 10: 0.5},
            {1: 0.9, 10: 0.2},
            "X pays from 1 support example; from 10 the plain network is",
        ),
        (
            {1: 0.9, 10: 0.5},
            {1: 0.1, 10: 0.2},
            "X does not pay here: from 1 and 10 support examples the plain",
        ),
        ({5: 1e-8, 10: 1e-9}, {5: 1e-7, 10: 1e-9}, "Both networks are exact from 5 and 10 support examples"),
        (
            {1: 0.1, 10: 1e-9},
            {1: 0.9, 10: 1e-7},
            "significantly better than the plain network's (95 %); from 10 both are exact",
        ),
        ({1: 0.5}, {1: 0.5}, "do not differ significantly"),
    ],
)
def test_every_number_of_examples_counts(ours, theirs, sentence):
    found = judgement(result(ours), result(theirs, shared=1), "X")
    assert sentence in found
    assert found.endswith(".")


def test_tasks_are_compared_one_by_one():
    """Ten per cent better in every task is sure, however much the tasks differ among themselves."""
    ours, theirs = result({5: 0.9}, spread=0.8), result({5: 1.0}, spread=0.8)
    assert judgement(ours, theirs, "X").startswith("X pays")
    for one in (ours, theirs):
        del one["by_support"]["5"]["per_task"]  # a run of an older version
    assert judgement(ours, theirs, "X").startswith("On these test tasks the two networks do not differ")


def test_of_accuracies_more_is_better():
    assert judgement(result({5: 0.9}, "accuracy"), result({5: 0.5}, "accuracy"), "X").startswith("X pays")


def test_a_single_test_task_tells_nothing():
    nan = float("nan")
    one = {"metric": "mse", "by_support": {"1": {"mean": 0.1, "ci95": nan, "per_task": [0.1]}}}
    other = {"metric": "mse", "by_support": {"1": {"mean": 0.9, "ci95": nan, "per_task": [0.9]}}}
    assert "do not differ" in judgement(one, other, "X")


@pytest.mark.parametrize(
    ("ours", "theirs", "told"),
    [
        (
            0.1,
            0.5,
            "0.1 with U averaged over the symmetry and 0.5 with U as learned; the averaged U is significantly "
            "better (95 %).",
        ),
        (
            0.5,
            0.1,
            "0.5 with U averaged over the symmetry and 0.1 with U as learned; the averaged U is significantly "
            "worse (95 %).",
        ),
        (1e-9, 1e-8, "both are exact."),
        (0.5, 0.5, "the difference is not significant."),
    ],
)
def test_what_averaging_brings_is_told_from_the_chosen_number_of_examples(ours, theirs, told):
    found = {
        **result({2: ours, 10: 0.0}),
        "support": 2,
        "without_symmetry": result({2: theirs, 10: 9.0})["by_support"],
    }
    assert bought(found).startswith("From 2 support examples the mean squared error is")
    assert bought(found).endswith(told)
    assert bought(found, different=True) == (bought(found) if "significantly" in told else None)


def test_without_a_certified_symmetry_nothing_was_bought():
    assert bought({**result({2: 0.1}), "support": 2}) is None
