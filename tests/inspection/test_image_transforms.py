"""The usual transforms of images, and how far they hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

import metasym as ms
from metasym.inspection.image_transforms import _shifted, _turned_and_scaled, image_transforms
from metasym.verdicts.transform_ranges import transform_ranges


def images(count: int = 60, side: int = 24) -> Tensor:
    """Smooth spots near the middle, dark at the edges."""
    draw = np.random.default_rng(0)
    grid = (np.arange(side) - (side - 1) / 2) / side
    r, c = grid[:, None], grid[None, :]
    found = np.zeros((count, 1, side, side))
    for k in range(count):
        for _ in range(3):
            a, b = draw.normal(0, 0.06, 2)
            found[k, 0] += draw.normal() * np.exp(-((r - a) ** 2 + (c - b) ** 2) / 0.01)
    return torch.tensor(found)


def test_turns_by_quarters_and_scales_of_one_are_exact() -> None:
    x = torch.randn(3, 2, 7, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(_turned_and_scaled(x, degrees=90), torch.rot90(x, 1, (-2, -1)))
    torch.testing.assert_close(_turned_and_scaled(x, scale=1.0), x)
    oblong = torch.randn(2, 1, 6, 10, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(_turned_and_scaled(oblong, degrees=180), oblong.flip(-1, -2))


def test_shifts_bring_in_zeros() -> None:
    x = torch.arange(1.0, 10).reshape(1, 3, 3)
    assert _shifted(x, -1, 1).tolist() == [[[0, 1, 2], [0, 4, 5], [0, 7, 8]]]
    assert _shifted(x, -2, -2).tolist() == [[[7, 8, 9], [0, 0, 0], [0, 0, 0]]]


def test_what_comes_from_outside_is_like_the_edges() -> None:
    x = images() - 1
    moves, _ = image_transforms(x, torch.zeros(60, 3))
    for move in moves:
        assert float((move.inputs(x)[..., 0, 0] + 1).abs().max()) < 0.05


def moment(order: int) -> torch.nn.Module:
    """The sum of pixels times ``r^2 cos(order phi)``: it changes by ``cos(order angle)`` when an image is turned."""

    class Moment(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            side = x.shape[-1]
            grid = torch.arange(side, dtype=x.dtype) - (side - 1) / 2
            angle, radius = (
                torch.atan2(-grid[:, None], grid[None, :]),
                grid[:, None] ** 2 + grid[None, :] ** 2,
            )
            return (x * radius * torch.cos(order * angle)).sum((-2, -1))

    return Moment()


def test_a_function_of_the_radius_keeps_all_turns_and_no_shift() -> None:
    found = ms.check_equivariance(moment(0), images(200))
    ranges = {one.family: one for one in found.ranges}
    assert ranges["turns"].all_hold
    assert ranges["left-right flip"].some_hold
    assert ranges["turn by 90 degrees"].some_hold
    assert not ranges["scales"].some_hold
    assert not ranges["shifts"].some_hold


@pytest.mark.parametrize("order", [1, 2])
def test_the_range_of_turns_is_where_the_defect_passes_the_tolerance(order: int) -> None:
    tolerance = 0.75
    found = ms.check_equivariance(moment(order), images(400), tolerance=tolerance)
    turns = {one.amount: one.bound for one in found.elements if one.family == "turns"}
    # Spots are turned at random: the defect of cos(k phi) is |exp(i k angle) - 1| over all of them.
    for angle, bound in turns.items():
        expected = 2 * np.sin(order * np.radians(angle) / 2)
        assert expected * 0.8 <= bound <= expected * 1.35 + 0.03
    (reach,) = [one.most for one in transform_ranges(found.elements, tolerance) if one.family == "turns"]
    assert {1: 35, 2: 15}[order] <= reach <= {1: 45, 2: 20}[order]
    quarter = {one.name: one.defect for one in found.elements}
    assert quarter["turn by 180 degrees"] == pytest.approx(2.0 if order == 1 else 0.0, abs=0.05)


def test_ranges_stop_at_the_first_that_fails() -> None:
    from metasym.runs.equivariance_check import ElementDefect

    bounds = {0.8: 0.05, 0.9: 0.3, 1.1: 0.05, 1.2: 0.05, 1.3: 0.3}
    elements = [ElementDefect("", b, b, b, b, "scales", a) for a, b in bounds.items()]
    (found,) = transform_ranges(elements, 0.1)
    assert (found.least, found.most, found.all_hold) == (1.0, 1.2, False)


def test_only_images_have_transforms() -> None:
    with pytest.raises(ms.MetasymError) as caught:
        ms.check_equivariance(lambda x: x, np.random.default_rng(0).normal(size=(50, 4)), "images")
    assert caught.value.about == "group images"
