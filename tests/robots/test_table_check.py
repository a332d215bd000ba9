"""A table's own certificate decides whether it is right; what ``mirror`` refuses is never called right."""

from __future__ import annotations

from pathlib import Path

import metasym as ms
from metasym.robots import JointTable, check_table
from metasym.robots.robot_symmetries import Refusal
from metasym.verdicts.verdict import Status
from tests.robots.tiny_robots import joint, link, robot, written

SWAP = {"hip0": ("hip1", 1), "hip1": ("hip0", 1), "knee0": ("knee1", 1), "knee1": ("knee0", 1)}
FLIP = {name: (name, -1) for name in SWAP}


def walker(heavier: float = 0.0) -> str:
    """Two equal legs at one place of a rail that stands, their feet aside: planar, so that a half turn of every
    joint is a mirror, which the limits do not allow."""
    parts = [link("rail", 0)]
    for leg in "01":
        more = heavier if leg == "1" else 0.0
        parts += [
            link(f"thigh{leg}", 1.0 + more, (0, 0, -0.2)),
            link(f"foot{leg}", 0.3, (0.1, 0, 0), (0.001, 0.002, 0.003)),
            joint(f"hip{leg}", "rail", f"thigh{leg}", (0, 0, 1), (0, 1, 0), limits=(-2.6, 0)),
            joint(f"knee{leg}", f"thigh{leg}", f"foot{leg}", (0, 0, -0.4), (0, 1, 0), limits=(-0.7, 0.9)),
        ]
    return robot(*parts)


def test_an_exchange_of_equal_legs_is_right_though_no_mirror_is_claimed(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, walker()), floating=False)
    check = check_table(found, JointTable(SWAP))
    assert check.status == Status.CERTIFIED
    assert check.wrong == ()
    assert check.nearest == "the base as it is"
    assert check.base_defect is not None
    assert max(check.together.upper, check.worst.upper, check.base_defect.upper) < 1e-9


def test_a_table_that_mirror_refuses_is_not_right_nor_offered_as_right(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, walker()), floating=False)
    assert Refusal.LIMITS in {one.refused for one in found.refused}
    check = check_table(found, JointTable(FLIP))
    assert (check.status, check.refused, check.wrong) == (Status.NONE, Refusal.LIMITS, ())
    odd = check_table(found, JointTable({**SWAP, "knee0": ("knee1", -1)}))
    assert (odd.status, odd.wrong, odd.nearest) == (Status.NONE, (), "")


def test_unequal_legs_are_not_exchanged(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, walker(heavier=1.0)), floating=False)
    check = check_table(found, JointTable(SWAP))
    assert not check.right
    assert check.refused == Refusal.MASSES
    nearly = ms.mirror(written(tmp_path, walker(heavier=0.05)), floating=False)
    assert check_table(nearly, JointTable(SWAP)).status == Status.APPROXIMATE


def test_limits_that_were_not_compared_refuse_no_table(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, walker()), floating=False, limits=False)
    assert check_table(found, JointTable(FLIP)).status == Status.CERTIFIED


def twisted(angle: float) -> str:
    """A trunk with two arms; the right one is drawn turned by ``angle`` at its shoulder."""
    parts = [link("trunk", 5.0, (0.03, 0, 0.1), (0.3, 0.2, 0.1))]
    for side, y in (("left", 1.0), ("right", -1.0)):
        turn = angle if side == "right" else 0.0
        parts += [
            link(f"{side}_upper", 0.8, (0.02, 0.05 * y, -0.1), (0.01, 0.02, 0.003)),
            link(f"{side}_lower", 0.4, (0.05, 0.02 * y, 0.03), (0.003, 0.001, 0.002)),
            joint(
                f"{side}_shoulder",
                "trunk",
                f"{side}_upper",
                (0, 0.2 * y, 0.3),
                (0, 1, 0),
                "continuous",
                rpy=(0, turn, 0),
            ),
            joint(f"{side}_elbow", f"{side}_upper", f"{side}_lower", (0.1, 0, -0.3), (1, 0, 0), "continuous"),
        ]
    return robot(*parts)


def test_a_rest_pose_near_zero_is_not_taken_for_zero(tmp_path: Path) -> None:
    found = ms.mirror(written(tmp_path, twisted(0.015)), floating=True)
    table = {"left_shoulder": ("right_shoulder", 1), "right_shoulder": ("left_shoulder", 1)}
    table |= {"left_elbow": ("right_elbow", -1), "right_elbow": ("left_elbow", -1)}
    assert found.status == Status.CERTIFIED
    assert check_table(found, JointTable(table)).status == Status.CERTIFIED
