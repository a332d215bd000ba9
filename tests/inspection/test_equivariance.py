"""Errors for groups that a user names."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
import torch
from torch import nn

import metasym as ms
from metasym.inspection.actions import act, parse_group
from metasym.inspection.equivariance import principal_angles
from tests.inspection.planted import of_group, signed_cycle
from tests.refusals import refused, within

G = ms.groups


def layer(group: ms.groups.Group) -> nn.Module:
    U, (m, n) = of_group(group)
    model = nn.Linear(n, m, bias=False).double()
    return ms.reparameterize(model, lambda name, module: ms.DenseSymmetry((m, n), U=U))


@pytest.mark.parametrize(
    ("asked", "group", "order"),
    [
        ("shifts", G.cyclic(12), 12),
        ("cyclic:12", G.cyclic(12), 12),
        ("dihedral", G.dihedral(9), 18),
        ("reflection", G.from_generators([list(range(8, -1, -1))]), 2),
        ("grid:2x5", G.cyclic(2) * G.cyclic(5), 10),
        ("permutations", G.symmetric(5), 120),
        ("rotations:4", G.image_rotations(3, 4), 4),
        ("rotations-flips:4", G.image_rotations_flips(3, 4), 8),
    ],
)
def test_exact_layers_have_no_error(asked: str, group: ms.groups.Group, order: int) -> None:
    model = layer(group)
    errors = ms.inspect(model, asked)[0].errors
    assert errors is not None
    assert len(errors.errors) == order
    assert max(errors.errors) < 1e-12
    assert errors.angles is not None
    assert max(errors.angles) < 1e-6
    other = ms.inspect(layer(G.trivial(group.degree)), asked)[0].errors
    assert other is not None
    assert max(other.errors) > 0.5
    assert min(other.errors) == 0  # the identity


def test_errors_are_those_of_random_weights() -> None:
    """An independent oracle: the mean over random filters of ``|g W - W g|^2`` is the squared error."""
    torch.manual_seed(0)
    U = torch.randn(49, 20, dtype=torch.float64)
    model = ms.reparameterize(
        nn.Linear(7, 7, bias=False).double(), lambda name, m: ms.DenseSymmetry((7, 7), U=U)
    )
    errors = ms.inspect(model, "shifts")[0].errors
    assert errors is not None
    W = (U @ torch.randn(20, 200_00, dtype=torch.float64)).reshape(7, 7, -1)
    shift = G.shifts(7).matrices[1]
    moved = torch.einsum("ab,bcs->acs", shift, W) - torch.einsum("abs,bc->acs", W, shift)
    expected = moved.square().sum() / W.square().sum()
    assert errors.errors[1] ** 2 == pytest.approx(float(expected), rel=0.02)


def test_very_large_groups_by_their_generators() -> None:
    U = torch.stack([torch.eye(12).flatten(), torch.ones(144)], dim=1).double()
    model = ms.reparameterize(
        nn.Linear(12, 12, bias=False).double(), lambda name, m: ms.DenseSymmetry((12, 12), U=U)
    )
    report = ms.inspect(model, "permutations")[0]
    assert report.group is not None
    assert report.group.name == "S_12"
    assert report.errors is not None
    assert len(report.errors.errors) == 2
    assert "generators only" in report.errors.note
    assert report.errors.dimension == 2


def test_generators_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "group.json"
    matrix = signed_cycle(6).matrices[signed_cycle(6).generators[0]].tolist()
    path.write_text(json.dumps({"outputs": [matrix], "inputs": [matrix]}))
    errors = ms.inspect(layer(signed_cycle(6)), str(path))[0].errors
    assert errors is not None
    assert len(errors.errors) == 12
    assert max(errors.errors) < 1e-12
    path.write_text(json.dumps([[1, 2, 3, 4, 5, 0]]))
    plain = ms.inspect(layer(G.cyclic(6)), str(path))[0].errors
    assert plain is not None
    assert max(plain.errors) < 1e-12
    for text, part, found in (
        ("{", "", "another format"),
        ("3", "", "another structure"),
        ('{"outputs": [[0, 1]], "inputs": []}', "", (1, 0)),
        ("[[0, 1, 2]]", "outputs", 3),
    ):
        path.write_text(text)
        with refused(within(path, part), found):
            act(parse_group(str(path)), 6, 6)
        with refused("group", str(path)):
            ms.inspect(layer(G.cyclic(6)), str(path))
    with refused(str(tmp_path / "none.json"), os.strerror(errno.ENOENT)):
        act(parse_group(str(tmp_path / "none.json")), 6, 6)


@pytest.mark.parametrize(
    "text", ["turns", "rotations", "rotations:x", "rotations:0", "grid:3", "shifts:-1", ""]
)
def test_unknown_groups_are_refused(text: str) -> None:
    with refused("group", text):
        parse_group(text)


def test_groups_that_do_not_fit() -> None:
    with refused("group", "cyclic:12"):
        ms.inspect(layer(G.cyclic(7)), "cyclic:12")
    with refused("group cyclic:12", (7, 7)):
        act(parse_group("cyclic:12"), 7, 7)
    with refused("group", "rotations:4"):
        ms.inspect(layer(G.cyclic(7)), "rotations:4")
    with refused("group rotations:4", 7):
        act(parse_group("rotations:4"), 7, 7)
    with refused("group rotations:8", 8):
        act(parse_group("rotations:8"), 9, 9)


def test_networks_end_to_end() -> None:
    U, _ = of_group(G.cyclic(6))
    net = nn.Sequential(
        nn.Linear(6, 6, bias=False),
        nn.Tanh(),
        nn.Linear(6, 6, bias=False),
        nn.Tanh(),
        nn.Linear(6, 2, bias=False),
    ).double()

    def make(name: str, module: nn.Module) -> ms.Symmetry:
        if name == "4":
            return ms.DenseSymmetry((2, 6), U=torch.eye(2, dtype=torch.float64).repeat_interleave(6, 0))
        return ms.DenseSymmetry((6, 6), U=U)

    ms.reparameterize(net, make)
    report = ms.inspect(net, "shifts")
    assert report.end_to_end is not None
    assert max(report.end_to_end.errors) < 1e-12
    assert "invariance" in report.end_to_end.note
    assert report["4"].errors is not None
    assert report["4"].errors.errors == ()  # 2 outputs: the group cannot act there
    broken = ms.inspect(net, "permutations")
    assert broken.end_to_end is not None
    assert max(broken.end_to_end.errors) > 0.01
    unfit = ms.inspect(net, "shifts", inputs=(5,)).end_to_end
    assert unfit is not None
    assert unfit.errors == ()


def test_principal_angles() -> None:
    angle = torch.tensor(1e-5).double()
    space = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]).double()
    tilted = torch.stack([torch.stack([angle.cos(), torch.zeros(()), angle.sin()])]).double().T
    assert principal_angles(space, tilted)[0] == pytest.approx(float(angle.rad2deg()), rel=1e-6)
    assert principal_angles(space, torch.tensor([[0.0], [0.0], [1.0]]))[0] == pytest.approx(90)
    assert principal_angles(space, torch.zeros(3, 0)) == ()
