"""Task families that do not return what they should: one line that names the task, never a traceback of torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from metasym.learners import MAML
from metasym.tasks import Subset
from metasym.tasks.sampling import describe, sample
from metasym.training.evaluation import evaluate
from metasym.training.loop import train
from metasym.types import Batch, Episode
from tests.refusals import refused, within
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


def both_refuse(tasks, about, found, made=None):
    """Training and evaluation refuse the tasks, with the same fields; ``about`` may be one for each."""
    abouts = (about, about) if isinstance(about, str) else about
    for about, work in zip(
        abouts,
        (
            lambda: list(train(made or learner(), tasks, outer_steps=2, progress="silent")),
            lambda: evaluate(made or learner(), tasks),
        ),
        strict=True,
    ):
        with refused(about, found):
            work()


@pytest.mark.parametrize(
    ("episode", "part", "found"),
    [
        (None, "", "NoneType"),
        ((GOOD, GOOD, torch.tensor(3)), "", "tuple"),
        (Episode((X, Y), GOOD, torch.tensor(3)), "support", "tuple"),
        (Episode(GOOD, None, torch.tensor(3)), "query", "NoneType"),
        (Episode(Batch(X.numpy(), Y), GOOD, torch.tensor(3)), "support.x", "ndarray"),
        (Episode(GOOD, Batch(X, [1.0] * 4), torch.tensor(3)), "query.y", "list"),
        (Episode(Batch(X[:0], Y[:0]), GOOD, torch.tensor(3)), "support", (0, 0)),
        (Episode(GOOD, Batch(X[:0], Y[:0]), torch.tensor(3)), "query", (0, 0)),
        (Episode(Batch(X, Y[:2]), GOOD, torch.tensor(3)), "support", (4, 2)),
        (Episode(Batch(X, torch.tensor(1.0)), GOOD, torch.tensor(3)), "support.y", ()),
        (Episode(GOOD, GOOD, None), "ids", "NoneType"),
        (Episode(GOOD, GOOD, torch.tensor([3])), "ids", (torch.int64, (1,))),
        *(
            (episode, "", describe(episode))
            for episode in (
                Episode(Batch(X, Y.double()), GOOD, torch.tensor(3)),
                Episode(GOOD, Batch(X.half(), Y), torch.tensor(3)),
                Episode(GOOD, Batch(X[:3], Y[:3]), torch.tensor(3)),
            )
        ),
    ],
)
def test_a_bad_episode_is_one_line_that_names_its_task(episode, part, found):
    both_refuse(Returning(episode), within("task 3", part), found)


def test_an_id_may_be_a_plain_number():
    list(train(learner(), Returning(Episode(GOOD, GOOD, 3)), outer_steps=1, progress="silent"))


def test_families_with_other_methods_are_refused():
    tasks = Lines(6)
    tasks.episodes = 100
    both_refuse(tasks, "Lines.episodes", 100)
    both_refuse([GOOD], "tasks", "list")


def test_many_episodes_at_once_are_checked_too():
    class Many(Lines):
        def episodes(self, ids, seeds):
            return self.change(Episode(Batch(x, y), Batch(x, y), ids))

    x, y = X.expand(6, 4, 3), Y.expand(6, 4, 1)
    for change, part, found in (
        (lambda e: None, "", "NoneType"),
        (lambda e: e._replace(query=Batch(x[:2], y[:2])), "query.x", (2, 4, 3)),
        (lambda e: e._replace(query=Batch(x, y[:, :1])), "query", (4, 1)),
        (lambda e: e._replace(support=Batch(x[:, :0], y[:, :0])), "support", (0, 0)),
        (lambda e: e._replace(ids=e.ids[:2]), "ids", (torch.int64, (2,))),
    ):
        tasks = Many(6)
        tasks.change = change
        both_refuse(tasks, within("tasks 0, 1, 2, 3, 4, ...", part), found)


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
    where = "step 1", "evaluate"
    for tasks, made in (
        (Changed(lambda x, y: (torch.cat([x, x], 1), y)), msr(map=map)),
        (Changed(lambda x, y: (x.double(), y.double())), msr(map=map)),
        (Labels(7), MAML(nn.Linear(3, 2), F.cross_entropy, map=map)),
    ):
        both_refuse(tasks, where, describe(sample(tasks, torch.arange(6), 0)), made)
    list(train(made, Labels(1), outer_steps=1, progress="silent"))


def test_the_cause_is_chained_and_one_line():
    tasks = Changed(lambda x, y: (x[:, :2], y))
    with refused("step 1") as caught:
        list(train(learner(), tasks, outer_steps=1, progress="silent"))
    assert isinstance(caught.value.__cause__, RuntimeError)
    assert str(caught.value.__cause__).splitlines()[0] in str(caught.value)


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

    with refused("task 2", "NoneType"):
        sample(Subset(Nothing(), [1, 2]), torch.tensor([1]), 0)
