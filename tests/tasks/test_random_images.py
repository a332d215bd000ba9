"""The compiled sampler against NumPy and torch: the same images bit for bit, the same convolutions up to rounding."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from metasym.native.compiled import library
from metasym.tasks import random_images
from metasym.tasks.random_images import Pool, convolve, normal_images

MULTIPLIER = 2549297995355413924 * 2**64 + 4865540595714422341


def generators(count: int) -> list[np.random.Generator]:
    return [np.random.Generator(np.random.PCG64(seed)) for seed in range(count)]


@pytest.fixture(params=["compiled", "numpy"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "numpy":
        monkeypatch.setattr(random_images, "_kernels", lambda: None)
        monkeypatch.setattr(random_images, "library", lambda source: None)
    elif library(random_images._SOURCE) is None:
        pytest.skip("no compiler on this machine")
    return str(request.param)


def test_the_kernel_is_trusted_where_it_could_be_compiled() -> None:
    """With this version of NumPy; with another it would be left alone."""
    trusted, compiled = random_images._kernels(), library(random_images._SOURCE)
    assert getattr(trusted, "_name", None) == getattr(compiled, "_name", None)


@pytest.mark.parametrize("ordered", [False, True])
def test_images_are_numpys_bit_for_bit(way: str, ordered: bool) -> None:
    order = torch.stack([torch.randperm(30, generator=torch.Generator().manual_seed(i)) for i in range(4)])
    found = normal_images(generators(4), 30, 60, order if ordered else None)
    for task, generator in enumerate(generators(4)):
        drawn = torch.from_numpy(generator.standard_normal((30, 60, 60), dtype=np.float32))
        assert torch.equal(found[:, task], drawn[order[task]] if ordered else drawn)
    assert abs(float(found.mean())) < 0.01
    assert float(found.abs().max()) > 4  # the tail was reached


def test_every_layer_ends_where_numpys_does() -> None:
    """A state is made for which the next 32 bits are known: the last whole number inside, and the first outside."""
    if library(random_images._SOURCE) is None:
        pytest.skip("no compiler on this machine")
    inverse, step = pow(MULTIPLIER, -1, 2**128), 1

    def drawn(bits: int) -> tuple[float, float, bool]:
        """By NumPy, by the kernel, and whether NumPy took it at once: one half of a word is then left."""
        generator = np.random.Generator(np.random.PCG64(0))
        held = generator.bit_generator.state
        held["state"] = {"state": (bits - step) * inverse % 2**128, "inc": step}
        generator.bit_generator.state = held
        ours = normal_images([generator], 1, 1).item()
        theirs = float(generator.standard_normal(dtype=np.float32))
        return theirs, ours, bool(generator.bit_generator.state["has_uint32"])

    for layer in range(256):
        low, high = 0, 2**23  # the first number that NumPy does not take at once lies between
        while low < high:
            middle = (low + high) // 2
            low, high = (middle + 1, high) if drawn(middle << 9 | layer)[2] else (low, middle)
        for whole in {max(low - 1, 0), min(low, 2**23 - 1), 2**22}:
            for sign in (0, 1):
                theirs, ours, _ = drawn(whole << 9 | sign << 8 | layer)
                assert theirs == ours, (layer, whole)


@pytest.mark.parametrize(("size", "out"), [(32, 24), (11, 5), (9, 3), (40, 12), (6, 4), (3, 1)])
def test_outputs_are_the_convolution(way: str, size: int, out: int) -> None:
    g = torch.Generator().manual_seed(0)
    images, banks = torch.randn(4, 3, size, size, generator=g), torch.randn(3, out, 1, 3, 3, generator=g)
    found = convolve(banks, images[1:])
    for task in range(3):
        expected = F.conv2d(images[1:, task].unsqueeze(1).double(), banks[task].double())
        torch.testing.assert_close(found[task].double(), expected, rtol=1e-5, atol=1e-5)


def test_other_filters_are_left_to_torch() -> None:
    images, banks = torch.randn(2, 1, 8, 8), torch.randn(1, 2, 1, 5, 5)
    torch.testing.assert_close(convolve(banks, images)[0], F.conv2d(images[:, 0].unsqueeze(1), banks[0]))


def test_memory_comes_back_only_when_nobody_refers_to_it() -> None:
    pool = Pool()
    first = pool.take(3, 5).fill_(1)
    view = first[1:].transpose(0, 1)
    address = first.data_ptr()
    del first
    gc.collect()
    other = pool.take(5, 3).fill_(2)
    assert other.data_ptr() != address
    assert bool((view == 1).all())
    del view
    gc.collect()
    assert pool.take(15).data_ptr() == address
