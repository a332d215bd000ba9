from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import metasym as ms
from metasym.robots.dynamics import dynamics
from metasym.robots.reading_robots import read_robot
from metasym.robots.robot_symmetries import RobotSymmetry
from metasym.verdicts.verdict import Status
from tests.robots.tiny_robots import arm, biped, fingers, joint, link, robot, written

SWAPPED = {
    "left_roll": ("right_roll", -1),
    "left_pitch": ("right_pitch", 1),
    "left_slide": ("right_slide", 1),
    "right_roll": ("left_roll", -1),
    "right_pitch": ("left_pitch", 1),
    "right_slide": ("left_slide", 1),
}


def moves(found: ms.RobotSymmetries, k: int = 0) -> dict[str, tuple[str, int]]:
    return {row["joint"]: (row["image"], row["sign"]) for row in found.generators[k].table(found.names)}


@pytest.mark.parametrize(
    ("at", "yaw", "words"),
    [
        ((0, 0, 0), 0.0, "mirror plane y = 0"),
        ((0, 0.07, 0), 0.0, "mirror plane y = 0.07"),
        ((0, 0, 0.4), math.pi / 2, "mirror plane x = 0"),
        ((0, 0, 0), 0.5, "mirror plane with normal (-0.479, 0.878, 0)"),
    ],
)
def test_a_biped_is_its_mirror_wherever_the_plane_lies(
    tmp_path: Path, at: tuple[float, float, float], yaw: float, words: str
) -> None:
    found = ms.mirror(written(tmp_path, biped(at=at, yaw=yaw)))
    assert found.status == Status.CERTIFIED
    assert moves(found) == SWAPPED
    assert found.generators[0].base == words
    assert found.generators[0].certificate.upper < 1e-9
    assert (found.group.name, found.group.order) == ("Z_2", 2)
    assert not found.centre.any()


def test_what_is_claimed_holds_for_the_inertia_at_other_postures(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, biped()))
    assert len(repr(found)) < 500
    assert found.generators[0].base in repr(found)
    q = np.random.default_rng(8).normal(size=(5, 6))
    g = found.generators[0].permutation
    matrix = np.zeros((6, 6))
    for i, (j, sign) in enumerate(zip(g.inputs, g.input_signs, strict=True)):
        matrix[j, i] = sign
    before, after = dynamics(found.mechanism, q), dynamics(found.mechanism, found.on_postures(q))
    np.testing.assert_allclose(after.free, matrix @ before.free @ matrix.T, atol=1e-12)
    np.testing.assert_allclose(found.on_velocities(q), q @ matrix.T)


def test_fingers_around_a_palm_turn(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, fingers()))
    assert (found.status, found.group.name) == (Status.CERTIFIED, "Z_3")
    assert moves(found)["first0"] in (("first1", 1), ("first2", 1))
    assert not ms.mirror(written(tmp_path, fingers(broken=0.05))).generators


def test_an_arm_has_its_mirror_about_another_rest_pose(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, arm()))
    assert found.status == Status.CERTIFIED
    assert [sign for _, sign in moves(found).values()][:3] == [-1, -1, -1]
    upright = dict(zip(found.names, found.centre, strict=True))
    assert abs(math.cos(upright["lift"])) < 1e-6
    assert found.generators[0].certificate.upper < 1e-9


def test_what_breaks_a_mirror_is_named(tmp_path: Path) -> None:
    off = ms.mirror(written(tmp_path, biped(trunk_centre=(0.03, 0.003, 0.1))))
    first = off.generators[0].masses[0]
    assert (first.where, first.what) == ("base", "centre of mass")
    assert "3 mm off" in first.text
    assert moves(off) == SWAPPED
    heavy = ms.mirror(written(tmp_path, biped(left_mass=1.2)))
    assert heavy.status == Status.APPROXIMATE
    first = heavy.generators[0].masses[0]
    assert (first.where, first.image, first.what) == ("left_thigh", "right_thigh", "mass")
    missing = ms.mirror(written(tmp_path, biped(left_mass=0)))
    assert missing.status == Status.APPROXIMATE
    assert moves(missing) == SWAPPED
    assert missing.generators[0].masses[0].text == "left_thigh has no mass, right_thigh has 0.8 kg"


def test_damping_and_friction_that_differ_are_named(tmp_path: Path) -> None:
    even = biped().replace("</joint>", '<dynamics damping="0.5" friction="0.1"/></joint>')
    assert not ms.mirror(written(tmp_path, even)).generators[0].drives
    left = even.index('<joint name="left_pitch"')
    odd = even[:left] + even[left:].replace('damping="0.5"', 'damping="0.7"', 1)
    found = ms.mirror(written(tmp_path, odd))
    assert found.status == Status.CERTIFIED  # of the inertia, which damping does not enter
    assert [(one.where, one.image, one.what) for one in found.generators[0].breaks] == [
        ("left_pitch", "right_pitch", "damping")
    ]


def test_rotors_and_springs_that_differ_are_named(tmp_path: Path) -> None:
    robot = read_robot(written(tmp_path, biped()))
    sprung = [
        replace(j, stiffness=2.0, spring_at=0.3 * (-1) ** (j.name == "right_roll")) for j in robot.joints
    ]
    even = ms.mirror(replace(robot, joints=tuple(sprung)))
    assert not even.generators[0].breaks  # a roll's sign is -1, and so is its spring's
    at = {j.name: k for k, j in enumerate(sprung)}
    for name, change, what in (
        ("left_roll", {"rotor": 0.0005}, "rotor"),
        ("left_pitch", {"stiffness": 3.0}, "stiffness"),
        ("left_roll", {"spring_at": -0.3}, "spring"),
    ):
        joints = list(sprung)
        joints[at[name]] = replace(joints[at[name]], **change)
        found = ms.mirror(replace(robot, joints=tuple(joints))).generators[0]
        assert [(one.where, one.what) for one in found.breaks] == [(name, what)]
        assert (found.defect > 1e-6) == (what == "rotor")  # the others are no part of the inertia


def test_defects_grow_with_what_breaks_the_mirror_and_bounds_lie_above(tmp_path: Path) -> None:
    before = 0.0
    for mass in (0.81, 0.85, 1.0):
        found = ms.mirror(written(tmp_path, biped(left_mass=mass))).generators[0]
        assert before < found.defect <= found.defect_upper
        before = found.defect
    assert not ms.mirror(written(tmp_path, biped(left_mass=8.0))).generators


def test_limits_are_compared(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, biped(left_limits=(-0.5, 0.7))))
    broken = found.generators[0].limits
    assert [(one.where, one.image) for one in broken] == [("left_roll", "right_roll")]
    assert not ms.mirror(written(tmp_path, biped(left_limits=(-0.5, 0.7))), limits=False).generators[0].limits


def test_an_arm_that_lies_in_no_plane_has_no_mirror(tmp_path: Path) -> None:
    crooked = robot(
        link("foot", 0),
        *(link(f"l{k}", 1.0, (0.02 * k, 0.03, 0.1 - 0.04 * k)) for k in range(4)),
        joint("a", "foot", "l0", (0, 0, 0.1), (0, 0, 1)),
        joint("b", "l0", "l1", (0.1, 0.05, 0.2), (0.6, 0.8, 0)),
        joint("c", "l1", "l2", (0.3, -0.2, 0.1), (0, 0.6, 0.8)),
        joint("d", "l2", "l3", (0.1, 0.3, 0.2), (0.8, 0, 0.6)),
    )
    found = ms.mirror(written(tmp_path, crooked))
    assert found.status == Status.NONE
    assert not found.elements
    assert found.group.order == 1


def test_grippers_that_weigh_nothing_count_on_their_own_scale(tmp_path: Path) -> None:
    def held(mass: float) -> str:
        parts = [link("trunk", 50.0, (0, 0, 0), (3, 3, 3))]
        for side, y in (("l", 1.0), ("r", -1.0)):
            weight = 1e-3 * (mass if side == "l" else 1.0)
            parts += [
                link(f"{side}_arm", 5.0, (0, 0.2 * y, 0), (0.3, 0.1, 0.3)),
                link(f"{side}_claw", weight, (0, 0.01 * y, 0.01), (1e-7, 1e-7, 1e-7)),
                joint(f"{side}_shoulder", "trunk", f"{side}_arm", (0, 0.2 * y, 0), (1, 0, 0)),
                joint(f"{side}_grip", f"{side}_arm", f"{side}_claw", (0, 0.4 * y, 0), (1, 0, 0)),
            ]
        return robot(*parts)

    def swapped(mass: float) -> RobotSymmetry:
        found = ms.mirror(written(tmp_path, held(mass)))
        return next(g for g in found.elements if g.base == "mirror plane y = 0")

    good, bad = swapped(1.0), swapped(2.0)
    assert good.status == Status.CERTIFIED
    assert bad.status == Status.APPROXIMATE
    assert bad.defect_upper < 1e-2 < 0.2 < bad.certificate.worst.value
    assert set(bad.certificate.worst_joints) <= {"l_grip", "r_grip"}


def test_the_same_seed_gives_the_same_answer(tmp_path: Path) -> None:
    path = written(tmp_path, biped(left_mass=0.9))
    one, two = (ms.mirror(path).generators[0].certificate for _ in range(2))
    assert one == two
    assert ms.mirror(path, seed=5).generators[0].certificate != one


def test_without_masses_geometry_is_read_and_not_certified(tmp_path: Path) -> None:
    bare = re.sub(r"<inertial>.*?</inertial>", "", biped())
    found = ms.mirror(written(tmp_path, bare), floating=True)
    assert found.status == Status.READ
    assert SWAPPED in [moves(found, k) for k in range(len(found.generators))]


def test_a_joint_that_moves_no_mass_is_not_certified(tmp_path: Path) -> None:
    bare = re.sub(r'(<link name="(?:left|right)_foot">)<inertial>.*?</inertial>', r"\1", biped())
    found = ms.mirror(written(tmp_path, bare))
    assert found.status == Status.APPROXIMATE
    assert set(found.generators[0].certificate.untested) == {"left_slide", "right_slide"}
    assert moves(found) == SWAPPED


def test_point_masses_on_a_line_need_no_inverse(tmp_path: Path) -> None:
    still = (0.0, 0.0, 0.0)
    line = robot(
        *(link(name, 1.0, still, still) for name in "abc"),
        joint("left", "a", "b", (0, 1, 0), (0, 1, 0), "prismatic"),
        joint("right", "a", "c", (0, -1, 0), (0, 1, 0), "prismatic"),
    )
    found = ms.mirror(written(tmp_path, line))
    assert all(np.isfinite(g.certificate.upper) for g in found.elements)
    assert {"left": ("right", -1), "right": ("left", -1)} in [
        moves(found, k) for k in range(len(found.generators))
    ]
