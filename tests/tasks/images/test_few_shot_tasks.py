from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
import torch

from metasym.tasks import FewShotTasks, ImageClasses, from_arrays, sample, seeded
from tests import forked
from tests.refusals import refused


def numbered(counts: tuple[int, ...] = (8, 6, 9, 7, 6, 8), size: int = 4) -> ImageClasses:
    """Every pixel of an image tells its class and its place: 20 * class + place."""
    labels = np.repeat(np.arange(len(counts)), counts)
    places = np.concatenate([np.arange(count) for count in counts])
    values = (20 * labels + places).astype(np.uint8)
    return from_arrays(np.broadcast_to(values[:, None, None, None], (len(values), 1, size, size)), labels)


def decoded(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    values = (x[..., 0, 0, 0] * 255).round().long()
    return values // 20, values % 20


def test_an_episode_has_the_ways_shots_and_queries_asked_for():
    tasks = FewShotTasks(numbered(), ways=3, shots=2, queries=4)
    episodes = sample(tasks, torch.arange(50), 0)
    assert episodes.support.x.shape == (50, 6, 1, 4, 4)
    assert episodes.query.x.shape == (50, 12, 1, 4, 4)
    assert episodes.support.x.dtype == torch.float32
    assert episodes.support.y[0].tolist() == [0, 0, 1, 1, 2, 2]
    for row in range(50):
        chosen = tasks.classes_of(torch.tensor([row]))[0]
        assert len(set(chosen.tolist())) == 3
        seen: set[tuple[int, int]] = set()
        for part in (episodes.support, episodes.query):
            labels, places = decoded(part.x[row])
            assert torch.equal(labels, chosen[part.y[row]])
            pairs = set(zip(labels.tolist(), places.tolist(), strict=True))
            assert len(pairs) == len(labels)
            assert not pairs & seen, "an image is both support and query"
            seen |= pairs


def test_every_class_image_and_label_has_its_turn():
    classes = numbered()
    tasks = FewShotTasks(classes, ways=2, shots=1, queries=1)
    many = sample(tasks, torch.arange(6000), 3)
    labels, places = decoded(many.support.x)
    shares = torch.bincount(labels.flatten(), minlength=6) / labels.numel()
    assert (shares - 1 / 6).abs().max() < 0.015
    for number, count in enumerate(classes.counts.tolist()):
        share = torch.bincount(places[labels == number], minlength=count) / (labels == number).sum()
        assert len(share) == count
        assert (share - 1 / count).abs().max() < 0.04


def test_the_classes_belong_to_the_task_and_the_images_to_the_episode():
    tasks = FewShotTasks(numbered(), ways=3, shots=2, queries=2, tasks=10)
    one, other = sample(tasks, torch.tensor([4]), 0), sample(tasks, torch.tensor([4]), 1)
    assert torch.equal(decoded(one.support.x)[0], decoded(other.support.x)[0])
    assert not torch.equal(decoded(one.support.x)[1], decoded(other.support.x)[1])
    assert len(tasks) == 10
    seeds = [FewShotTasks(numbered(), ways=3, shots=1, queries=1, seed=s) for s in (0, 1)]
    ids = torch.arange(20)
    assert not torch.equal(seeds[0].classes_of(ids), seeds[1].classes_of(ids))


def test_episodes_do_not_depend_on_their_neighbours_and_follow_their_generator():
    tasks = FewShotTasks(numbered(), ways=3, shots=1, queries=2)
    together = sample(tasks, torch.tensor([7, 1, 5]), 2)
    alone = sample(tasks, torch.tensor([1]), 2)
    assert torch.equal(alone.query.x[0], together.query.x[1])
    one, again = tasks.episode(3, seeded(8)), tasks.episode(3, seeded(8))
    assert one.support.x.shape == (3, 1, 4, 4)
    assert torch.equal(one.query.x, again.query.x)


PIXELS = """
import hashlib, torch
from tests.tasks.images.test_few_shot_tasks import digest
print(digest())
"""


def digest() -> str:
    from metasym.tasks import AugmentQuery, paper_transform

    # Images with structure: crops, flips and turns all show.
    images = np.random.default_rng(0).integers(0, 256, (48, 1, 9, 9)).astype(np.uint8)
    classes = from_arrays(images, np.repeat(np.arange(6), 8)).with_rotations()
    tasks = FewShotTasks(classes, ways=5, shots=1, queries=3)
    found = sample(AugmentQuery(tasks, paper_transform(9)), torch.arange(8), 11)
    data = found.support.x.numpy().tobytes() + found.query.x.numpy().tobytes()
    return hashlib.sha256(data).hexdigest()


def test_the_same_seed_gives_the_same_pixels_in_another_process():
    root = Path(__file__).parents[3]
    ran = forked.run(["-c", PIXELS], cwd=root)
    assert ran.stdout.strip() == digest()


def test_rotated_classes_are_turned_copies():
    images = np.arange(2 * 3 * 16, dtype=np.uint8).reshape(6, 1, 4, 4)
    classes = from_arrays(images, [0, 0, 0, 1, 1, 1])
    turned = classes.with_rotations()
    assert len(turned) == 8
    assert turned.names == ["0", "1", "0 (90)", "1 (90)", "0 (180)", "1 (180)", "0 (270)", "1 (270)"]
    for number in range(8):
        found = turned.pick(torch.tensor(number), torch.tensor([2, 0]))
        wanted = np.rot90(images[[3 * (number % 2) + 2, 3 * (number % 2)]], number // 2, axes=(2, 3))
        assert np.array_equal((found * 255).round().numpy(), wanted)
    with refused("images", (2, 8)):
        from_arrays(images.reshape(6, 1, 2, 8), [0] * 6).with_rotations()


def test_splits_are_by_class_disjoint_and_seeded():
    classes = from_arrays(np.zeros((60, 1, 2, 2), np.uint8), np.repeat(np.arange(30), 2))
    parts = classes.split(20, 4, 6)
    assert [len(part) for part in parts] == [20, 4, 6]
    names = [name for part in parts for name in part.names]
    assert sorted(names) == sorted(classes.names)
    again = classes.split(20, 4, 6)
    assert [part.names for part in again] == [part.names for part in parts]
    other = classes.split(20, 4, 6, seed=1)
    assert other[0].names != parts[0].names
    assert [len(part) for part in classes.split(0.5, 0.2)] == [15, 6]
    seven = classes.subset(range(7))
    assert [len(part) for part in seven.split(0.5, 0.5)] == [4, 3]
    assert [len(part) for part in seven.split(np.int64(3), np.int64(2))] == [3, 2]
    for wrong in ((float("nan"),), (), (True, 2)):
        with refused("sizes", wrong):
            seven.split(*wrong)
    for wrong, counts in (((0.9, 0.3), [6, 2]), ((4, 4), [4, 4]), ((0.01,), [0])):
        with refused("sizes", counts):
            seven.split(*wrong)


def test_arrays_are_grouped_by_label_and_floats_are_taken_as_they_are():
    images = np.arange(5, dtype=np.float32)[:, None, None] * np.ones((1, 2, 2), np.float32)
    classes = from_arrays(torch.from_numpy(images), ["b", "a", "b", "a", "c"])
    assert classes.names == ["a", "b", "c"]
    assert classes.counts.tolist() == [2, 2, 1]
    found = classes.pick(torch.tensor([0, 0, 1, 1, 2]), torch.tensor([0, 1, 0, 1, 0]))
    assert found[:, 0, 0, 0].tolist() == [1, 3, 0, 2, 4]
    assert found.shape == (5, 1, 2, 2)


@pytest.mark.parametrize(
    ("call", "about", "found"),
    [
        (lambda: FewShotTasks(numbered(), ways=7), "ways", 6),
        (
            lambda: FewShotTasks(numbered(), ways=2, shots=1, queries=6),
            "class 1",
            6,
        ),
        (lambda: FewShotTasks(numbered(), shots=0), "shots", 0),
        (lambda: FewShotTasks(numbered(), queries=True), "queries", True),
        (lambda: from_arrays(np.zeros((3, 2, 2)), [0, 1]), "images, labels", ((3, 2, 2), (2,))),
        (lambda: from_arrays(np.zeros((2, 2, 2)), [0.5, 1]), "images, labels", ("float64", "float64")),
        (lambda: numbered().split(5, 2), "sizes", [5, 2]),
        (lambda: numbered().subset([6]), "ids", [6]),
    ],
)
def test_bad_input(call, about, found):
    with refused(about, found):
        call()


@pytest.mark.parametrize("kind", ["uint8", "uint16", "uint32", "int64", "float16", ">f4", ">u2", "float64"])
def test_arrays_of_every_kind_of_number_can_be_turned_and_sampled(kind):
    values = np.arange(6 * 9).reshape(6, 3, 3)
    classes = from_arrays(values.astype(kind), [0, 0, 0, 1, 1, 1]).with_rotations()
    scale = 255 if kind == "uint8" else 1
    found = classes.pick(torch.tensor(3), torch.tensor([1])) * scale  # class 1, turned by 90 degrees
    assert np.allclose(found[0, 0].numpy(), np.rot90(values[4]), rtol=1e-6)
    assert found.dtype == torch.float32


def test_tensors_that_numpy_does_not_hold_and_lists_that_are_no_arrays():
    images = torch.arange(36.0).view(4, 3, 3)
    for kind in (images.bfloat16(), images.clone().requires_grad_()):
        found = from_arrays(kind, torch.tensor([0, 0, 1, 1])).pick(torch.tensor([1]), torch.tensor([0]))
        assert torch.equal(found[0, 0], images[2])
    with refused("images", "a ragged list"):
        from_arrays([[[1.0, 2.0]], [[1.0]]], [0, 1])


def test_whole_numbers_of_numpy_are_whole_numbers_and_tasks_are_those_there_are():
    tasks = FewShotTasks(numbered(), ways=np.int64(2), shots=np.int32(1), queries=2, tasks=3)
    assert tasks.episode(2, seeded(0)).query.x.shape == (4, 1, 4, 4)
    for index in (3, -1):
        with refused("task", index):
            tasks.episode(index, seeded(0))
