"""Robots with a mirror that was planted, of random geometry, on fresh seeds, and with one number off.

``python -m studies.planted_robots [--seeds N] [--first S]`` writes results/robots/planted.json. It needs
``pip install pin``. A robot has a base, a chain of joints in the mirror plane, and one to three pairs of limbs with
hinges and slides along any direction. The plane is one of the base's axes, or in a third of the robots any plane; in
half of them the mirror does not keep the zero posture. Controls: the mass of one link off by 30, 5 or 1 %, or one
joint moved by 30, 5 or 1 % of about the robot's size. Right: the planted table is found, with all signs, and
Pinocchio's defects are below the bounds. A robot with a joint that was moved must not be certified. The planted table
is also checked as one written by hand, and once more with one sign wrong.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from metasym.robots import JointTable, check_table, mirror
from metasym.robots.mechanism import REVOLUTE
from metasym.robots.posture_certificate import draw_postures
from studies.robots import Oracle, compared, write

CONTROLS = tuple((kind, off) for kind in ("mass", "joint") for off in (0.3, 0.05, 0.01))
LINK = """<link name="{name}"><inertial><origin xyz="{com}"/><mass value="{mass}"/>
<inertia ixx="{i[0]}" iyy="{i[4]}" izz="{i[8]}" ixy="{i[1]}" ixz="{i[2]}" iyz="{i[5]}"/></inertial></link>"""
JOINT = """<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{name}_link"/>
<origin xyz="{at}" rpy="{rpy}"/><axis xyz="{axis}"/>{limit}</joint>"""


def numbers(values: Any) -> str:
    """As URDF has them."""
    return " ".join(f"{float(v):.15g}" for v in np.ravel(values))


@dataclass
class Robot:
    """A tree of joints whose frames are parallel to the base's at the posture that the mirror keeps."""

    links: list[str] = field(default_factory=list)
    joints: list[str] = field(default_factory=list)
    table: dict[str, tuple[str, int]] = field(default_factory=dict)
    centre: dict[str, float] = field(default_factory=dict)

    def link(self, name: str, mass: float, com: np.ndarray, inertia: np.ndarray) -> None:
        """A body."""
        values = [f"{v:.15g}" for v in inertia.ravel()]
        self.links.append(LINK.format(name=name, com=numbers(com), mass=f"{mass:.15g}", i=values))

    def joint(
        self, name: str, parent: str, at: np.ndarray, axis: np.ndarray, slide: bool, rest: float
    ) -> None:
        """A joint that stands at ``rest`` in the posture that the mirror keeps."""
        turn = np.zeros(3) if slide else pin.rpy.matrixToRpy(pin.exp3(-rest * axis))
        limit = '<limit lower="-0.1" upper="0.1" effort="1" velocity="1"/>' if slide else ""
        kind = "prismatic" if slide else "continuous"
        self.joints.append(
            JOINT.format(
                name=name,
                kind=kind,
                parent=parent,
                at=numbers(at),
                rpy=numbers(turn),
                axis=numbers(axis),
                limit=limit,
            )
        )
        self.centre[name] = 0.0 if slide else rest


def body(draw: np.random.Generator) -> tuple[float, np.ndarray, np.ndarray]:
    """Mass, centre of mass and inertia of a link."""
    mass = float(draw.uniform(0.3, 2))
    turned = pin.exp3(draw.normal(size=3))
    return mass, draw.normal(size=3) * 0.05, turned @ np.diag(mass * draw.uniform(0.004, 0.008, 3)) @ turned.T


def planted(seed: int, control: tuple[str, float] | None) -> Robot:
    """A robot, and with a control one number of its right limb that is off."""
    draw = np.random.default_rng([seed, 91])
    normal = np.eye(3)[draw.integers(3)] if seed % 3 else draw.normal(size=3)
    normal /= np.linalg.norm(normal)
    R = np.eye(3) - 2 * np.outer(normal, normal)
    shifted = seed % 2 == 1
    robot = Robot()

    def onto(v: np.ndarray) -> np.ndarray:
        return np.asarray(v - normal * (v @ normal))

    mass, com, inertia = body(draw)
    robot.link("base", 5 * mass, onto(com), 5 * (inertia + R @ inertia @ R.T) / 2)
    parent = "base"
    for k in range(int(draw.integers(0, 3))):  # joints in the plane: hinges turn in it or across it
        across = bool(draw.integers(2))
        axis = normal if across else onto(draw.normal(size=3))
        axis = axis / np.linalg.norm(axis)
        robot.joint(f"waist{k}", parent, onto(draw.normal(size=3) * 0.2), axis, False, 0.0)
        mass, com, inertia = body(draw)
        robot.link(f"waist{k}_link", mass, onto(com), (inertia + R @ inertia @ R.T) / 2)
        # A turn is an axial vector: across the plane it stays, along it it changes its sign.
        robot.table[f"waist{k}"] = (f"waist{k}", 1 if across else -1)
        parent = f"waist{k}_link"
    limbs, length = int(draw.integers(1, 4)), int(draw.integers(2, 5))
    worst = (int(draw.integers(limbs)), int(draw.integers(length)))
    for limb in range(limbs):
        parents = {"l": parent, "r": parent}
        for k in range(length):
            at, axis = draw.normal(size=3) * 0.2, draw.normal(size=3)
            axis /= np.linalg.norm(axis)
            slide, sign = bool(draw.random() < 0.2), int(draw.choice([-1, 1]))
            rest = [float(v) if shifted else 0.0 for v in draw.uniform(-1, 1, 2)]
            mass, com, inertia = body(draw)
            names = [f"{side}{limb}_{k}" for side in "lr"]
            robot.joint(names[0], parents["l"], at, axis, slide, rest[0])
            robot.link(f"{names[0]}_link", mass, com, inertia)
            image = sign * (R @ axis) if slide else -sign * (R @ axis)
            there, heavy = R @ at, 1.0
            if control is not None and (limb, k) == worst:
                heavy = 1 + control[1] if control[0] == "mass" else 1.0
                if control[0] == "joint":
                    there = there + control[1] * onto(np.array([0.3, 0.4, 0.5]))
            robot.joint(names[1], parents["r"], there, image, slide, rest[1])
            robot.link(f"{names[1]}_link", heavy * mass, R @ com, heavy * (R @ inertia @ R.T))
            robot.table[names[0]], robot.table[names[1]] = (names[1], sign), (names[0], sign)
            parents = {"l": f"{names[0]}_link", "r": f"{names[1]}_link"}
    return robot


def one(seed: int, control: tuple[str, float] | None, folder: Path) -> dict[str, Any]:
    """What metasym finds of a robot."""
    robot = planted(seed, control)
    path = folder / f"robot{seed}.urdf"
    path.write_text(f'<robot name="r">{"".join(robot.links + robot.joints)}</robot>')
    found = mirror(path, floating=True)
    row: dict[str, Any] = {"seed": seed, "control": control, "joints": len(found.names)}
    row |= {"status": str(found.status), "generators": len(found.generators), "wrong": []}
    oracle = Oracle(path, found)
    q = draw_postures(found.mechanism, np.random.default_rng([seed, 92]), 500)
    before = oracle.inertia(q)
    units = [1 / found.mechanism.size if j.kind == REVOLUTE else 1.0 for j in found.mechanism.joints]
    if control is None:
        joint = next(iter(robot.table))
        image, sign = robot.table[joint]
        row["table_right"] = check_table(found, JointTable(robot.table)).right
        row["wrong_table_right"] = check_table(
            found, JointTable({**robot.table, joint: (image, -sign)})
        ).right
    row["table_found"] = False
    for g in found.generators:
        table = {r["joint"]: (r["image"], r["sign"]) for r in g.table(found.names)}
        same = table == robot.table
        row["table_found"] |= same
        after = oracle.inertia(g.action.on_postures(q))
        together, worst = compared(before, after, g.action.images, g.action.signs, units)
        row |= {"defect_upper": g.defect_upper, "pinocchio_defect": together}
        if together > g.defect_upper + 1e-9 or worst > g.certificate.worst.upper + 1e-9:
            row["wrong"].append(
                f"bounds {g.defect_upper:.3g} and {g.certificate.worst.upper:.3g}, "
                f"by Pinocchio {together:.3g} and {worst:.3g}"
            )
        if not same and control is None:
            row["wrong"].append(f"a table that was not planted, defect {together:.2g}")
    if (
        control is not None
        and control[0] == "joint"
        and control[1] > 0.005
        and str(found.status) == "certified"
    ):
        row["wrong"].append("certified although a joint is off")
    return row


def main() -> None:
    """All robots, a few seconds each ten."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first", type=int, default=5000, help="3000 to 3039 set a threshold")
    options = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.first, options.first + options.seeds):
            for control in (None, CONTROLS[seed % len(CONTROLS)]):
                rows.append(one(seed, control, Path(folder)))
                print(rows[-1], flush=True)
    plain = [row for row in rows if row["control"] is None]
    off = [row for row in rows if row["control"] is not None]
    counts = {
        "planted": len(plain),
        "tables_found": sum(row["table_found"] for row in plain),
        "certified": sum(row["status"] == "certified" for row in plain),
        "tables_right": sum(row["table_right"] for row in plain),
        "tables_with_a_wrong_sign_right": sum(row["wrong_table_right"] for row in plain),
        "controls": len(off),
        "wrong": sum(bool(row["wrong"]) for row in rows),
    }
    command = f"python -m studies.planted_robots --first {options.first} --seeds {options.seeds}"
    write("planted", {"counts": counts, "rows": rows}, command)
    print(counts)


if __name__ == "__main__":
    main()
