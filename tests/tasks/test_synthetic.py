from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from metasym.tasks import rotation, sample, translation
from metasym.tasks.synthetic import RotationTasks, mixing_weights, rotation_basis
from tests.refusals import refused

PAPER = {  # tasks for training and test, examples of a training task in the small and the large problem
    1: (400, 100, 2, 20),
    2: (800, 200, 2, 20),
    5: (800, 200, 4, 20),
}


@pytest.mark.paper
@pytest.mark.parametrize("rank", PAPER)
def test_the_numbers_of_the_papers_data_table(rank):
    train, test, small, large = PAPER[rank]
    for size, examples in (("small", small), ("large", large)):
        problem = translation(rank, size)
        assert (len(problem.train), len(problem.test)) == (train, test)
        seen = sample(problem.train, torch.arange(3), 0)
        assert seen.support.x.shape == (3, 1, 70)
        assert seen.query.y.shape == (3, examples - 1, 68)
        tested = sample(problem.test, torch.arange(3), 0)
        assert tested.support.x.shape[1] == 1
        assert tested.query.x.shape[1] == 19
        assert problem.dimension == 3 * rank


@pytest.mark.paper
@pytest.mark.parametrize(("kind", "channels"), [("rot90", 12), ("rot45", 24), ("rot45-flip", 48)])
def test_the_rotation_problems_have_8000_and_2000_tasks_of_20_examples(kind, channels):
    problem = rotation(kind)
    assert (len(problem.train), len(problem.test)) == (8000, 2000)
    episodes = sample(problem.train, torch.tensor([7]), 0)
    assert episodes.support.x.shape == (1, 1, 1, 32, 32)
    assert episodes.query.y.shape == (1, 19, channels, 30, 30)
    assert problem.dimension == 18
    assert problem.output_shape == (channels, 30, 30)


@pytest.mark.parametrize("rank", [1, 2, 5])
def test_least_squares_over_the_true_space_recovers_every_task(rank):
    problem = translation(rank, "large", seed=3, train_tasks=4, test_tasks=2)
    mixing = mixing_weights(rank, 3)
    torch.testing.assert_close(mixing.sum(1), torch.ones(68, dtype=torch.float64))
    for index in range(4):
        x, y = problem.train.x[index].double(), problem.train.y[index].double()  # type: ignore[attr-defined]
        # An independent loop: y[p] = sum over filters j and their entries w of mixing * filter * input.
        rows = []
        for example in x:
            for place in range(68):
                rows.append(
                    torch.stack(
                        [mixing[place, j] * example[place : place + 3] for j in range(rank)]
                    ).flatten()
                )
        design = torch.stack(rows)
        filters = torch.linalg.lstsq(design, y.flatten().unsqueeze(1)).solution
        torch.testing.assert_close(design @ filters, y.flatten().unsqueeze(1), atol=1e-5, rtol=1e-5)
        assert filters.abs().max() > 0.1
        assert torch.linalg.matrix_rank(mixing @ filters.reshape(rank, 3)) == min(rank, 3)
        # The same weight lies in the span of the stated basis.
        W = torch.zeros(68, 70, dtype=torch.float64)
        for place in range(68):
            W[place, place : place + 3] = (mixing[place] @ filters.reshape(rank, 3)).flatten()
        w, basis = W.flatten(), problem.true_basis
        torch.testing.assert_close(basis @ (basis.T @ w), w)
        torch.testing.assert_close(x @ W.T, y, atol=1e-5, rtol=1e-5)


def test_all_tasks_of_a_problem_share_the_mixing_weights_and_span_the_space():
    problem = translation(5, "large", train_tasks=40)
    x, y = problem.train.x[:, :, :3].double(), problem.train.y[:, :, :1].double()  # type: ignore[attr-defined]
    filters = torch.linalg.lstsq(x, y).solution.squeeze(-1)  # at place 0, of each task
    torch.testing.assert_close(x @ filters.unsqueeze(-1), y, atol=1e-5, rtol=1e-5)
    assert torch.linalg.matrix_rank(filters) == 3


@pytest.mark.parametrize("kind", ["rot90", "rot45", "rot45-flip"])
def test_rotation_outputs_are_the_convolution_with_the_tasks_bank(kind):
    problem = rotation(kind, 7, seed=2, train_tasks=5, test_tasks=3)
    tasks = problem.train
    assert isinstance(tasks, RotationTasks)
    ids = torch.tensor([4, 1])
    episodes, banks = sample(tasks, ids, 9), tasks.banks(ids)
    for row in range(2):
        for part in (episodes.support, episodes.query):
            wanted = F.conv2d(part.x[row], banks[row])
            torch.testing.assert_close(part.y[row], wanted, atol=1e-5, rtol=1e-5)
        flat = banks[row].double().flatten()
        basis = problem.true_basis
        torch.testing.assert_close(basis @ (basis.T @ flat), flat, atol=1e-6, rtol=1e-5)
    shown = tasks.examples_of(4)
    torch.testing.assert_close(shown.y, F.conv2d(shown.x, banks[0]))


def test_a_task_has_the_same_images_at_every_visit_and_at_every_size_the_same_bank():
    tasks = rotation("rot90", 5, train_tasks=3).train
    assert isinstance(tasks, RotationTasks)
    first, second = (sample(tasks, torch.tensor([2]), seed) for seed in (0, 3))
    assert not torch.equal(first.support.x, second.support.x)

    def images(episodes):
        whole = torch.cat([episodes.support.x[0], episodes.query.x[0]]).flatten(1)
        return whole[whole[:, 0].argsort()]

    assert torch.equal(images(first), images(second))
    larger = rotation("rot90", 9, train_tasks=3).train
    assert isinstance(larger, RotationTasks)
    assert torch.equal(tasks.banks(torch.arange(3)), larger.banks(torch.arange(3)))


def test_banks_are_drawn_by_the_he_start():
    tasks = rotation("rot45", 4, train_tasks=4000).train
    assert isinstance(tasks, RotationTasks)
    banks = tasks.banks(torch.arange(4000)).double().flatten(1)
    basis = rotation_basis("rot45")
    found = torch.linalg.lstsq(basis.basis, banks.T).solution.std(dim=1)
    torch.testing.assert_close(found, basis.he_std, rtol=0.08, atol=0)


@pytest.mark.parametrize(
    "problem", [lambda n: translation(2, train_tasks=n), lambda n: rotation("rot45", 4, train_tasks=n)]
)
def test_tasks_do_not_depend_on_how_many_are_asked_for_nor_on_their_company(problem):
    few, many = problem(3).train, problem(9).train
    alone = sample(few, torch.tensor([2]), 0)
    together = sample(many, torch.tensor([8, 2, 5]), 0)
    assert torch.equal(alone.support.x[0], together.support.x[1])
    torch.testing.assert_close(alone.query.y[0], together.query.y[1])


def test_small_is_the_beginning_of_large_and_both_have_the_same_test_tasks():
    small, large = translation(5, "small"), translation(5, "large")
    assert torch.equal(small.train.x, large.train.x[:, :4])  # type: ignore[attr-defined]
    assert torch.equal(small.test.y, large.test.y)  # type: ignore[attr-defined]


def test_training_and_test_tasks_are_other_draws():
    problem = translation(1, "large")
    train, test = problem.train.x.flatten(0, 1), problem.test.x.flatten(0, 1)  # type: ignore[attr-defined]
    inputs = torch.cat([train[:, :3], test[:, :3]])
    assert len(inputs.unique(dim=0)) == len(inputs)
    turned = rotation("rot90", 4)
    assert isinstance(turned.train, RotationTasks)
    assert isinstance(turned.test, RotationTasks)
    assert not set(turned.train._seeds.tolist()) & set(turned.test._seeds.tolist())


def fingerprint() -> str:
    problem, turned = translation(2, seed=5), rotation("rot45-flip", 6, seed=5)
    digest = hashlib.sha256()
    for tasks in (problem.train, problem.test, turned.train, turned.test):
        episodes = sample(tasks, torch.tensor([1, 17]), 3)
        for tensor in (*episodes.support, *episodes.query):
            digest.update(tensor.contiguous().numpy().tobytes())
    return digest.hexdigest()


def test_another_process_draws_the_same_tasks():
    script = "from tests.tasks.test_synthetic import fingerprint; print(fingerprint())"
    environment = {**os.environ, "PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "1"}
    found = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert found.stdout.strip() == fingerprint()


@pytest.mark.parametrize(
    ("call", "about", "found"),
    [
        (lambda: translation(3), "rank", 3),
        (lambda: translation(1, "huge"), "size", "huge"),
        (lambda: rotation("rot30"), "kind", "rot30"),
        (lambda: rotation("rot90", 2), "image_size", 2),
    ],
)
def test_bad_input(call, about, found):
    with refused(about, found):
        call()
