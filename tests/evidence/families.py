"""Small families of linear tasks with known weights."""

from __future__ import annotations

import torch
from torch import Tensor


def circulant(filters: Tensor) -> Tensor:
    """``[T, n]`` filters as ``[T, n, n]`` circulant maps."""
    n = filters.shape[1]
    return torch.stack([filters.roll(i, 1) for i in range(n)], 2)


def shifted(tasks: int, n: int, seed: int = 0) -> Tensor:
    """Random circulant maps ``[tasks, n, n]``."""
    g = torch.Generator().manual_seed(seed)
    return circulant(torch.randn(tasks, n, generator=g, dtype=torch.float64)) / n**0.5


def generic(tasks: int, n: int, seed: int = 0) -> Tensor:
    """Random maps without any symmetry."""
    g = torch.Generator().manual_seed(1000 + seed)
    return torch.randn(tasks, n, n, generator=g, dtype=torch.float64) / n**0.5


def examples(maps: Tensor, count: int, noise: float = 0.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """``x [T, count, n]`` from N(0, 1) and ``y`` of the maps, with noise of that standard deviation."""
    g = torch.Generator().manual_seed(2000 + seed)
    x = torch.randn(len(maps), count, maps.shape[2], generator=g, dtype=torch.float64)
    y = x @ maps.mT
    return x, y + noise * torch.randn(y.shape, generator=g, dtype=torch.float64)
