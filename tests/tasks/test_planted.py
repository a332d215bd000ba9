"""Families with a planted symmetry: the weights behind the examples have it, and nothing else is shared."""

from __future__ import annotations

import pytest
import torch

from metasym.tasks.planted import FAMILIES, planted, planted_basis, planted_group
from tests.refusals import refused

FULLY_CONNECTED = [name for name in FAMILIES if name not in ("translation", "rot90", "rot45")]


def fitted(name: str) -> torch.Tensor:
    """The weights ``[tasks, m, n]`` that the examples determine, by least squares."""
    data = planted(name, tasks=3, examples=30, seed=1)
    return torch.linalg.lstsq(data.x.double(), data.y.double()).solution.mT


@pytest.mark.parametrize("name", FULLY_CONNECTED)
def test_the_tasks_weights_commute_with_the_group(name):
    weights, group = fitted(name), planted_group(name)
    for element in group.matrices:
        assert (element @ weights - weights @ element).abs().max() < 1e-4


@pytest.mark.parametrize(
    ("name", "order", "free"),
    [
        ("shifts12", 12, 12),
        ("dihedral10", 20, 6),
        ("reflection10", 2, 50),
        ("blocks9", 6, 18),
        ("grid10", 10, 10),
        ("signed8", 16, 8),
        ("none8", 1, 64),
    ],
)
def test_orders_and_free_weights(name, order, free):
    assert planted_group(name).order == order
    assert planted_basis(name).shape[1] == free


def test_signed_shifts_change_the_sign_of_what_comes_round():
    turn = planted_group("signed8").matrices[1]
    eighth = torch.linalg.matrix_power(turn, 8)
    assert torch.allclose(eighth, -torch.eye(8, dtype=torch.float64))


@pytest.mark.parametrize("name", ["translation", "rot90"])
def test_images_and_convolutions(name):
    data = planted(name, tasks=40, examples=3)
    assert data.y.shape[2:] == ((68,) if name == "translation" else (12, 6, 6))
    if name == "translation":
        again = planted("translation", tasks=40, examples=3)
        assert torch.equal(again.y, data.y)  # by the seed alone
    assert 0.5 < data.y.square().mean().sqrt() < 2


def test_noise_is_added_to_the_outputs_alone():
    clean, noisy = planted("shifts12", tasks=50), planted("shifts12", tasks=50, noise=0.2)
    assert torch.equal(clean.x, noisy.x)
    assert (noisy.y - clean.y).std() == pytest.approx(0.2, rel=0.03)


def test_bad_input():
    with refused("family", "circle"):
        planted("circle")
    with refused("tasks, examples, noise, broken", (500, 20, -1, 0.0)):
        planted("none8", noise=-1)


def test_a_broken_symmetry_is_broken_by_as_much_as_asked():
    whole, broken = (
        planted("shifts12", tasks=40, examples=20, seed=3),
        planted("shifts12", tasks=40, examples=20, broken=0.2, seed=3),
    )
    assert torch.equal(whole.x, broken.x)
    parts = [torch.linalg.lstsq(b.x.double(), b.y.double()).solution for b in (whole, broken)]
    size = (parts[1] - parts[0]).norm() / parts[0].norm()
    assert 0.15 < float(size) < 0.25
    with refused("tasks, examples, noise, broken", (500, 20, 0.0, -1)):
        planted("shifts12", broken=-1)
