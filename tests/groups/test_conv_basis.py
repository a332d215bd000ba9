"""Convolution kernel bases: exact equivariance at right angles, shapes, sampling, and the pixel variant."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import metasym.groups as mg
from metasym.groups import KernelBasis
from tests.refusals import refused


def right_angles(rotations: int, flips: bool) -> list[tuple[int, int, bool]]:
    """(element, quarter turns, flipped) of the elements that map pixels to pixels."""
    return [
        (a + rotations * flip, 4 * a // rotations, bool(flip))
        for flip in range(1 + flips)
        for a in range(rotations)
        if 4 * a % rotations == 0
    ]


def check_right_angles(basis: KernelBasis, columns: torch.Tensor, rotations: int, flips: bool) -> None:
    kernels = columns.T.reshape(-1, *basis.shape)
    moved_in, moved_out = basis.permutations
    for g, quarters, flip in right_angles(rotations, flips):
        turned = torch.rot90(kernels.flip(-1) if flip else kernels, quarters, (-2, -1))
        # Channels move with the image: W[g o, g i, g x] = W[o, i, x].
        there = kernels[:, moved_out[g]][:, :, moved_in[g]]
        torch.testing.assert_close(there, turned, atol=1e-10, rtol=0)


CASES = [
    (size, rotations, flips, fields)
    for size in (3, 5)
    for rotations, flips in ((4, False), (8, False), (4, True), (8, True), (12, False), (2, True), (1, True))
    for fields in (None, 1, 2)
    if not (fields == 2 and (size == 5 or rotations == 12))
]


@pytest.mark.parametrize(("size", "rotations", "flips", "fields"), CASES)
def test_exactly_equivariant_at_right_angles(
    size: int, rotations: int, flips: bool, fields: int | None
) -> None:
    basis = mg.conv_basis(size, rotations, flips, fields_in=fields, fields_out=2 if fields is None else 1)
    orthonormal = basis.orthonormal()
    assert orthonormal.shape == (math.prod(basis.shape), basis.dimension)
    torch.testing.assert_close(
        orthonormal.T @ orthonormal, torch.eye(basis.dimension, dtype=torch.float64), atol=1e-10, rtol=0
    )
    check_right_angles(basis, orthonormal, rotations, flips)
    check_right_angles(basis, basis.basis, rotations, flips)
    torch.testing.assert_close(orthonormal @ (orthonormal.T @ basis.basis), basis.basis, atol=1e-10, rtol=0)


@pytest.mark.parametrize(("rotations", "flips"), [(4, False), (4, True), (2, False), (1, True)])
@pytest.mark.parametrize("fields", [None, 2])
def test_pixels_are_all_kernels_of_the_right_angles(rotations: int, flips: bool, fields: int | None) -> None:
    basis = mg.conv_basis(3, rotations, flips, fields_in=fields, fields_out=2, method="pixels")
    order = rotations * (1 + flips)
    channels = 1 if fields is None else fields * order
    assert basis.dimension == 2 * channels * 9  # one free 3 x 3 filter for each output field and channel
    columns = basis.orthonormal()
    check_right_angles(basis, columns, rotations, flips)
    harmonics = mg.conv_basis(3, rotations, flips, fields_in=fields, fields_out=2).orthonormal()
    torch.testing.assert_close(columns @ (columns.T @ harmonics), harmonics, atol=1e-10, rtol=0)
    variance = basis.basis.square() @ basis.he_std.square()
    torch.testing.assert_close(variance, torch.full_like(variance, 1 / (channels * 9)))


def test_a_layer_commutes_with_turning_its_input() -> None:
    lift = mg.conv_basis(3, 8, True, fields_out=2)
    deep = mg.conv_basis(3, 8, True, fields_in=2, fields_out=1)
    generator = torch.Generator().manual_seed(0)
    first, second = lift.sample(generator=generator), deep.sample(generator=generator)
    image = torch.randn(1, 1, 11, 11, dtype=torch.float64, generator=generator)

    def layer(x: torch.Tensor) -> torch.Tensor:
        return F.conv2d(F.conv2d(x, first).relu(), second)

    moved = deep.permutations[1]
    for g, quarters, flip in right_angles(8, True):
        turned = torch.rot90(image.flip(-1) if flip else image, quarters, (-2, -1))
        expected = torch.empty_like(layer(image))
        out = layer(image)
        expected[:, moved[g]] = torch.rot90(out.flip(-1) if flip else out, quarters, (-2, -1))
        torch.testing.assert_close(layer(turned), expected, atol=1e-10, rtol=0)


def test_45_degrees_on_a_smooth_image() -> None:
    # The kernel is a sampled function, so that turning a smooth function by 45 degrees moves the channels.
    basis = mg.conv_basis(5, 8, fields_out=1)
    kernel = basis.sample(generator=torch.Generator().manual_seed(0))
    along = torch.arange(5, dtype=torch.float64) - 2
    x, y = along.repeat(5), -along.repeat_interleave(5)

    def blob(turn: float) -> torch.Tensor:
        u, v = math.cos(turn) * x + math.sin(turn) * y, -math.sin(turn) * x + math.cos(turn) * y
        return torch.exp(-0.5 * ((u - 0.6) ** 2 + v**2))

    responses = torch.stack([kernel.flatten(2).squeeze(1) @ blob(k * math.pi / 4) for k in range(8)])
    for k in range(8):
        torch.testing.assert_close(
            responses[k].roll(-k), responses[0], atol=0.1 * float(responses.abs().max()), rtol=0
        )


def test_dimensions_and_variances_of_the_rot_problems() -> None:
    found = {}
    for name, rotations, flips in (("C_4", 4, False), ("C_8", 8, False), ("D_8", 8, True)):
        basis = mg.conv_basis(3, rotations, flips, fields_out=3)
        assert basis.shape == (3 * rotations * (1 + flips), 1, 3, 3)
        assert basis.dimension == 18
        kernels = basis.sample(2000, torch.Generator().manual_seed(0))
        assert kernels.shape == (2000, *basis.shape)
        # Of an image of N(0, 1) pixels, the outputs' variance is the sum of the squared weights.
        exact = float((basis.basis.square() @ basis.he_std.square()).sum() / basis.channels_out)
        assert float(kernels.square().sum((2, 3, 4)).mean()) == pytest.approx(exact, rel=0.03)
        found[name] = exact
    assert found == pytest.approx({"C_4": 1.0, "C_8": 0.625, "D_8": 0.5625})


def test_expand_is_the_basis() -> None:
    basis = mg.conv_basis(3, 4, True, fields_in=2, fields_out=3)
    coefficients = torch.randn(
        5, basis.dimension, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
    )
    dense = (coefficients @ basis.basis.T).reshape(5, *basis.shape)
    torch.testing.assert_close(basis.expand(coefficients), dense, atol=1e-12, rtol=0)
    assert basis.expand(coefficients[0].float()).dtype == torch.float32


def test_maml_d8_layer_builds_quickly() -> None:
    start = time.perf_counter()
    basis = mg.conv_basis(3, 8, True, fields_in=4, fields_out=4)
    matrix = basis.orthonormal(torch.float32)
    assert basis.shape == (64, 64, 3, 3)
    assert matrix.shape == (36864, 4 * 4 * 16 * 6)
    assert matrix.dtype == torch.float32
    assert time.perf_counter() - start < 10  # 0.3 s alone on one core


@pytest.mark.parametrize("size", [1, 4, 6, 7])
def test_other_kernel_sizes_have_full_rank(size: int) -> None:
    block = mg.conv_basis(size, 8, True, fields_in=1).block.flatten(1)
    singular = torch.linalg.svdvals(block)
    assert singular.min() > 0.05 * singular.max()


BAD: list[tuple[str, object, Callable[[], object]]] = [
    ("kernel_size", 0, lambda: mg.conv_basis(0, 4)),
    ("kernel_size", 2, lambda: mg.conv_basis(2, 4)),
    ("rotations", -8, lambda: mg.conv_basis(3, -8)),
    ("fields_out", 0, lambda: mg.conv_basis(3, 4, fields_out=0)),
    ("fields_in", 0, lambda: mg.conv_basis(3, 4, fields_in=0)),
    ("in_channels", 0, lambda: mg.conv_basis(3, 4, in_channels=0)),
    (
        "fields_in, in_channels",
        (2, 3),
        lambda: mg.conv_basis(3, 4, fields_in=2, in_channels=3),
    ),
    ("method", "fourier", lambda: mg.conv_basis(3, 4, method="fourier")),
    ("rotations", 8, lambda: mg.conv_basis(3, 8, method="pixels")),
    (
        "coefficients",
        (5,),
        lambda: mg.conv_basis(3, 4).expand(torch.ones(5)),
    ),
    ("count", 0, lambda: mg.conv_basis(3, 4).sample(0)),
]


@pytest.mark.parametrize(("about", "found", "make"), BAD)
def test_bad_input_is_one_line(about: str, found: object, make: Callable[[], object]) -> None:
    with refused(about, found):
        make()
