"""A U that was built exactly, of kinds that were once unclear."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import metasym as ms
from metasym.cli import main
from metasym.symmetry.matrices import DenseSymmetry
from metasym.verdicts.layer_words import verdict_words
from metasym.verdicts.verdict import Status


def built(layer: nn.Module, U: torch.Tensor) -> ms.LayerReport:
    symmetry = DenseSymmetry(layer.weight.shape, U=U)
    ms.reparameterize(layer, lambda _name, _module: symmetry)
    return ms.inspect(layer)[0]


@pytest.mark.parametrize(("outputs", "inputs"), [(1, 1), (4, 1), (3, 2)])
def test_isotropic_kernels_read_rotations_and_flips(outputs, inputs):
    kernel = torch.zeros(9, 3, dtype=torch.float64)  # centre, edges, corners
    kernel[4, 0] = 1
    kernel[[1, 3, 5, 7], 1] = 0.5
    kernel[[0, 2, 6, 8], 2] = 0.5
    U = torch.kron(torch.eye(outputs * inputs, dtype=torch.float64), kernel)
    found = built(nn.Conv2d(inputs, outputs, 3, bias=False, dtype=torch.float64), U)
    assert found.group is not None
    assert (found.group.name, found.group.order) == ("D_4", 8)
    assert found.verdict.status is not Status.UNDECIDED


@pytest.mark.parametrize(("spare", "size"), [(0, 0.0), (5, 1e-3), (20, 1e-2), (60, 5e-2)])
def test_a_valid_convolution_with_spare_directions_reads_its_shift(spare, size, generator):
    U = torch.zeros(22, 24, 3, dtype=torch.float64)
    for i in range(22):
        U[i, i : i + 3] = torch.eye(3, dtype=torch.float64)
    more = size * torch.randn(22 * 24, spare, generator=generator, dtype=torch.float64)
    found = built(nn.Linear(24, 22, bias=False, dtype=torch.float64), torch.cat([U.reshape(-1, 3), more], 1))
    assert [shift.description for shift in found.partial] == ["shift by 1 on 21 of 22 rows"]
    assert (found.partial[0].outputs, found.partial[0].inputs, found.partial[0].rows) == (1, 1, 21)


def test_learn_tells_the_shift_of_valid_convolutions(tmp_path, capsys):
    draw = np.random.default_rng(0)
    maps = np.zeros((60, 10, 12))
    for i in range(10):
        maps[:, i, i : i + 3] = draw.standard_normal((60, 3)) if i == 0 else maps[:, 0, :3]
    x = draw.standard_normal((60, 16, 12))
    np.savez(tmp_path / "tasks.npz", x=x, y=x @ maps.transpose(0, 2, 1))
    flags = ["--no-baseline", "--progress", "silent"]
    assert main(["learn", str(tmp_path / "tasks.npz"), "--out", str(tmp_path / "run"), *flags]) == 0
    printed = capsys.readouterr().out
    (layer,) = ms.open_run(tmp_path / "run").symmetry
    assert [(s.outputs, s.inputs, s.rows, s.of) for s in layer.partial] == [(1, 1, 9, 10)]
    assert layer.verdict.status is not Status.NONE
    assert verdict_words(layer) in printed
