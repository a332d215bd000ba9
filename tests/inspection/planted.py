"""Symmetry matrices of known groups, exact or noisy, in any gauge."""

from __future__ import annotations

import torch
from torch import Tensor

import metasym as ms
from metasym.inspection.layers import inspect_layer
from metasym.verdicts.reports import LayerReport


def of_group(group: ms.groups.Group, out: ms.groups.Group | None = None) -> tuple[Tensor, tuple[int, int]]:
    out = group if out is None else out
    return ms.groups.equivariant_basis(group, out), (out.degree, group.degree)


def signed_cycle(n: int) -> ms.groups.Group:
    """The shift of n points that flips the sign of what comes round: its n-th power is -1."""
    matrix = torch.zeros(n, n, dtype=torch.float64)
    for i in range(n):
        matrix[(i + 1) % n, i] = -1.0 if i == n - 1 else 1.0
    return ms.groups.from_generators([matrix])


def blocks_of_three() -> ms.groups.Group:
    return ms.groups.from_generators([[3, 4, 5, 0, 1, 2, 6, 7, 8], [3, 4, 5, 6, 7, 8, 0, 1, 2]])


def alternating(n: int) -> ms.groups.Group:
    long = [*range(1, n), 0] if n % 2 else [0, *range(2, n), 1]
    cycles = [[1, 2, 0, *range(3, n)], long]
    return ms.groups.from_generators(cycles, name=f"A_{n}")


def convolution(inputs: int, width: int) -> tuple[Tensor, tuple[int, int]]:
    outputs = inputs - width + 1
    U = torch.zeros(outputs, inputs, width, dtype=torch.float64)
    for i in range(outputs):
        for j in range(width):
            U[i, i + j, j] = 1
    return U.reshape(-1, width), (outputs, inputs)


def convolution_2d(height: int, width: int, kernel: int) -> tuple[Tensor, tuple[int, int]]:
    high, wide = height - kernel + 1, width - kernel + 1
    U = torch.zeros(high, wide, height, width, kernel, kernel, dtype=torch.float64)
    for a in range(high):
        for b in range(wide):
            for c in range(kernel):
                for d in range(kernel):
                    U[a, b, a + c, b + d, c, d] = 1
    return U.reshape(-1, kernel**2), (high * wide, height * width)


def noisy(U: Tensor, amount: float, seed: int = 0) -> Tensor:
    """Noise of ``amount`` times the typical length of a row, spread over its entries."""
    generator = torch.Generator().manual_seed(seed)
    scale = amount * float(U.square().sum(1).mean().sqrt()) / U.shape[1] ** 0.5
    return U + scale * torch.randn(U.shape, generator=generator, dtype=U.dtype)


def turned(U: Tensor, columns: int, seed: int = 0) -> Tensor:
    """``U R`` for a random R with orthonormal rows, ``[k, columns]``: the same U U^T."""
    generator = torch.Generator().manual_seed(seed)
    R = torch.linalg.qr(torch.randn(columns, U.shape[1], generator=generator, dtype=U.dtype)).Q.T
    return U @ R


def seen(U: Tensor, shape: tuple[int, ...]) -> LayerReport:
    return inspect_layer("layer", ms.DenseSymmetry(shape, U=U))
