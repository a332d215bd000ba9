"""The moments' kernel against patches laid out by torch."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from metasym.engines.kernels import engine_kernels as compiled
from metasym.engines.kernels.patch_moments import adds_blocks, patch_moments


def oracle(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    tasks = []
    for images, targets in zip(x.double(), y.double(), strict=True):
        P = F.unfold(images, 3).transpose(0, 1).flatten(1)  # [p, rows]
        Y = targets.transpose(0, 1).flatten(1)
        tasks.append((P @ P.mT, Y @ P.mT, Y.square().sum()))
    S, C, square = (torch.stack(parts) for parts in zip(*tasks, strict=True))
    return S, C, square


@pytest.fixture(autouse=True)
def need_the_kernel() -> None:
    if compiled.library("patch_moments") is None:
        pytest.skip("no compiler here")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("tasks", "n", "c", "h", "w", "out"),
    [
        (1, 1, 1, 3, 3, 1),
        (2, 3, 1, 32, 32, 24),
        (3, 2, 3, 6, 9, 4),
        (2, 2, 2, 5, 4, 3),
        (1, 4, 1, 7, 6, 2),
        (1, 2, 3, 4, 18, 6),
        (2, 1, 1, 3, 40, 5),
    ],
)
def test_moments_are_those_of_the_patches(
    dtype: torch.dtype, tasks: int, n: int, c: int, h: int, w: int, out: int
) -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(tasks, n, c, h, w, generator=g).to(dtype)
    y = torch.randn(tasks, n, out, h - 2, w - 2, generator=g).to(dtype)
    layouts = [y, y.transpose(1, 2).contiguous().transpose(1, 2), y.mT.contiguous().mT, y.flip(1).flip(1)]
    for given in layouts:
        found = patch_moments(x, given)
        assert found is not None
        for ours, theirs in zip(found, oracle(x, y), strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-10, rtol=1e-12)


@pytest.mark.parametrize(("n", "c", "h", "w", "out"), [(20, 1, 32, 32, 24), (60, 2, 17, 13, 5)])
def test_sums_of_blocks_are_off_by_their_rounding(n: int, c: int, h: int, w: int, out: int) -> None:
    g = torch.Generator().manual_seed(3)
    x = torch.randn(2, n, c, h, w, generator=g)
    y = torch.stack([F.conv2d(images, torch.randn(out, c, 3, 3, generator=g)) for images in x])
    assert adds_blocks(x, y)
    found = patch_moments(x, y, exact=False)
    assert found is not None
    S, C, square = oracle(x, y)
    assert torch.equal(found[0], found[0].mT)
    planes = y.double().square().sum((1, 3, 4)).sqrt()
    norms = S.diagonal(dim1=1, dim2=2).sqrt()
    by_C = (found[1] - C) / (norms.unsqueeze(1) * planes.unsqueeze(2))
    by_S = (found[0] - S) / (norms.unsqueeze(1) * norms.unsqueeze(2))
    for error in (by_S, by_C, (found[2] - square) / square):
        assert 0 < error.abs().max() < 30 * 2.0**-24  # 30 roundings, each of |x| |y| at most
        assert error.square().mean().sqrt() < 1e-8  # but they go either way


def test_few_patches_and_float64_are_always_exact() -> None:
    g = torch.Generator().manual_seed(4)
    x, y = torch.randn(2, 2, 1, 8, 8, generator=g), torch.randn(2, 2, 3, 6, 6, generator=g)
    large = torch.zeros(1, 20, 1, 32, 32), torch.zeros(1, 20, 2, 30, 30)
    assert adds_blocks(*large)
    assert not adds_blocks(*(t.double() for t in large))
    assert not adds_blocks(x, y)
    exact, other = patch_moments(x, y), patch_moments(x, y, exact=False)
    assert exact is not None
    assert other is not None
    assert all(torch.equal(a, b) for a, b in zip(exact, other, strict=True))


def test_nothing_depends_on_the_threads_or_on_the_other_tasks() -> None:
    g = torch.Generator().manual_seed(1)
    x, y = torch.randn(5, 2, 1, 8, 8, generator=g), torch.randn(5, 2, 3, 6, 6, generator=g)
    before = torch.get_num_threads()
    whole = patch_moments(x, y)
    try:
        torch.set_num_threads(2)
        shared = patch_moments(x, y)
    finally:
        torch.set_num_threads(before)
    alone = patch_moments(x[3:4], y[3:4])
    assert whole is not None
    assert shared is not None
    assert alone is not None
    for a, b, c in zip(whole, shared, alone, strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a[3:4], c)


def test_other_types_are_left_to_torch() -> None:
    x, y = torch.zeros(1, 1, 1, 4, 4), torch.zeros(1, 1, 1, 2, 2)
    assert patch_moments(x.half(), y.half()) is None
    assert patch_moments(x, y.double()) is None
