"""Ending before the last step: patience, and a loop that is left."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import metasym as ms
from metasym.training.loop import train
from metasym.training.settings import Validation
from tests.refusals import refused
from tests.training.toy_learner import Lines, bits, learner

OPTIONS: dict[str, Any] = {
    "tasks_per_step": 2,
    "progress": "silent",
    "optimizer": lambda p: torch.optim.Adam(p, lr=0.3),
}


def validated(steps: int, made: Any = None, **more: Any) -> tuple[Any, dict[int, tuple[float, Any]]]:
    """A learner after a loop over ``steps`` records that is left, and what each validation saw."""
    made, seen = made or learner(), {}
    held_out = Validation(Lines(3), every=1)
    for record in train(made, Lines(), outer_steps=40, validation=held_out, **OPTIONS, **more):
        assert record.validation is not None
        seen[record.step] = (record.validation, bits(made))
        if record.step == steps:
            break
    return made, seen


def test_leaving_the_loop_by_break_gives_the_best_parameters() -> None:
    worse_again = 0
    for steps in (3, 6, 9, 12):
        made, seen = validated(steps)
        best = min(seen, key=lambda step: seen[step][0])
        worse_again += best != steps
        assert bits(made) == seen[best][1]
    assert worse_again > 0, "a run has to get worse again for this test"


def test_a_loop_that_was_left_goes_on_where_it_was() -> None:
    whole, parted = learner(), learner()
    held_out = Validation(Lines(3), every=1)
    expected = [r.outer_loss for r in train(whole, Lines(), outer_steps=12, validation=held_out, **OPTIONS)]
    training = train(parted, Lines(), outer_steps=12, validation=held_out, **OPTIONS)
    found = []
    for record in training:
        found.append(record.outer_loss)
        if record.step == 7:
            break
    found += [record.outer_loss for record in training]
    assert found == expected
    assert bits(parted) == bits(whole)


def test_without_a_validation_the_learner_stays_where_it_was() -> None:
    made, last = learner(), None
    for record in train(made, Lines(), outer_steps=9, **OPTIONS):
        last = bits(made)
        if record.step == 4:
            break
    assert bits(made) == last


@pytest.mark.parametrize("patience", [1, 2, 3])
def test_patience_ends_after_as_many_validations_without_a_better_one(patience: int) -> None:
    _, seen = validated(40)
    values = [seen[step][0] for step in sorted(seen)]
    best = 0
    for step in range(1, 41):
        best = min(range(1, step + 1), key=lambda s: values[s - 1])
        if step - best >= patience:
            break
    assert step < 40, "a run has to stop improving for this test"
    made, held_out = learner(), Validation(Lines(3), every=1)
    records = list(train(made, Lines(), outer_steps=40, validation=held_out, patience=patience, **OPTIONS))
    assert len(records) == step
    assert bits(made) == seen[best][1]


def test_a_run_that_lost_patience_is_finished_and_more_patience_goes_on(tmp_path: Any) -> None:
    options = {
        "outer_steps": 40,
        "validation": Validation(Lines(3), every=1),
        "out": tmp_path / "run",
        **OPTIONS,
    }
    first = list(train(learner(), Lines(), patience=1, **options))
    again = learner()
    assert list(train(again, Lines(), patience=1, resume=True, **options)) == []
    more = list(train(learner(), Lines(), patience=3, resume=True, **options))
    assert len(first) + len(more) == len(
        list(train(learner(), Lines(), patience=3, **{**options, "out": tmp_path / "other"}))
    )


def test_patience_needs_a_validation() -> None:
    with refused("patience", 2):
        train(learner(), Lines(), outer_steps=3, patience=2, **OPTIONS)
    latest = Validation(Lines(3), every=1, keep_best=False)
    with refused("patience", 2):
        train(learner(), Lines(), outer_steps=3, patience=2, validation=latest, **OPTIONS)
    with refused("patience", 0):
        train(learner(), Lines(), outer_steps=3, patience=0, validation=latest, **OPTIONS)


def test_a_score_is_put_into_the_folder_of_a_training(tmp_path: Any) -> None:
    """Without one the page says what there is: a training, not a run without a result."""
    x = torch.randn(20, 8, 3, generator=torch.Generator().manual_seed(0))
    tasks = ms.tasks.ArrayTasks(x, x @ torch.ones(3, 2), support=4)
    made = ms.MSR(ms.reparameterize(torch.nn.Linear(3, 2)), inner_steps=1)
    train(made, tasks, outer_steps=3, out=tmp_path / "run", progress="silent").run()
    run = ms.open_run(tmp_path / "run", made)
    before = run.report().read_text()
    assert "trained for 3 steps" in before
    assert "no result" not in before
    with pytest.raises(AttributeError):
        _ = run.scores
    score = ms.evaluate(made, tasks)
    run.add_score(score)
    assert run.scores == score
    assert ms.open_run(tmp_path / "run", made).scores == score
    after = run.report().read_text()
    assert f"{len(score.per_task)} test tasks" in after or "On test tasks" in after
    assert "trained for" not in after
