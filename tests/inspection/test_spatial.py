"""Rotations and flips of kernels, found in equivariant banks whose channels are shuffled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import metasym as ms
from metasym.groups.harmonics import kernel_transform
from metasym.verdicts.verdict import Status
from tests.inspection.planted import noisy, seen, turned

BANKS = {
    "Z_4": (4, False, "pixels", 4),
    "D_4": (4, True, "pixels", 8),
    "Z_8": (8, False, "harmonics", 8),
    "D_8": (8, True, "harmonics", 16),
    "Z_6": (6, False, "harmonics", 6),
    "Z_2": (2, False, "pixels", 2),
}


def bank(name: str, fields: int = 3, kernel: int = 3) -> tuple[Tensor, tuple[int, int, int, int]]:
    rotations, flips, method, _ = BANKS[name]
    basis = ms.groups.conv_basis(kernel, rotations, flips=flips, fields_out=fields, method=method)
    return basis.orthonormal(), basis.shape


def shuffled(U: Tensor, channels: int, seed: int = 0) -> tuple[Tensor, np.ndarray]:
    order = np.random.default_rng(seed).permutation(channels)
    return U.reshape(channels, -1)[order].reshape(U.shape), order


@pytest.mark.parametrize("name", BANKS)
def test_banks_are_recognised(name: str) -> None:
    U, shape = bank(name)
    mixed, _ = shuffled(turned(U, 100), shape[0])
    report = seen(noisy(mixed, 0.05), shape)
    assert report.group is not None
    assert (report.group.name, report.group.order) == (name, BANKS[name][3])
    assert report.effective_filter_size == U.shape[1]
    assert report.verdict.status is Status.READ
    assert report.errors is not None
    assert len(report.errors.errors) == report.group.order
    assert max(report.errors.errors) < 0.15
    assert report.errors.angles is not None
    assert max(report.errors.angles) < 15


@pytest.mark.parametrize("kernel", [3, 5])
def test_channels_go_where_the_group_takes_them(kernel: int) -> None:
    """The permutation that is found is the planted one, in the shuffled order."""
    basis = ms.groups.conv_basis(kernel, 8, fields_out=2)
    mixed, order = shuffled(basis.orthonormal(), 16)
    report = seen(mixed, basis.shape)
    assert report.group is not None
    (generator,) = report.group.generators
    assert generator.transform == "rotation by 45 degrees"
    planted = basis.permutations[1][1].numpy()
    place = np.argsort(order)
    assert list(generator.outputs) == [int(place[planted[order[i]]]) for i in range(16)]
    assert report.errors is not None
    assert report.errors.dimension == basis.dimension
    assert max(report.errors.angles or (99,)) < 1e-6
    assert max(report.errors.errors) < 1e-9


def test_the_second_layer_knows_the_first() -> None:
    """Input channels of regular fields are permuted as the layer before permutes its outputs."""
    first = ms.groups.conv_basis(3, 4, fields_out=2, method="pixels")
    second = ms.groups.conv_basis(3, 4, fields_in=2, fields_out=2, method="pixels")
    net = nn.Sequential(nn.Conv2d(1, 8, 3, bias=False), nn.ReLU(), nn.Conv2d(8, 8, 3, bias=False)).double()
    bases = {"0": first, "2": second}
    ms.reparameterize(net, lambda name, m: ms.DenseSymmetry(m.weight.shape, U=bases[name].orthonormal()))
    report = ms.inspect(net, "rotations:4")
    assert [layer.group.name for layer in report if layer.group] == ["Z_4", "Z_4"]
    assert report["2"].group is not None
    assert report["2"].group.generators[0].inputs == report["0"].group.generators[0].outputs  # type: ignore[union-attr]
    assert report.end_to_end is not None
    assert len(report.end_to_end.errors) == 4
    assert max(report.end_to_end.errors) < 1e-9
    with torch.no_grad():
        net[0].weight = net[0].weight + torch.randn(net[0].weight.shape, dtype=torch.float64)
    alone = ms.inspect(net, "rotations:4")
    assert max(alone.end_to_end.errors) < 1e-9  # type: ignore[union-attr]  # still of the space: U has not changed


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("columns", [3, 20, 200])
def test_random_banks_have_none(seed: int, columns: int) -> None:
    U = torch.randn(24 * 9, columns, generator=torch.Generator().manual_seed(seed))
    report = seen(U, (24, 1, 3, 3))
    assert report.group is None
    assert report.verdict.status in (Status.NONE, Status.UNDECIDED)


def test_smooth_filters_do_not_pass_for_small_turns() -> None:
    """Filters of frequencies 0 and 1 hardly change under 22.5 degrees; that is no symmetry."""
    P = kernel_transform(3, 0.0)
    smooth = (P + kernel_transform(3, 60.0) + kernel_transform(3, -60.0)) / 3  # damps frequencies 1 and 2
    U = torch.randn(12, 1, 9, 30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    U = torch.einsum("xy,oiyk->oixk", smooth, U)
    report = seen(U.reshape(-1, 30), (12, 1, 3, 3))
    assert report.group is None


@pytest.mark.parametrize("name", ["Z_4", "Z_8", "D_8"])
def test_noise_weakens_the_verdict(name: str) -> None:
    U, shape = bank(name)
    orders = []
    for amount in (0.05, 0.2, 0.5, 1.0, 2.0):
        report = seen(noisy(turned(U, 216), amount), shape)
        orders.append(report.group.order if report.group else 1)
        assert BANKS[name][3] % orders[-1] == 0
    assert orders[0] == BANKS[name][3]
    assert orders[-1] == 1


def test_one_and_three_dimensions() -> None:
    U = torch.zeros(4, 1, 5, 10, dtype=torch.float64)  # filter pairs (f, reversed f)
    for pair in range(2):
        for x in range(5):
            U[2 * pair, 0, x, 5 * pair + x] = 1
            U[2 * pair + 1, 0, 4 - x, 5 * pair + x] = 1
    report = seen(U.reshape(20, 10), (4, 1, 5))
    assert report.group is not None
    assert report.group.name == "Z_2"
    assert report.group.generators[0].outputs == (1, 0, 3, 2)
    volume = torch.eye(2 * 27, dtype=torch.float64)
    assert seen(volume, (2, 1, 3, 3, 3)).group is None


def test_harmonics_turn_exactly() -> None:
    for size in (3, 5, 7):
        quarter = kernel_transform(size, 90.0)
        pixels = ms.groups.image_rotations(size, 4).matrices[1]
        assert torch.allclose(quarter, pixels @ kernel_transform(size, 0.0))
        eighth = kernel_transform(size, 45.0)
        assert torch.allclose(eighth @ eighth, quarter)
        flip = kernel_transform(size, 0.0, flip=True)
        assert torch.allclose(flip @ eighth @ flip, kernel_transform(size, -45.0))


@pytest.mark.parametrize("name", ["Z_8", "D_8", "Z_4"])
def test_few_directions_never_give_too_large_a_group(name: str) -> None:
    """A bank that varies along one direction is one bank, and many a filter has a mirror image by chance."""
    U, shape = bank(name, fields=1)
    rng = np.random.default_rng(0)
    parts = {"Z_4": {"Z_2"}, "Z_8": {"Z_2", "Z_4"}, "D_8": {"Z_2", "Z_4", "Z_8", "D_4", "Z_2 x Z_2"}}
    for trial in range(25):
        varied = U @ torch.from_numpy(rng.normal(size=(U.shape[1], int(rng.choice([1, 2, 3])))))
        group = seen(noisy(varied, float(rng.choice([0.0, 0.1, 0.3])), trial), shape).group
        assert group is None or group.name in parts[name] | {name}
