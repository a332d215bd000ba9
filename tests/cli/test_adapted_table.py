"""``metasym inspect --function``, one run and runs beside each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from metasym.cli import main
from metasym.cli.adapted_table import show_functions
from metasym.verdicts.function_reports import AdaptedFunctions, ElementOfFunctions


def asked(violation: float, labels: bool = True) -> AdaptedFunctions:
    same = (1.0, 0.9) if labels else (None, None)
    elements = (
        ElementOfFunctions("rotation by 0 degrees", 0.0, 0.0, same[0], 0.95),
        ElementOfFunctions("left-right flip", violation, 2 * violation, same[1], 0.85),
    )
    return AdaptedFunctions("rotations-flips:1", 10, 0.95, labels, elements, "")


def test_one_run_is_told_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show_functions([("msr", asked(0.01))])
    said = capsys.readouterr().out
    assert "left-right flip" in said
    assert "holds nearly" in said
    assert "same class for 90.0%" in said


@pytest.mark.parametrize("labels", [True, False])
def test_runs_beside_each_other_share_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, labels: bool
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    show_functions([("msr", asked(0.01, labels)), ("maml", asked(0.7, labels))])
    said = capsys.readouterr().out
    [row] = [line for line in said.splitlines() if "left-right flip" in line and "0.01, 0.02" in line]
    assert "0.7, 1.4" in row
    assert "msr, 10 tasks: holds nearly: left-right flip" in said
    assert "maml, 10 tasks: does not hold: left-right flip" in said


@pytest.mark.parametrize("flag", [["--beside", "other"], ["--tasks", "5"]])
def test_flags_of_function_alone_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: list[str]
) -> None:
    assert main(["inspect", str(tmp_path), *flag]) == 2
    said = capsys.readouterr().err
    assert f"expected {flag[0]} together with --function" in said
