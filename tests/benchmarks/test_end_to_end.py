"""``python -m benchmarks end_to_end``: whole steps with and without each fast path, as typed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks import __main__ as cli
from benchmarks import end_to_end
from metasym.engines.dense import closed_form

ROW = "msr-fc-k3"


@pytest.fixture(autouse=True)
def few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two steps a round, and this process keeps its threads and its allocator."""
    monkeypatch.setitem(end_to_end.CELLS, ROW, replace(end_to_end.CELLS[ROW], steps=2))
    monkeypatch.setattr(end_to_end, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)


def test_a_quick_look_at_a_row_is_printed_and_written_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["end_to_end", "--quick", "--row", ROW, "--out", str(tmp_path / "none")]) == 0
    said = capsys.readouterr().err
    assert said.startswith(f"{ROW}: ")
    assert "ms a step with sampling" in said
    assert "without filter_steps.cpp, " in said
    assert "without episodes made ahead" in said
    assert not (tmp_path / "none").exists()


def test_results_are_written_beside_those_of_other_rows(tmp_path: Path) -> None:
    (tmp_path / "end_to_end.json").write_text(json.dumps({"rows": {"msr-conv": {"row": "msr-conv"}}}))
    assert cli.main(["end_to_end", "--row", ROW, "--out", str(tmp_path)]) == 0
    stored = json.loads((tmp_path / "end_to_end.json").read_text())
    assert stored["rows"]["msr-conv"] == {"row": "msr-conv"}
    found = stored["rows"][ROW]
    assert found["experiment"] == end_to_end.CELLS[ROW].name
    assert found["machine"]["torch"] == torch.__version__
    assert found["milliseconds"] > 0
    assert found["sampling_milliseconds"] > 0
    assert set(found["times_as_long_without"]) == set(end_to_end.CELLS[ROW].paths)
    assert min(found["times_as_long_without"].values()) > 0


def test_an_unknown_row_is_refused_and_images_need_a_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["end_to_end", "--quick", "--row", "nothing"]) == 2
    assert "expected rows of msr-fc" in capsys.readouterr().err
    assert cli.main(["end_to_end", "--quick", "--row", "omniglot-msr", "--out", str(tmp_path)]) == 0
    assert capsys.readouterr().err == "omniglot-msr: needs images, --data DIR; left out\n"


def test_every_fast_path_that_is_switched_off_exists_and_comes_back() -> None:
    """A path that was renamed would otherwise be measured with itself."""
    before = closed_form.can_step
    for way, without in end_to_end.WITHOUT.items():
        with without():
            assert (closed_form.can_step is before) == (way != "filter_steps.cpp")
    assert closed_form.can_step is before
    for cell in end_to_end.CELLS.values():
        assert set(cell.paths) <= set(end_to_end.WITHOUT)
