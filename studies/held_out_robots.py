"""Mirrors of robots that no threshold was set on, compared with another library's mass matrix.

``python -m studies.held_out_robots`` writes results/robots/held_out.json. It needs ``pip install pin mujoco`` and,
with ``--no-deps``, ``pybullet dm_control brax robosuite``: only their robot files are read. Thresholds of
``metasym mirror`` were set on example-robot-data; robots that stand there are left out here. URDF is compared with
Pinocchio, MuJoCo's XML against MuJoCo, at postures of its own. ``wrong``: a generator whose defect there is above its
bound.
"""

from __future__ import annotations

import sysconfig
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from metasym.robots import RobotSymmetries, mirror
from metasym.robots.mechanism import REVOLUTE
from metasym.robots.mirror_words import refusal_words
from metasym.robots.posture_certificate import draw_postures
from metasym.types import MetasymError
from studies.robots import OUT, Oracle, compared, write

PACKAGES = Path(sysconfig.get_paths()["purelib"])
FILES = (
    *(
        f"pybullet_data/quadruped/{name}.urdf"
        for name in ("minitaur", "minitaur_v1", "minitaur_derpy", "vision60")
    ),
    *(
        f"pybullet_data/quadruped/{name}.urdf"
        for name in ("spirit40", "spirit40newer", "microtaur/microtaur")
    ),
    "pybullet_data/quadruped/minitaur_rainbow_dash.urdf",
    "pybullet_data/quadruped/quadruped.urdf",
    "pybullet_data/humanoid/humanoid.urdf",
    "pybullet_data/biped/biped2d_pybullet.urdf",
    "pybullet_data/husky/husky.urdf",
    "pybullet_data/racecar/racecar.urdf",
    "pybullet_data/bicycle/bike.urdf",
    "pybullet_data/r2d2.urdf",
    "pybullet_data/pr2_gripper.urdf",
    "pybullet_data/kuka_iiwa/model.urdf",
    *(f"dm_control/suite/{name}.xml" for name in ("humanoid", "humanoid_CMU", "quadruped", "dog", "walker")),
    *(
        f"dm_control/suite/{name}.xml"
        for name in ("cheetah", "hopper", "fish", "swimmer", "manipulator", "finger")
    ),
    "dm_control/locomotion/walkers/assets/rodent.xml",
    "dm_control/locomotion/walkers/assets/fruitfly_v2/fruitfly.xml",
    "dm_control/third_party/ant/ant.xml",
    "dm_control/third_party/kinova/jaco_hand.xml",
    *(
        f"brax/envs/assets/{name}.xml"
        for name in ("ant", "humanoid", "half_cheetah", "walker2d", "hopper", "pusher")
    ),
    *(
        f"robosuite/models/assets/robots/{name}/robot.xml"
        for name in ("gr1", "spot", "spot_arm", "sawyer", "jaco")
    ),
    *(f"robosuite/models/assets/robots/{name}/robot.xml" for name in ("iiwa", "kinova3")),
)


class MujocoOracle:
    """A robot's joint inertia as MuJoCo has it, joints in the order of names, a free base eliminated."""

    def __init__(self, path: Path, found: RobotSymmetries) -> None:
        self.model = mujoco.MjModel.from_xml_path(str(path))
        self.data = mujoco.MjData(self.model)
        ids = [mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in found.names]
        self.q, self.v = self.model.jnt_qposadr[ids], self.model.jnt_dofadr[ids]
        free = self.model.jnt_dofadr[self.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
        self.base = (
            np.concatenate([np.arange(k, k + 6) for k in free]) if len(free) else np.zeros(0, dtype=int)
        )

    def inertia(self, q: np.ndarray) -> np.ndarray:
        """``[P, n, n]``."""
        found = []
        whole = np.zeros((self.model.nv, self.model.nv))
        for one in q:
            self.data.qpos[:] = self.model.qpos0
            self.data.qpos[self.q] = one
            mujoco.mj_forward(self.model, self.data)
            mujoco.mj_fullM(self.model, self.data, whole)
            m = whole[np.ix_(self.v, self.v)].copy()
            if len(self.base):
                onto = whole[np.ix_(self.v, self.base)]
                m -= onto @ np.linalg.solve(whole[np.ix_(self.base, self.base)], onto.T)
            found.append(m)
        return np.array(found)


def one(path: Path) -> dict[str, Any]:
    """What metasym says about a robot, and the defect by the other library."""
    began = time.process_time()
    found = mirror(path)
    row: dict[str, Any] = {
        "file": str(path.relative_to(PACKAGES)),
        "joints": len(found.names),
        "floating": found.mechanism.floating,
        "status": str(found.status),
        "group": found.group.name,
        "seconds": round(time.process_time() - began, 3),
        "generators": [],
        "refused": [f"{g.base}: {refusal_words(g)}" for g in found.refused],
    }
    if not found.generators:
        return row
    oracle = Oracle(path, found) if path.suffix == ".urdf" else MujocoOracle(path, found)
    q = draw_postures(found.mechanism, np.random.default_rng(54321), 600)
    before = oracle.inertia(q)
    units = [1 / found.mechanism.size if j.kind == REVOLUTE else 1.0 for j in found.mechanism.joints]
    for g in found.generators:
        after = oracle.inertia(g.action.on_postures(q))
        together, worst = compared(before, after, g.action.images, g.action.signs, units)
        row["generators"].append(
            {
                "base": g.base,
                "status": str(g.status),
                "defect": g.defect,
                "defect_upper": g.defect_upper,
                "worst_upper": g.certificate.worst.upper,
                "other_library_defect": together,
                "other_library_worst": worst,
                "holds": together <= g.defect_upper + 1e-9 and worst <= g.certificate.worst.upper + 1e-9,
                "what_breaks_it": [part.text for part in g.breaks][:4],
            }
        )
    return row


def main() -> None:
    """All files, a few minutes."""
    rows, unread = [], {}
    for name in FILES:
        path = PACKAGES / name
        try:
            rows.append(one(path))
        except MetasymError as error:
            unread[name] = str(error).replace(str(PACKAGES) + "/", "")
            print(name, unread[name], flush=True)
            continue
        last = rows[-1]
        holds = [g["holds"] for g in last["generators"]]
        print(name, last["joints"], last["status"], last["group"], holds, last["seconds"], flush=True)
    counts = {
        "read": len(rows),
        "with_a_mirror": sum(bool(row["generators"]) for row in rows),
        "generators": sum(len(row["generators"]) for row in rows),
        "wrong": sum(not g["holds"] for row in rows for g in row["generators"]),
    }
    write(
        "held_out",
        {"counts": counts, "robots": rows, "unread": unread},
        "python -m studies.held_out_robots",
    )
    print(counts, OUT)


if __name__ == "__main__":
    main()
