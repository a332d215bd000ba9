"""Winograd's algorithm against torch's convolution and its gradients; float32 against float64."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from metasym.engines.kernels.winograd import can_filter, convolution_gradients, convolve

pytestmark = pytest.mark.skipif(not can_filter(), reason="no compiler on this machine")

SIZES = [  # examples, height, width, channels in and out, side of the kernel, padding
    (1, 3, 3, 1, 1, 3, 0),
    (3, 5, 7, 5, 9, 3, 1),
    (2, 14, 14, 16, 24, 3, 1),
    (7, 9, 4, 3, 8, 3, 0),
    (2, 1, 1, 8, 8, 3, 1),
    (40, 7, 8, 4, 6, 3, 1),
    (3, 37, 30, 4, 4, 3, 0),
    (2, 4, 5, 3, 2, 3, 2),
    (1, 5, 5, 1, 1, 5, 0),
    (3, 6, 9, 5, 9, 5, 2),
    (2, 14, 14, 16, 24, 5, 2),
    (7, 9, 5, 3, 8, 5, 1),
    (2, 1, 1, 8, 8, 5, 2),
    (40, 7, 8, 4, 6, 5, 2),
    (3, 37, 30, 4, 4, 5, 0),
    (2, 2, 3, 3, 2, 5, 4),
]


def draw(size: tuple[int, ...], dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    n, h, w, inputs, outputs, side, padding = size
    less = side - 1 - 2 * padding
    g = torch.Generator().manual_seed(sum(size))
    x = torch.randn(n, h, w, inputs, generator=g, dtype=torch.float64)
    W = torch.randn(outputs, inputs, side, side, generator=g, dtype=torch.float64) / inputs**0.5
    dy = torch.randn(n, h - less, w - less, outputs, generator=g, dtype=torch.float64)
    return x.to(dtype), W.to(dtype), dy.to(dtype)


def plain(x: Tensor, W: Tensor, dy: Tensor, padding: int) -> list[Tensor]:
    x, W = x.clone().requires_grad_(), W.clone().requires_grad_()
    y = F.conv2d(x.permute(0, 3, 1, 2), W, padding=padding).permute(0, 2, 3, 1)
    return [y.detach(), *torch.autograd.grad(y, (x, W), dy)]


def ours(x: Tensor, W: Tensor, dy: Tensor, padding: int) -> list[Tensor]:
    dx, dW = convolution_gradients(x, W, dy, padding, inputs=True, weight=True)
    assert dx is not None
    assert dW is not None
    return [convolve(x, W, padding), dx, dW]


@pytest.mark.parametrize("size", SIZES)
def test_the_same_as_torch(size: tuple[int, ...]) -> None:
    tensors = draw(size)
    for found, expected in zip(ours(*tensors, size[-1]), plain(*tensors, size[-1]), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("size", [*SIZES[1:3], *SIZES[9:11]])
def test_each_gradient_alone_and_added_to_another(size: tuple[int, ...]) -> None:
    x, W, dy = draw(size)
    padding = size[-1]
    y, dx, dW = ours(x, W, dy, padding)
    alone, nothing = convolution_gradients(x, W, dy, padding, inputs=True, weight=False)
    assert alone is not None
    assert nothing is None
    assert torch.equal(alone, dx)
    nothing, alone = convolution_gradients(x, W, dy, padding, inputs=False, weight=True)
    assert alone is not None
    assert nothing is None
    assert torch.equal(alone, dW)
    close = {"atol": 1e-12, "rtol": 1e-12}
    torch.testing.assert_close(convolve(x, W, padding, onto=torch.ones_like(y)), 1 + y, **close)
    onto = (torch.ones_like(dx), torch.full_like(dW, 2))
    convolution_gradients(x, W, dy, padding, inputs=True, weight=True, onto=onto)
    torch.testing.assert_close(onto[0], 1 + dx, **close)
    torch.testing.assert_close(onto[1], 2 + dW, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("size", [SIZES[1], (70, 7, 7, 4, 8, 3, 1), (70, 7, 7, 4, 8, 5, 2)])
def test_equal_bits_at_any_number_of_threads(size: tuple[int, ...], dtype: torch.dtype) -> None:
    tensors = draw(size, dtype)
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 1, 2, 3):
            torch.set_num_threads(threads)
            found.append(ours(*tensors, size[-1]))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize(("side", "bound"), [(3, 2e-6), (5, 6e-6)])
def test_rounding_in_float32_is_a_few_times_that_of_sums_in_any_order(side: int, bound: float) -> None:
    """Against float64, as a part of the result's size; a plain convolution has 1e-7 to 2e-6 here."""
    padding = side // 2
    single = draw((20, 14, 14, 64, 64, side, padding), torch.float32)
    exact = plain(*(t.double() for t in single), padding)
    for found, expected in zip(ours(*single, padding), exact, strict=True):
        error = (found.double() - expected).square().mean().sqrt() / expected.square().mean().sqrt()
        assert error < bound


@pytest.mark.parametrize("side", [3, 5])
def test_nan_is_not_hidden(side: int) -> None:
    x, W, _ = draw((2, 6, 6, 8, 8, side, side // 2), torch.float32)
    x[0, 2, 2, 0] = torch.nan
    y = convolve(x, W, side // 2)
    assert y[0, 1:4, 1:4].isnan().all()
    assert y[1].isfinite().all()
