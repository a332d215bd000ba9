"""Large linear layers: U from the tasks' own weights, and the directions that few tasks did not show."""

from __future__ import annotations

import math

import torch
from torch import nn

import metasym as ms
from metasym.runs.learning.large_layers import directions, fits


def circulants(tasks: int, n: int, noise: float, seed: int) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    filters = torch.randn(tasks, n, generator=g)
    index = (torch.arange(n)[None, :] - torch.arange(n)[:, None]) % n
    weights = filters[:, index].flatten(1)
    return weights + noise * torch.randn(weights.shape, generator=g)


def test_directions_span_the_weights_and_have_their_spread() -> None:
    weights = circulants(200, 12, 0.0, 0)
    U = directions(weights, 0.0)
    assert U.shape == (144, 12)
    rest = weights - weights @ torch.linalg.pinv(U.T) @ U.T
    assert float(rest.norm() / weights.norm()) < 1e-4
    assert math.isclose(float(U.square().sum()), float(weights.square().sum()) / 200, rel_tol=1e-4)


def test_noise_of_least_squares_is_no_direction() -> None:
    U = directions(circulants(200, 12, 0.05, 1), 0.05**2)
    assert U.shape[1] == 12
    model = ms.reparameterize(nn.Linear(12, 12, bias=False), lambda *_: ms.DenseSymmetry((12, 12), U=U))
    group = ms.inspect(model)[0].group
    assert group is not None
    assert group.name == "Z_12"


def test_only_large_layers_with_examples_enough() -> None:
    assert fits(256, 256, 280)
    assert not fits(256, 256, 100)
    assert not fits(64, 64, 280)
    assert not fits(300, 256, 400)
