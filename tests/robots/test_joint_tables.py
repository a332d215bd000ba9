from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import metasym as ms
from metasym.robots import JointTable, check_table, parse_tables, read_tables, to_yaml
from metasym.verdicts.verdict import Status
from tests.refusals import refused
from tests.robots.tiny_robots import biped, fingers, written


@pytest.fixture
def found(tmp_path: Path) -> ms.RobotSymmetries:
    return ms.mirror(written(tmp_path, biped()))


def right(found: ms.RobotSymmetries) -> dict[str, tuple[str, int]]:
    return parse_tables(found.as_dict(), found.names)[0].moves


def test_a_table_is_read_in_every_form(found: ms.RobotSymmetries, tmp_path: Path) -> None:
    moves = right(found)
    forms: list[Any] = [
        found.as_dict(),
        found.generators[0].as_dict(found.names),
        [{"joint": j, "image": i, "sign": s} for j, (i, s) in moves.items()],
        {j: f"{'-' if s < 0 else ''}{i}" for j, (i, s) in moves.items()},
        {j: [i, s] for j, (i, s) in moves.items()},
    ]
    for form in forms:
        path = tmp_path / "table.json"
        path.write_text(json.dumps(form))
        assert read_tables(path, found.names)[0].moves == moves
    path = tmp_path / "table.yaml"
    path.write_text(to_yaml(found))
    assert read_tables(path, found.names)[0].moves == moves


def test_morpho_symms_form_takes_entry_i_from_its_entry(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, fingers()))
    path = tmp_path / "table.yaml"
    path.write_text(to_yaml(found))
    (table,) = read_tables(path, found.names)
    text = path.read_text()
    permutation = json.loads(text.split("permutation_Q_js: ")[1].splitlines()[0])[0]
    reflection = json.loads(text.split("reflection_Q_js: ")[1].splitlines()[0])[0]
    q = np.arange(1.0, 7.0)
    np.testing.assert_array_equal(np.array(reflection) * q[permutation], found.on_velocities(q))
    assert check_table(found, table).status == Status.CERTIFIED


def test_a_right_table_is_certified_and_a_near_one_says_what_breaks_it(tmp_path: Path) -> None:
    exact = ms.mirror(written(tmp_path, biped()))
    assert check_table(exact, JointTable(right(exact))).status == Status.CERTIFIED
    heavy = ms.mirror(written(tmp_path, biped(left_mass=1.2)))
    check = check_table(heavy, JointTable(right(heavy)))
    assert check.status == Status.APPROXIMATE
    assert check.right
    assert "left_thigh" in {one.where for one in check.breaks} | {one.image for one in check.breaks}
    assert check.refused is None


@pytest.mark.parametrize("joint", ["left_roll", "left_pitch", "left_slide", "right_roll", "right_slide"])
def test_a_wrong_sign_is_found_and_its_joint_named(found: ms.RobotSymmetries, joint: str) -> None:
    moves = right(found)
    image, sign = moves[joint]
    check = check_table(found, JointTable({**moves, joint: (image, -sign)}))
    assert not check.right
    assert [(w.joint, w.sign, w.right_sign) for w in check.wrong] == [(joint, -sign, sign)]
    assert check.together.value > 1e-3


@pytest.mark.parametrize(("a", "b"), [("left_roll", "left_pitch"), ("right_pitch", "left_pitch")])
def test_exchanged_images_are_found_and_both_joints_named(found: ms.RobotSymmetries, a: str, b: str) -> None:
    moves = right(found)
    wrong = {**moves, a: (moves[b][0], moves[a][1]), b: (moves[a][0], moves[b][1])}
    check = check_table(found, JointTable(wrong))
    assert {w.joint for w in check.wrong} == {a, b}
    assert check.status == Status.NONE


def test_a_part_of_the_joints_can_be_checked(found: ms.RobotSymmetries) -> None:
    moves = right(found)
    rolls = {name: moves[name] for name in ("left_roll", "right_roll")}
    assert check_table(found, JointTable(rolls)).right
    rolls["left_roll"] = ("right_roll", 1)
    assert [w.joint for w in check_table(found, JointTable(rolls)).wrong] == ["left_roll"]


@pytest.mark.parametrize(
    ("change", "about", "value"),
    [
        ({"left_rol": "right_roll"}, "joint", "left_rol"),
        ({"left_roll": "right_rol"}, "joint", "right_rol"),
        ({"left_roll": ["right_roll", 2]}, "joint left_roll: sign", 2),
        ({"left_roll": ["right_roll", True]}, "joint left_roll: sign", True),
        ({"left_roll": "right_pitch"}, "image right_pitch", "twice"),
        ({"left_roll": 3}, "image", 3),
    ],
)
def test_bad_tables_are_refused_in_one_line(
    found: ms.RobotSymmetries, change: dict[str, Any], about: str, value: object
) -> None:
    moves: dict[str, Any] = {j: [i, s] for j, (i, s) in right(found).items()}
    with refused(f"table: {about}", value):
        parse_tables({**moves, **change}, found.names)


def test_bad_files_are_refused(found: ms.RobotSymmetries, tmp_path: Path) -> None:
    rows = [{"joint": "left_roll", "image": "right_roll", "sign": 1}] * 2
    with refused("table: joint left_roll", "twice"):
        parse_tables(rows, found.names)
    with refused("table", 0):
        check_table(found, JointTable({"left_roll": ("left_roll", 1)}))
    with refused("table: permutation_Q_js", 2):
        parse_tables({"permutation_Q_js": [[0, 1]], "reflection_Q_js": [[1, 1]]}, found.names)
    for text in ("", "a: b", "[1, 2]", "permutation_Q_js: [[0, 1"):
        path = tmp_path / "bad.yaml"
        path.write_text(text)
        with refused():
            read_tables(path, found.names)
    with refused(str(tmp_path / "none.json"), "No such file or directory"):
        read_tables(tmp_path / "none.json", found.names)
