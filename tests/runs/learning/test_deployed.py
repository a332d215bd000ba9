"""The adapted module of a run: examples of the file's shape only, in Python as in exported files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from metasym.fast_layers.exporting import export
from metasym.runs.learning.learned_run import Deployed
from metasym.tasks.stored import Layout
from tests.refusals import refused


def deployed(*shape: int) -> Deployed:
    """A linear map of the numbers of an example, scaled, whose bias is 0."""
    count = int(np.prod(shape, dtype=int))
    network = torch.nn.Linear(count, 3, bias=False, dtype=torch.float32)
    with torch.no_grad():
        network.weight.copy_(torch.arange(3.0 * count).reshape(3, count))
    return Deployed(network, Layout((count,), (3,), 2.0, 4.0), shape, (3,), labels=False).eval()


@pytest.mark.parametrize("found", [[4, 3], [2, 12], [12], [6], [2, 2, 3], []])
def test_examples_of_another_shape_are_refused(found: list[int]) -> None:
    with refused("x", tuple(found)):
        deployed(6)(torch.zeros(found))


@pytest.mark.parametrize("shape", [(6,), (2, 3), ()])
@pytest.mark.parametrize("examples", [1, 5])
def test_examples_of_the_files_shape_are_taken(shape: tuple[int, ...], examples: int) -> None:
    module = deployed(*shape)
    x = torch.randn(examples, *shape, generator=torch.Generator().manual_seed(0))
    weight = np.arange(3.0 * int(np.prod(shape, dtype=int))).reshape(3, -1)
    expected = x.numpy().reshape(examples, -1) / 2 @ weight.T * 4
    assert np.allclose(module(x).detach().numpy(), expected, atol=1e-4)
    assert np.allclose(module(x.double()).detach().numpy(), expected, atol=1e-4)


@pytest.mark.parametrize("suffix", [".pt2", ".onnx"])
def test_the_check_can_be_exported(tmp_path: Path, suffix: str) -> None:
    if suffix == ".onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    path, x = tmp_path / f"m{suffix}", torch.ones(64, 6)
    assert export(deployed(6), x, path) < 1e-4
    if suffix == ".pt2":
        model = torch.export.load(path).module()
        assert model(x[:2]).shape == (2, 3)
        with pytest.raises(Exception, match="6"):
            model(torch.ones(4, 3))


def test_an_array_is_taken_as_the_tensor_of_its_numbers() -> None:
    network, x = deployed(6), np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    torch.testing.assert_close(torch.as_tensor(network(x)), network(torch.from_numpy(x)))
