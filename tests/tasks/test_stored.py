"""Episodes of tasks that have different numbers of examples."""

from __future__ import annotations

from collections import Counter

import numpy as np
import torch

from metasym.tasks.reading import read_tasks
from metasym.tasks.sampling import sample
from metasym.tasks.stored import Layout, StoredTasks
from metasym.tasks.task_file import TaskFile
from tests.refusals import refused

SIZES = (3, 8, 5, 2, 8, 8)


def ragged(tmp_path, labels: bool = False) -> TaskFile:
    """Row ``i`` of task ``t`` has x = [100 t + i, 1] and y = x[0], or the label i % 2."""
    task = np.repeat(np.arange(len(SIZES)), SIZES)
    row = np.concatenate([np.arange(size) for size in SIZES])
    x = np.stack([100.0 * task + row, np.ones(len(task))], axis=1)
    np.savez(tmp_path / "t.npz", x=x, y=row % 2 if labels else x[:, 0], task=task)
    return read_tasks(tmp_path / "t.npz")


def test_rows_of_an_archive_become_tasks(tmp_path):
    file = ragged(tmp_path)
    assert file.counts.tolist() == list(SIZES)
    assert file.examples == 3
    for index, size in enumerate(SIZES):
        x, y = file.task(index)
        assert x[:, 0].tolist() == y.tolist() == [100.0 * index + i for i in range(size)]


def test_an_episode_holds_a_tasks_own_examples_and_repeats_what_is_missing_evenly(tmp_path):
    tasks = StoredTasks(ragged(tmp_path), range(6), support=2, layout=Layout((2,), (1,)))
    assert tasks.ids.tolist() == [0, 1, 2, 4, 5]  # task 3 has no example left to score
    assert tasks.query == 6
    episodes = sample(tasks, torch.arange(5), 0)
    assert episodes.query.x.shape == (5, 6, 2)
    for index, task in enumerate(tasks.ids.tolist()):
        support = episodes.support.y[index].flatten().tolist()
        query = Counter(episodes.query.y[index].flatten().tolist())
        own = {100.0 * task + i for i in range(SIZES[task])}
        assert set(support) | set(query) == own
        assert not set(support) & set(query)
        assert max(query.values()) - min(query.values()) <= 1
    again = tasks.episode(2, torch.Generator().manual_seed(1))
    assert again.support.x.shape == (2, 2)


def test_labels_take_turns_in_tasks_of_different_sizes(tmp_path):
    tasks = StoredTasks(ragged(tmp_path, labels=True), range(6), support=2, layout=Layout((2,), ()))
    episodes = sample(tasks, torch.arange(5), 3)
    assert episodes.support.y.sort(dim=1).values.tolist() == [[0, 1]] * 5


def test_all_examples_are_padded_with_zeros_and_standardised(tmp_path):
    layout = Layout((2,), (1,), 2.0, 4.0, (10.0, 1.0), (7.0,), (1.0, 3.0), (0.5,))
    tasks = StoredTasks(ragged(tmp_path), [3, 0], support=2, layout=layout)
    found = tasks.examples()
    assert found.counts.tolist() == [2, 3]
    assert found.x.dtype == torch.float64
    assert found.x[0].tolist() == [[145.0, 0.0], [145.5, 0.0], [0.0, 0.0]]
    assert found.y[1].flatten().tolist() == [-3.5, -3.0, -2.5]
    assert found.y[0, 2].item() == 0


def test_equal_sizes_draw_what_they_always_drew(tmp_path):
    """An archive by rows and the same tasks as [tasks, examples, ...] give the same episodes."""
    draw = np.random.default_rng(0)
    x, y = draw.standard_normal((5, 4, 3)), draw.standard_normal((5, 4, 2))
    np.savez(tmp_path / "a.npz", x=x, y=y)
    rows = {"x": x.reshape(20, 3), "y": y.reshape(20, 2), "task": np.repeat(np.arange(5), 4)}
    np.savez(tmp_path / "b.npz", **rows)
    one, other = (
        sample(
            StoredTasks(read_tasks(tmp_path / n), range(5), support=1, layout=Layout((3,), (2,))),
            torch.arange(5),
            9,
        )
        for n in ("a.npz", "b.npz")
    )
    assert torch.equal(one.query.x, other.query.x)
    assert torch.equal(one.support.y, other.support.y)


def test_more_support_than_any_task_has_is_refused(tmp_path):
    with refused("support", 8):
        StoredTasks(ragged(tmp_path), range(6), support=8, layout=Layout((2,), (1,)))
