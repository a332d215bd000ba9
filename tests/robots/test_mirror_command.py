from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from metasym.cli import main
from tests.robots.tiny_robots import arm, biped, fingers, robot, written


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(written(tmp_path, biped()))


def said(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_the_terminal_has_the_table(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mirror", path]) == 0
    out = said(capsys)
    assert "mirror plane y = 0" in out
    row = next(line for line in out.splitlines() if "left_roll" in line and "│" in line)
    assert "−right_roll" in row


def test_json_has_generators_with_tables_and_bounds(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mirror", path, "--json"]) == 0
    found = json.loads(said(capsys))
    (one,) = found["generators"]
    assert {"joint": "left_roll", "image": "right_roll", "sign": -1} in one["table"]
    assert one["defect"] <= one["defect_upper"] < 1e-9
    assert found["status"] == "certified"
    assert found["group"] == "Z_2"


def test_yaml_and_json_can_be_checked_again(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for form, name in (("--yaml", "t.yaml"), ("--json", "t.json")):
        main(["mirror", path, form])
        (tmp_path / name).write_text(said(capsys))
        assert main(["mirror", path, "--check", str(tmp_path / name)]) == 0
        assert said(capsys).startswith("Table: right")


def test_a_wrong_table_ends_with_status_1_and_names_the_joint(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["mirror", path, "--json"])
    table = json.loads(said(capsys))["generators"][0]["table"]
    table[0]["sign"] *= -1
    (tmp_path / "t.json").write_text(json.dumps(table))
    with pytest.raises(SystemExit) as end:
        main(["mirror", path, "--check", str(tmp_path / "t.json")])
    assert end.value.code == 1
    assert table[0]["joint"] in said(capsys)


def test_python_prints_a_function_that_runs(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    layout = "ang_vel,gravity,command,joint_pos,joint_vel,actions"
    assert main(["mirror", path, "--python", "--observation", layout]) == 0
    exec(said(capsys), {"__name__": "__main__"})
    assert "2 times" in said(capsys)


@pytest.mark.parametrize("text", [biped(), arm(), fingers()])
def test_the_page_draws_every_joint_and_fetches_nothing(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["mirror", str(written(tmp_path, text)), "--page", str(out)]) == 0
    page = out.read_text(encoding="utf-8")
    drawings = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert drawings
    for one in drawings:
        assert one.count("<circle") == text.count("<joint") - text.count('type="fixed"')
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="', page)


@pytest.mark.parametrize(
    "arguments",
    [
        ["none.urdf"],
        ["BAD"],
        ["GOOD", "--python"],
        ["GOOD", "--observation", "ang_vel"],
        ["GOOD", "--python", "--observation", "speed"],
        ["GOOD", "--joints", "left_roll"],
        ["GOOD", "--check", "none.json"],
        ["GOOD", "--tolerance", "2"],
        ["GOOD", "--json", "--yaml"],
    ],
)
def test_bad_input_is_one_line(
    path: str, tmp_path: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    bad = str(written(tmp_path, robot(), "bad.urdf"))
    assert main(["mirror", *({"GOOD": path, "BAD": bad}.get(a, a) for a in arguments)]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_other_base_can_be_asked_for(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["mirror", path, "--base", "standing", "--json"])
    assert json.loads(said(capsys))["floating"] is False
