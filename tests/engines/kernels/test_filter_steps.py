"""The kernel of a filter's inner steps against the same in torch's operations."""

from __future__ import annotations

import pytest
import torch

from metasym.engines.dense.closed_form import _fused, _gradient
from metasym.engines.dense.layer import Layer
from metasym.engines.kernels.filter_steps import can_step
from metasym.types import Batch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("entries", [False, True])
@pytest.mark.parametrize("first_order", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_the_kernel_is_torch(dtype: torch.dtype, entries: bool, first_order: bool, bias: bool) -> None:
    """Sizes that fill neither vectors nor groups of rows; one thread and three give the same bits."""
    tasks, e, q, n, m, k, steps = 5, 3, 2, 7, 5, 11, 3
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    rates = 0.1 * draw(steps, k) if entries else torch.full((), 0.1, dtype=dtype).expand(steps)
    layer = Layer(draw(m * n, k), draw(k), draw(m) if bias else None, None, rates)
    support = Batch(draw(tasks, e, n), draw(tasks, e, m))
    query = Batch(draw(tasks, q, n), draw(tasks, q, m))
    if not can_step(layer.U):
        pytest.skip("no compiler")
    losses, by = _fused(layer, support, query, first_order, 0.2, True)
    expected, by_expected = _gradient(layer, support, query, first_order, True, 0.2, True)
    tolerance = {"rtol": 1e-4, "atol": 1e-3} if dtype == torch.float32 else {"rtol": 1e-11, "atol": 1e-11}
    for found, wanted in zip((*losses, *by), (*expected, *by_expected), strict=True):
        assert (found is None) == (wanted is None)
        if found is not None and wanted is not None:
            torch.testing.assert_close(found, wanted, **tolerance)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        again = _fused(layer, support, query, first_order, 0.2, True)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(again[0].query, losses.query)
    assert torch.equal(again[1].v, by.v)
