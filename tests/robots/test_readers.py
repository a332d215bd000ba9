from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import metasym as ms
from metasym.robots.dynamics import dynamics
from metasym.robots.reading_robots import read_robot
from tests.refusals import refused, within
from tests.robots.tiny_robots import biped, joint, link, robot, written

MUJOCO = """<mujoco><compiler angle="radian"/><worldbody><body name="trunk" pos="0 0 1"><freejoint/>
<inertial pos="0.02 0 0.1" mass="5" diaginertia="0.3 0.2 0.1"/>{legs}</body></worldbody></mujoco>"""
LEG = """<body name="{s}_thigh" pos="0.02 {y} 0" euler="{e} 0 0">
<inertial pos="0.01 {c} -0.1" mass="1" diaginertia="0.02 0.03 0.01"/>
<joint name="{s}_roll" axis="1 0 0" ref="{r}" armature="0.01"/><joint name="{s}_pitch" axis="0 1 0" pos="0 0 0.02"/>
<body name="{s}_foot" pos="0 0 -0.3"><inertial pos="0.03 0 0" mass="0.3" diaginertia="0.002 0.001 0.003"/>
<joint name="{s}_slide" type="slide" axis="0 0 1" range="-0.1 0.1" limited="true"/></body></body>"""


def mujoco_biped() -> str:
    sides = (("left", 1), ("right", -1))
    legs = [LEG.format(s=s, y=0.1 * k, e=0.2 * k, c=0.02 * k, r=0.1 * k) for s, k in sides]
    return MUJOCO.format(legs="".join(legs))


def test_links_behind_fixed_joints_are_one_body(tmp_path: Path) -> None:
    found = read_robot(written(tmp_path, biped(at=(0, 0, 0.5))))
    assert found.base_inertia[3, 3] == pytest.approx(5.0)
    np.testing.assert_allclose(found.base_inertia[:3, 3] / 5, [0.03, 0, 0.6], atol=1e-12)
    assert found.names == (
        "left_roll",
        "left_pitch",
        "left_slide",
        "right_roll",
        "right_pitch",
        "right_slide",
    )
    assert [j.parent for j in found.joints] == [-1, 0, 1, -1, 3, 4]
    assert (found.joints[0].lower, found.joints[0].upper) == (-0.5, 1.0)


def test_the_file_decides_whether_the_base_moves(tmp_path: Path) -> None:
    assert read_robot(written(tmp_path, biped())).floating
    chain = robot(link("a"), link("b"), joint("j", "a", "b"))
    assert not read_robot(written(tmp_path, chain)).floating
    assert read_robot(written(tmp_path, chain), floating=True).floating
    world = robot(
        link("world", 0),
        link("a"),
        link("b"),
        joint("f", "world", "a", kind="floating"),
        joint("j", "a", "b"),
    )
    assert read_robot(written(tmp_path, world)).floating


@pytest.mark.parametrize(
    ("text", "about", "found"),
    [
        ("", "", "no element found: line 1, column 0"),
        ("hello", "", "syntax error: line 1, column 0"),
        ("<html/>", "", "html"),
        (robot(link("a")), None, 0),
        (robot(link("a"), link("b"), joint("j", "a", "b", kind="fixed")), None, 0),
        (robot(link("a"), link("b")), "links that no joint moves", 2),
        (robot(link("a"), link("b"), joint("j", "a", "c")), "joint j: child", "c"),
        (robot(link("a"), link("b"), joint("j", "a", "b"), joint("j", "b", "a")), "joint j", "twice"),
        (
            robot(link("a"), link("b"), joint("j", "a", "b"), joint("k", "b", "a")),
            "links that no joint moves",
            0,
        ),
        (robot(link("a"), link("b"), joint("j", "a", "b", kind="ball")), "joint j: type", "ball"),
        (robot(link("a"), link("b"), joint("j", "a", "b", axis=(0, 0, 0))), "joint j: axis", (0.0, 0.0, 0.0)),
        (
            robot(link("a"), link("b"), joint("j", "a", "b")).replace('mass value="1.0"', 'mass value="x"'),
            "inertia of link a",
            "x",
        ),
        (
            robot(link("a"), link("b"), joint("j", "a", "b", xyz=(0, 0, float("nan")))),
            "joint j",
            "0.0 0.0 nan",
        ),
    ],
)
def test_bad_files_are_refused_in_one_line(
    tmp_path: Path, text: str, about: str | None, found: object
) -> None:
    path = written(tmp_path, text)
    with refused(path.name if about is None else within(path, about), found):
        read_robot(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "none.urdf", tmp_path):
        with refused(str(path)):
            read_robot(path)


def test_without_mujoco_its_files_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mujoco", None)
    with refused("mujoco"):
        read_robot(written(tmp_path, mujoco_biped(), "robot.xml"))


def test_mujocos_own_file_has_mujocos_inertia(tmp_path: Path) -> None:
    mujoco = pytest.importorskip("mujoco", reason="mujoco is not installed: pip install metasym[robots]")
    path = written(tmp_path, mujoco_biped(), "robot.xml")
    found = read_robot(path)
    model = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(model)
    assert found.names == tuple(model.joint(j).name for j in range(1, model.njnt))
    q = np.random.default_rng(0).uniform(-0.5, 0.5, (4, 6))
    mine = dynamics(found, q)
    for k in range(4):
        data.qpos[:] = [0, 0, 1, 1, 0, 0, 0, *q[k]]
        mujoco.mj_forward(model, data)
        matrix = np.zeros((model.nv, model.nv))
        for column, unit in zip(matrix, np.eye(model.nv), strict=True):
            mujoco.mj_mulM(model, data, column, unit)
        np.testing.assert_allclose(mine.joints[k], matrix[6:, 6:], atol=1e-10)


def test_things_that_lie_about_are_no_robots(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install metasym[robots]")
    thing = '<body name="ball" pos="1 0 1"><freejoint/><geom size="0.1"/></body>'
    alone = read_robot(written(tmp_path, mujoco_biped(), "robot.xml"))
    for text in (
        mujoco_biped().replace("</worldbody>", f"{thing}</worldbody>"),
        mujoco_biped().replace("<worldbody>", f"<worldbody>{thing}"),
    ):
        found = read_robot(written(tmp_path, text, "robot.xml"))
        assert (found.names, found.base_link, found.mass) == (alone.names, "trunk", alone.mass)
        assert "ball" in found.notes[0]
    arm = mujoco_biped().replace("<freejoint/>", "", 1).replace("</worldbody>", f"{thing}</worldbody>")
    standing = read_robot(written(tmp_path, arm, "robot.xml"))
    assert (standing.names, standing.floating) == (alone.names, False)
    with refused("robot.xml", 0):
        read_robot(written(tmp_path, f"<mujoco><worldbody>{thing}</worldbody></mujoco>", "robot.xml"))


def test_mujocos_biped_is_its_mirror(tmp_path: Path) -> None:
    pytest.importorskip("mujoco", reason="mujoco is not installed: pip install metasym[robots]")
    found = ms.mirror(written(tmp_path, mujoco_biped(), "robot.xml"))
    first = found.generators[0]
    assert first.base == "mirror plane y = 0"
    assert first.certificate.upper < 1e-9
    table = {row["joint"]: (row["image"], row["sign"]) for row in first.table(found.names)}
    assert table["left_roll"] == ("right_roll", -1)
    assert table["left_pitch"] == ("right_pitch", 1)
    assert table["right_slide"] == ("left_slide", 1)
