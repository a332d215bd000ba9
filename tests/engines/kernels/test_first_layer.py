"""A first layer with its norm in one, beside the product with the patches and the norm by themselves."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from metasym.engines.kernels import norm_pool
from metasym.engines.kernels.compiled import library
from metasym.engines.kernels.first_layer import First, first_forward, first_gradient

pytestmark = pytest.mark.skipif(library("first_layer") is None, reason="no compiler on this machine")

CASES = [(2, True, 8), (2, True, 7), (1, True, 5), (3, False, 7), (1, False, 4)]


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def run(tensors: tuple[Tensor, ...], size: tuple[int, int, int], relu: bool, pool: int) -> First:
    found = first_forward(*tensors, size, eps=1e-3, relu=relu, pool=pool)
    assert found is not None
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("entries", "channels"), [(9, 8), (13, 5), (27, 19)])
@pytest.mark.parametrize(("pool", "relu", "side"), CASES)
def test_the_same_as_one_after_the_other(
    pool: int, relu: bool, side: int, entries: int, channels: int, dtype: torch.dtype
) -> None:
    size = (3, side, side + 1)
    patches, W = 1 + draw(entries, 3 * side * (side + 1)), draw(channels, entries, seed=1)
    scale, shift = draw(channels, seed=2), draw(channels, seed=3)
    patches, W, scale, shift = (t.to(dtype).double() for t in (patches, W, scale, shift))
    x = (patches.T @ W.T).view(*size, channels)
    expected = norm_pool.forward(x, scale, shift, eps=1e-3, relu=relu, pool=pool)
    dy = draw(*expected.y.shape, seed=4).to(dtype).double()
    dx, dscale, dshift = norm_pool.backward(expected, scale, dy)
    dW = dx.flatten(0, 2).T @ patches.T
    patches, W, scale, shift, dy = (t.to(dtype) for t in (patches, W, scale, shift, dy))
    found = run((patches, W, scale, shift), size, relu, pool)
    exact = dtype is torch.float64
    close = {"atol": 1e-10, "rtol": 1e-10} if exact else {"atol": 3e-4, "rtol": 3e-4}
    torch.testing.assert_close(found.y.double(), expected.y, **close)
    torch.testing.assert_close(found.mean.double(), expected.mean, **close)
    torch.testing.assert_close(found.inv.double(), expected.inv, **close)
    gradients = first_gradient(found, scale, W, dy)
    for one, other in zip(gradients, (dW, dscale, dshift), strict=True):
        torch.testing.assert_close(one.double(), other, **close)


def test_equal_bits_at_any_number_of_threads() -> None:
    tensors = (draw(9, 5 * 36).float(), draw(8, 9).float(), torch.ones(8), torch.zeros(8))
    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            done = run(tensors, (5, 6, 6), True, 2)
            found.append((done.y, *first_gradient(done, tensors[2], tensors[1], done.y)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other, strict=True))


def test_nan_is_not_hidden() -> None:
    patches = torch.ones(9, 16)
    patches[0, 3] = torch.nan
    assert run((patches, torch.ones(8, 9), torch.ones(8), torch.zeros(8)), (1, 4, 4), True, 2).y.isnan().all()
