"""Task families that do not return what they should: one line that names the task, never a traceback of torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from metasym.learners import MAML
from metasym.tasks import Subset
from metasym.tasks.sampling import sample
from metasym.training.evaluation import evaluate
from metasym.training.loop import train
from metasym.types import Batch, Episode, MetasymError
from tests.training.toy_learner import Lines, learner, msr

X, Y = torch.ones(4, 3), torch.ones(4, 1)
GOOD = Batch(X, Y)


class Returning(Lines):
    """Returns ``found`` for task 3, and what is right for all others."""

    def __init__(self, found):
        super().__init__(6)
        self.found = found

    def episode(self, index, generator):
        return self.found if index == 3 else super().episode(index, generator)


def refused(tasks, *expected, made=None):
    """Both training and evaluation refuse the tasks, in one line that holds ``expected``."""
    for work in (
        lambda: list(train(made or learner(), tasks, outer_steps=2, progress="silent")),
        lambda: evaluate(made or learner(), tasks),
    ):
        with pytest.raises(MetasymError) as caught:
            work()
        message = str(caught.value)
        assert "\n" not in message
        for text in expected:
            assert text in message
    return message


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (None, "expected a metasym.Episode, found NoneType"),
        ((GOOD, GOOD, torch.tensor(3)), "expected a metasym.Episode, found tuple"),
        (Episode((X, Y), GOOD, torch.tensor(3)), "expected support to be a metasym.Batch, found tuple"),
        (Episode(GOOD, None, torch.tensor(3)), "expected query to be a metasym.Batch, found NoneType"),
        (Episode(Batch(X.numpy(), Y), GOOD, torch.tensor(3)), "support.x to be a tensor, found ndarray"),
        (Episode(GOOD, Batch(X, [1.0] * 4), torch.tensor(3)), "query.y to be a tensor, found list"),
        (Episode(Batch(X[:0], Y[:0]), GOOD, torch.tensor(3)), "support with at least one example"),
        (Episode(GOOD, Batch(X[:0], Y[:0]), torch.tensor(3)), "query with at least one example"),
        (Episode(Batch(X, Y[:2]), GOOD, torch.tensor(3)), "found 4 of x and 2 of y"),
        (Episode(Batch(X, torch.tensor(1.0)), GOOD, torch.tensor(3)), "[examples, ...], found []"),
        (Episode(GOOD, GOOD, None), "ids to be a tensor of whole numbers [], found NoneType"),
        (Episode(GOOD, GOOD, torch.tensor([3])), "found torch.int64 [1]"),
        (Episode(Batch(X, Y.double()), GOOD, torch.tensor(3)), "support y [4, 1] float64"),
        (Episode(GOOD, Batch(X.half(), Y), torch.tensor(3)), "query x [4, 3] float16"),
        (Episode(GOOD, Batch(X[:3], Y[:3]), torch.tensor(3)), "query x [3, 3] float32"),
    ],
)
def test_a_bad_episode_is_one_line_that_names_its_task(found, message):
    refused(Returning(found), "task 3: expected", message)


def test_an_id_may_be_a_plain_number():
    list(train(learner(), Returning(Episode(GOOD, GOOD, 3)), outer_steps=1, progress="silent"))


def test_families_with_other_methods_are_refused():
    tasks = Lines(6)
    tasks.episodes = 100
    refused(tasks, "a method episodes, found Lines with episodes = 100")
    refused([GOOD], "a method episode, found list without one")


def test_many_episodes_at_once_are_checked_too():
    class Many(Lines):
        def episodes(self, ids, seeds):
            return self.change(Episode(Batch(x, y), Batch(x, y), ids))

    x, y = X.expand(6, 4, 3), Y.expand(6, 4, 1)
    for change, message in (
        (lambda e: None, "found NoneType"),
        (
            lambda e: e._replace(query=Batch(x[:2], y[:2])),
            "query.x of shape [6, examples, ...], found [2, 4, 3]",
        ),
        (lambda e: e._replace(query=Batch(x, y[:, :1])), "found 4 of x and 1 of y"),
        (lambda e: e._replace(support=Batch(x[:, :0], y[:, :0])), "found 0 of x and 0 of y"),
        (
            lambda e: e._replace(ids=e.ids[:2]),
            "ids to be a tensor of whole numbers [6], found torch.int64 [2]",
        ),
    ):
        tasks = Many(6)
        tasks.change = change
        refused(tasks, "tasks 0, 1, 2, 3, 4, ...: expected", message)


class Labels(Lines):
    """Classification into classes 0 to ``largest``."""

    def __init__(self, largest):
        super().__init__(6)
        self.largest = largest

    def episode(self, index, generator):
        found = super().episode(index, generator)
        y = torch.tensor([0, 1, 0, self.largest])
        return Episode(Batch(found.support.x, y), Batch(found.query.x, y), found.ids)


class Changed(Lines):
    def __init__(self, change):
        super().__init__(6)
        self.change = change

    def episode(self, index, generator):
        s, q, ids = super().episode(index, generator)
        return Episode(Batch(*self.change(s.x, s.y)), Batch(*self.change(q.x, q.y)), ids)


@pytest.mark.parametrize("map", ["vmap", "loop"])
def test_what_does_not_fit_the_model_is_one_line_with_shapes_and_types(map):
    wide = Changed(lambda x, y: (torch.cat([x, x], 1), y))
    refused(wide, "fit the model and the loss", "support x [6, 4, 6] float32, support y", made=msr(map=map))
    double = Changed(lambda x, y: (x.double(), y.double()))
    refused(double, "fit the model and the loss", "support x [6, 4, 3] float64", made=msr(map=map))
    made = MAML(nn.Linear(3, 2), F.cross_entropy, map=map)
    list(train(made, Labels(1), outer_steps=1, progress="silent"))
    refused(Labels(7), "fit the model and the loss", "support y [6, 4] int64", made=made)


def test_the_cause_is_chained_and_one_line():
    with pytest.raises(MetasymError, match="step 1: expected episodes that fit") as caught:
        list(train(learner(), Changed(lambda x, y: (x[:, :2], y)), outer_steps=1, progress="silent"))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert "mat1 and mat2" in str(caught.value)


def test_good_episodes_are_what_they_were():
    ids = torch.tensor([4, 1])
    found = sample(Lines(6), ids, 7)
    assert found.ids.tolist() == [4, 1]
    assert found.support.x.shape == (2, 4, 3)


def test_a_bad_episode_inside_a_subset_names_its_task():
    class Nothing:
        def __len__(self) -> int:
            return 4

        def episode(self, index: int, generator: torch.Generator) -> None:
            return None

    with pytest.raises(MetasymError, match=r"task 2: expected a metasym\.Episode, found NoneType"):
        sample(Subset(Nothing(), [1, 2]), torch.tensor([1]), 0)
