"""The fused kernels against torch's own layers and torch.func's derivatives of them."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import jvp, vjp

from metasym.engines.kernels import engine_kernels as compiled
from metasym.engines.kernels import norm_pool
from metasym.native import compiled as native

CASES = [(2, True, 8), (2, True, 7), (1, True, 5), (3, False, 7), (1, False, 4)]


@pytest.fixture(params=["compiled", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "torch":
        monkeypatch.setattr(norm_pool, "library", lambda: None)
    elif not compiled.available():
        pytest.skip("no compiler on this machine")
    return str(request.param)


def plain(relu: bool, pool: int) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    def function(x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        normal = F.batch_norm(x.permute(0, 3, 1, 2), None, None, training=True, eps=1e-3)
        z = normal * scale.view(-1, 1, 1) + shift.view(-1, 1, 1)
        z = F.max_pool2d(z.relu() if relu else z, pool)
        return z.permute(0, 2, 3, 1)

    return function


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # jvp's own
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(("pool", "relu", "side"), CASES)
def test_values_and_derivatives(way: str, pool: int, relu: bool, side: int, dtype: torch.dtype) -> None:
    g = torch.Generator().manual_seed(side)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=dtype)

    x, tx = 3 + draw(3, side, side + 1, 5), draw(3, side, side + 1, 5)
    scale, shift, tscale, tshift = draw(5), draw(5), draw(5), draw(5)
    f = plain(relu, pool)
    y, ty = jvp(f, (x, scale, shift), (tx, tscale, tshift))
    dy, tdy = draw(*y.shape), draw(*y.shape)
    gradients, tangents = jvp(
        lambda x, scale, shift, dy: vjp(f, x, scale, shift)[1](dy),
        (x, scale, shift, dy),
        (tx, tscale, tshift, tdy),
    )
    done = norm_pool.forward(x, scale, shift, eps=1e-3, relu=relu, pool=pool)
    back = norm_pool.backward(done, scale, dy)
    along = norm_pool.tangent(done, scale, tx, tscale, tshift)
    second = norm_pool.tangent_backward(done, along, scale, tscale, (dy, *back[1:]), tdy)
    close = {"atol": 1e-11, "rtol": 1e-11} if dtype is torch.float64 else {"atol": 2e-5, "rtol": 2e-5}
    for found, expected in zip(
        (done.y, *back, along.y, *second), (y, *gradients, ty, *tangents), strict=True
    ):
        torch.testing.assert_close(found, expected, **close)
    still = norm_pool.tangent(done, scale, None, tscale, tshift)
    _, expected = jvp(f, (x, scale, shift), (torch.zeros_like(x), tscale, tshift))
    torch.testing.assert_close(still.y, expected, **close)


@pytest.mark.parametrize("relu", [True, False])
def test_channels_that_share_statistics_are_one_channel_stacked(way: str, relu: bool) -> None:
    """Fields of three channels beside a norm of the channels one below the other."""
    g = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    def stack(t: Tensor) -> Tensor:  # [n, h, w, fields * 3] to [n, 3 * h, w, fields]
        return t.unflatten(-1, (-1, 3)).permute(0, 4, 1, 2, 3).flatten(1, 2).contiguous()

    x, tx, dy, tdy = (1 + torch.arange(6.0) + draw(2, 4, 5, 6) for _ in range(4))
    scale, shift, tscale, tshift = draw(2), draw(2), draw(2), draw(2)
    results = []
    for shared, change in ((3, lambda t: t), (1, stack)):
        done = norm_pool.forward(change(x), scale, shift, eps=1e-3, relu=relu, pool=1, shared=shared)
        back = norm_pool.backward(done, scale, change(dy))
        along = norm_pool.tangent(done, scale, change(tx), tscale, tshift)
        gradient = (change(dy), *back[1:])
        second = norm_pool.tangent_backward(done, along, scale, tscale, gradient, change(tdy))
        results.append((done.y, *back, along.y, *second))
    for found, expected in zip(*results, strict=True):
        wide = found.ndim == 4
        torch.testing.assert_close(stack(found) if wide else found, expected, atol=1e-11, rtol=1e-11)


@pytest.mark.skipif(shutil.which("g++") is None or not sys.platform.startswith("linux"), reason="no g++ here")
def test_the_source_compiles_where_a_compiler_is() -> None:
    assert compiled.available()


def test_nan_is_not_hidden(way: str) -> None:
    x = torch.zeros(1, 4, 4, 2)
    x[0, 1, 1, 0] = torch.nan
    y = norm_pool.forward(x, torch.ones(2), torch.zeros(2), eps=1e-5, relu=True, pool=2).y
    assert y[..., 0].isnan().all()
    assert y[..., 1].isfinite().all()


def test_the_number_of_threads_changes_nothing() -> None:
    if not compiled.available():
        pytest.skip("no compiler on this machine")
    x = torch.randn(6, 5, 5, 3, generator=torch.Generator().manual_seed(0))
    threads, found = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            done = norm_pool.forward(x, torch.ones(3), torch.zeros(3), eps=1e-5, relu=True, pool=2)
            found.append(
                torch.cat([done.y.flatten(), norm_pool.backward(done, torch.ones(3), done.y)[0].flatten()])
            )
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(*found)


@pytest.mark.parametrize("broken", ["no compiler", "failing compiler", "told not to"])
def test_without_a_compiler_torch_does_it(
    broken: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if broken == "no compiler":
        monkeypatch.delenv("CXX", raising=False)
        monkeypatch.setenv("PATH", str(tmp_path))
    elif broken == "failing compiler":
        monkeypatch.setenv("CXX", "false")
    else:
        monkeypatch.setenv("METASYM_KERNELS", "torch")
    native.library.cache_clear()
    try:
        assert not compiled.available()
    finally:
        native.library.cache_clear()
    assert not list(tmp_path.rglob("*.so"))
