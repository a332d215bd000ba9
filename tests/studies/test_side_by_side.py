"""A study's cells in programs of their own: the same files as one after the other, and lines that a shell runs."""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from studies.side_by_side import add_where, elsewhere

from studies import deep_families, learning_curves, two_bodies

CELL = """import pathlib, sys
assert sys.argv[1] != 'bad', 'no such cell'
pathlib.Path(sys.argv[1]).write_text('made')
"""


def options(*flags: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_where(parser)
    return parser.parse_args(flags)


def test_cells_run_beside_each_other_and_failures_are_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "cell.py").write_text(CELL)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    cells = [(tmp_path / name,) for name in "abc"]
    assert not elsewhere(options(), "cell", cells), "here, one after the other, is what a study does itself"
    assert elsewhere(options("--jobs", "2"), "cell", cells)
    assert [path.read_text() for (path,) in cells] == ["made"] * 3
    with pytest.raises(SystemExit, match="1 of 2"):
        elsewhere(options("--jobs", "2"), "cell", [("bad",), (tmp_path / "d",)])
    assert "failed: AssertionError: no such cell" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("study", "flags", "count"),
    [
        (two_bodies, ["--seeds", "1-3"], 3),
        (learning_curves, ["--seeds", "1-2", "--sizes", "50", "100"], 4 * len(learning_curves.PROBLEMS)),
        (deep_families, ["--seeds", "2"], 2),
    ],
)
def test_a_study_prints_a_command_a_cell(monkeypatch, capsys, study, flags, count):
    monkeypatch.setattr(sys, "argv", ["study", *flags, "--commands"])
    study.main()
    lines = capsys.readouterr().out.splitlines()
    assert len(set(lines)) == count
    words = shlex.split(lines[0])
    root = Path(__file__).parents[2]
    printed = subprocess.run(
        [sys.executable, *words[1:], "--commands"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    assert printed.splitlines() == [lines[0]], "a cell of one is itself"
