from __future__ import annotations

import pytest
import torch

from metasym.tasks import ArrayTasks, hold_out, sample, seeded
from tests.refusals import refused


def family(tasks: int = 7, examples: int = 5, support: int = 2) -> ArrayTasks:
    x = torch.arange(tasks * examples).reshape(tasks, examples, 1).float()
    return ArrayTasks(x, x[..., 0] * 10, support=support)


def test_an_episode_splits_the_examples_of_its_task():
    tasks = family()
    ids = torch.tensor([3, 0, 6])
    episodes = sample(tasks, ids, 5)
    assert episodes.support.x.shape == (3, 2, 1)
    assert episodes.query.x.shape == (3, 3, 1)
    for row, i in enumerate(ids.tolist()):
        seen = torch.cat([episodes.support.x[row], episodes.query.x[row]]).flatten().sort().values
        assert torch.equal(seen, tasks.x[i].flatten())
    assert torch.equal(episodes.support.y, episodes.support.x[..., 0] * 10)
    assert torch.equal(episodes.ids, ids)


def test_episodes_do_not_depend_on_the_other_tasks_of_the_batch():
    tasks = family()
    together = sample(tasks, torch.arange(7), 1)
    for i in range(7):
        alone = sample(tasks, torch.tensor([i]), 1)
        assert torch.equal(alone.support.x[0], together.support.x[i])


def test_splits_change_with_the_seed_and_every_example_has_its_turn():
    tasks = family(tasks=1, examples=4, support=1)
    first = [int(sample(tasks, torch.tensor([0]), seed).support.x) for seed in range(400)]
    counts = torch.bincount(torch.tensor(first), minlength=4)
    assert counts.min() > 70


def test_one_episode_has_no_leading_dimension_and_follows_its_generator():
    one, again = family().episode(2, seeded(3)), family().episode(2, seeded(3))
    assert one.support.x.shape == (2, 1)
    assert one.ids.shape == ()
    assert torch.equal(one.query.x, again.query.x)


def test_a_subset_numbers_its_tasks_anew():
    tasks = family()
    part = tasks.subset([4, 1])
    episodes = sample(part, torch.tensor([1]), 0)
    assert len(part) == 2
    assert episodes.ids.tolist() == [1]
    assert set(torch.cat([episodes.support.x[0], episodes.query.x[0]]).flatten().tolist()) == set(
        tasks.x[1].flatten().tolist()
    )
    assert part.episode(0, seeded(0)).ids == 0


def test_hold_out_cuts_disjoint_tasks():
    rest, held = hold_out(family(tasks=20), 0.25, seed=1)
    assert len(held) == 5
    assert sorted(rest.ids.tolist() + held.ids.tolist()) == list(range(20))
    again, _ = hold_out(family(tasks=20), 0.25, seed=1)
    assert torch.equal(rest.ids, again.ids)


@pytest.mark.parametrize(
    ("call", "about", "found"),
    [
        (lambda: ArrayTasks(torch.ones(2, 3, 1), torch.ones(2, 4), support=1), "x, y", ((2, 3, 1), (2, 4))),
        (lambda: family(support=5), "support", 5),
        (lambda: family(support=0), "support", 0),
        (lambda: family().subset([7]), "ids", 7),
        (lambda: family().subset([]), "ids", (0,)),
        (lambda: hold_out(family(), 0.01), "fraction", 0.01),
    ],
)
def test_bad_input(call, about, found):
    with refused(about, found):
        call()
