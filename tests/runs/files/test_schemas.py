"""What other programs read: the stored schemas are those of the code, and real outputs of the commands fit them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from metasym.cli import main
from metasym.runs.files.schemas import PROMISED, VERSION, schema
from metasym.storage.described import described
from tests.refusals import refused

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", PROMISED)
def test_the_stored_schema_is_the_codes(name: str) -> None:
    stored = json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text())
    assert stored == schema(name)
    assert stored["version"] == VERSION


def test_learn_and_inspect(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = np.random.default_rng(0)
    x, filters = draw.normal(size=(60, 12, 4)), draw.normal(size=(60, 4))
    maps = np.stack([np.stack([np.roll(f, i) for i in range(4)]) for f in filters])
    y = np.einsum("tij,tej->tei", maps, x) + 0.01 * draw.normal(size=x.shape)
    np.savez(tmp_path / "tasks.npz", x=x, y=y)
    run = tmp_path / "run"
    assert (
        main(
            ["learn", str(tmp_path / "tasks.npz"), "--out", str(run), "--no-baseline", "--progress", "silent"]
        )
        == 0
    )
    found = json.loads((run / "result.json").read_text())
    described(found, PROMISED["result"], "result.json")
    capsys.readouterr()
    assert main(["inspect", str(run), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    described(report, PROMISED["inspect"], "inspect")
    (layer,) = report["layers"]
    assert layer["group"]["name"] == "Z_4"
    assert layer["ladder"]
    del layer["group"]["defect_upper"]
    with refused("inspect: layers[0].group.defect_upper", None):
        described(report, PROMISED["inspect"], "inspect")


def test_run(tmp_path: Path) -> None:
    quick = ["--outer-steps", "2", "--train-tasks", "6", "--test-tasks", "4", "--progress", "silent"]
    assert main(["run", "translation/rank1/small/msr-fc", "--out", str(tmp_path), *quick]) == 0
    found = json.loads((tmp_path / "result.json").read_text())
    described(found, PROMISED["result"], "result.json")
    assert found["config"]["recipe_name"] == "paper"
    assert len(found["per_task"]) == 4


def test_discover(tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(80, 2))
    np.savez(tmp_path / "data.npz", x=x, y=x[:, 0] * x[:, 1])
    flags = ["--no-continuous", "--progress", "silent"]
    assert main(["discover", str(tmp_path / "data.npz"), "--out", str(tmp_path / "run"), *flags]) == 0
    found = json.loads((tmp_path / "run" / "result.json").read_text())
    described(found, PROMISED["discover-result"], "result.json")
    (one,) = found["symmetries"]
    assert one["kind"] == "finite"
    assert one["order"] > 1


def test_stored_results_fit() -> None:
    files = sorted((ROOT / "results" / "table1").rglob("*.json"))[:20]
    assert files
    for path in files:
        described(json.loads(path.read_text()), PROMISED["result"], str(path))
