"""``metasym discover`` of a function: exported networks and importable functions, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from metasym.cli import main
from tests.refusals import refused_command


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "simulated.py").write_text(
        "import numpy as np\n"
        "def ring(x):\n    return x**3 + np.roll(x, 1, 1) * np.roll(x, -1, 1)\n"
        "def broken(x):\n    raise ZeroDivisionError('no')\n"
        "number = 3\n"
    )
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).normal(size=(200, 5)))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def discover(name: str, *more: str) -> int:
    return main(["discover", name, "--inputs", "x.npz", "--out", "out", "--progress", "silent", *more])


def test_an_importable_function(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert discover("simulated:ring", "--no-continuous") == 0
    result = json.loads((folder / "out" / "result.json").read_text())
    (claim,) = result["symmetries"]
    assert claim["order"] == 10
    assert claim["defect"] < 1e-9
    assert result["plain"] is None
    assert main(["report", "out"]) == 0
    assert "fresh points" in (folder / "out" / "report.html").read_text()
    capsys.readouterr()
    assert discover("simulated:ring", "--no-continuous") == 0  # finished: read again
    assert discover("simulated:ring", "--no-finite") == 2


def test_an_exported_network(folder: Path) -> None:
    class Sum(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(x + 0.3).sum(1, keepdim=True)

    program = torch.export.export(
        Sum(), (torch.randn(4, 5),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)
    )
    torch.export.save(program, folder / "sum.pt2")
    assert discover("sum.pt2", "--no-continuous") == 0
    assert (
        json.loads((folder / "out" / "result.json").read_text())["symmetries"][0]["order"] == 240
    )  # tanh is odd about -0.3: the signs too


@pytest.mark.parametrize(
    "name", ["simulated:broken", "simulated:nothing", "simulated:number", "absent:f", "absent.pt2", "x.npz:f"]
)
def test_what_is_no_function_is_one_line(folder: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "damaged.onnx").write_bytes(b"no")
    assert discover(name) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("metasym: error: ")


def test_points_are_needed(folder: Path) -> None:
    refused_command(["discover", "simulated:ring", "--out", "out"], "--inputs", None)
