"""Which runs a page finds, and what it does with files that are not as a run left them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from metasym.cli import main
from metasym.report.page.page import render
from metasym.runs.learning import restored_directions
from tests.report.page_runs import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("real") / "run", filter_size=2, checkpoint_every=3)


def test_runs_behind_links_are_found_each_once(tmp_path, run):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "here").symlink_to(run)
    assert render(tmp_path / "runs").runs == 1
    (tmp_path / "runs" / "again").symlink_to(run)  # a second name of the same run
    (tmp_path / "runs" / "circle").symlink_to(tmp_path / "runs")
    assert render(tmp_path / "runs").runs == 1
    shutil.copytree(run, tmp_path / "runs" / "other")
    page = render(tmp_path / "runs")
    assert page.runs == 2
    assert page.faults == []
    (tmp_path / "link").symlink_to(run)
    assert render(tmp_path / "link").runs == 1


def test_files_with_a_broken_seal_are_named_though_the_page_does_not_need_them(tmp_path, run, capsys):
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint.previous.safetensors"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    assert main(["report", str(tmp_path / "run")]) == 0
    said = capsys.readouterr().err
    assert f"metasym: left out: {path}: expected the SHA-256 stored in the file" in said
    current = tmp_path / "run" / "model.safetensors"
    current.write_bytes(bytes(data))
    assert main(["report", str(tmp_path / "run")]) == 2


def test_a_page_about_an_own_network_whose_U_was_completed(tmp_path, monkeypatch):
    """The checkpoint has the U that was found, the report is about the completed one, which has more columns."""
    draw = np.random.default_rng(0)
    x, filters = draw.standard_normal((30, 8, 4)), draw.standard_normal((30, 4))
    maps = np.stack([np.roll(filters, i, 1) for i in range(4)], 1)
    np.savez(tmp_path / "tasks.npz", x=x, y=np.einsum("tpq,teq->tep", maps, x))
    (tmp_path / "own_linear_network.py").write_text(
        "import torch\ndef network():\n    return torch.nn.Linear(4, 4, bias=False)\n"
    )
    monkeypatch.chdir(tmp_path)

    def always(choices, learner, validation, square):
        given = restored_directions.Completed(0.3, 1, 1.0, 0.5, 4, 1.0, 0.5)
        return restored_directions.completed(choices, learner, 0.3), given

    monkeypatch.setattr("metasym.runs.learning.restored_directions.missing", always)
    quick = ["--find-steps", "60", "--outer-steps", "5", "--no-baseline", "--progress", "silent"]
    model = ["--model", "own_linear_network:network"]
    assert main(["learn", "tasks.npz", "--out", "run", *quick, *model]) == 0
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    (found,) = result["filter_sizes"].values()
    assert found[0] < result["symmetry"]["layers"][0]["filter_size"] == 16
    page = render(tmp_path / "run")
    assert page.faults == []
    assert "16" in page.html
