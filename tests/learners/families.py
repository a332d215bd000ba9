"""Small models and random episodes for the learners' tests."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import metasym as ms
from metasym.types import Batch, Episode


class Scaled(nn.Module):
    """A network with a nonlinearity, so that second derivatives do not vanish."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)


def fc() -> nn.Module:
    return Scaled(nn.Linear(5, 6), nn.Tanh(), nn.Linear(6, 3))


def conv() -> nn.Module:
    return Scaled(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(27, 3))


INPUT = {"fc": (5,), "conv": (1, 5, 5)}
MODEL = {"fc": fc, "conv": conv}


def regression(kind: str, tasks: int = 3, dtype: torch.dtype = torch.float64, seed: int = 0) -> Episode:
    g = torch.Generator().manual_seed(seed)

    def batch(examples: int) -> Batch:
        x = torch.randn(tasks, examples, *INPUT[kind], generator=g, dtype=dtype)
        return Batch(x, torch.randn(tasks, examples, 3, generator=g, dtype=dtype))

    return Episode(batch(2), batch(4), torch.arange(tasks))


def classification(
    tasks: int = 3, classes: int = 3, shots: int = 2, shape: tuple[int, ...] = (1, 5, 5),
    dtype: torch.dtype = torch.float64,
) -> Episode:  # fmt: skip
    g = torch.Generator().manual_seed(1)
    labels = torch.arange(classes).repeat_interleave(shots).expand(tasks, -1)

    def batch() -> Batch:
        return Batch(torch.randn(tasks, classes * shots, *shape, generator=g, dtype=dtype), labels)

    return Episode(batch(), batch(), torch.arange(tasks))


def seeded_model(kind: str, reparameterized: str | None, dtype: torch.dtype = torch.float64) -> nn.Module:
    torch.manual_seed(0)
    model = MODEL[kind]().to(dtype)
    if reparameterized == "kronecker":
        ms.reparameterize(model, "kronecker")
        with torch.no_grad():
            for u in ms.split(model).U.values():
                u.add_(0.1 * torch.randn_like(u))
    elif reparameterized == "dense":
        ms.reparameterize(model, "dense", filter_size=8, std=0.3, filter_std=0.5)
    return model


def mse(prediction: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(prediction, target)
