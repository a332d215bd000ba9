"""A mirrored state and action, stepped by MuJoCo: is what comes out the mirrored next state?

``python -m studies.stepped_robots`` writes results/robots/mujoco_steps.json. It needs ``pip install mujoco`` and,
with ``--no-deps``, ``gymnasium dm_control``: only their robot files are read. The function that ``metasym mirror
--python`` writes, with the policy's joints in the order of the actuators, mirrors what it is given; MuJoCo does the
rest, with springs, friction, motors and the floor. Once in the air, once standing on the floor. Gymnasium's humanoid
is not its mirror image: its file has another rotor at the left hip and another spring at the left knee. DeepMind's
has another limit at one hip. Mended, they are.
"""

from __future__ import annotations

import json
import sysconfig
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from metasym.robots import mirror, observation_code
from metasym.runs.machine import commit

PACKAGES = Path(sysconfig.get_paths()["purelib"])
OUT = Path(__file__).parent.parent / "results" / "robots" / "mujoco_steps.json"
GYMNASIUM = "gymnasium/envs/mujoco/assets"
HUMANOID = f"{GYMNASIUM}/humanoid.xml", "dm_control/suite/humanoid.xml"
MENDED = {
    HUMANOID[0]: (("armature", "right_hip_y", 0.01), ("stiffness", "right_knee", 1.0)),
    HUMANOID[1]: (("range", "right_hip_y", np.deg2rad([-120, 20])),),
}
"""What ``metasym mirror`` says breaks the mirror, made equal to the other side."""
ROBOTS = (f"{GYMNASIUM}/ant.xml", False), *((name, mended) for name in HUMANOID for mended in (False, True))
LAYOUT = ("lin_vel", "ang_vel", "gravity", "joint_pos", "joint_vel")
STEPS, SEEDS = 50, 10


class Stepper:
    """A robot of MuJoCo's with its state as an observation, and the base's place beside it."""

    def __init__(self, path: Path, mends: tuple[tuple[str, str, Any], ...]) -> None:
        self.found = mirror(path)
        self.model = mujoco.MjModel.from_xml_path(str(path))
        self.data = mujoco.MjData(self.model)
        for part, joint, value in mends:
            setattr(self.model.joint(joint), part, value)
        mujoco.mj_setConst(self.model, self.data)
        ids = [int(j) for j in self.model.actuator_trnid[:, 0]]
        self.q, self.v = self.model.jnt_qposadr[ids], self.model.jnt_dofadr[ids]
        self.range = self.model.jnt_range[ids].T
        base = int(np.flatnonzero(self.model.jnt_type == mujoco.mjtJoint.mjJNT_FREE)[0])
        self.place, self.motion = int(self.model.jnt_qposadr[base]), int(self.model.jnt_dofadr[base])
        self.joints = [self.model.joint(j).name for j in ids]
        scope: dict[str, Any] = {"__name__": "generated"}
        exec(observation_code(self.found, LAYOUT, joints=self.joints, absolute=True), scope)
        self.observations, self.actions = scope["mirror_observations"], scope["mirror_actions"]
        self.linear = self.found.generators[0].action.isometry[:3, :3]

    def start(self, draw: np.random.Generator, height: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The base's pose, an observation, an action."""
        n = len(self.joints)
        turn = np.zeros(4)
        mujoco.mju_axisAngle2Quat(turn, np.array([0.3, 0.5, 0.8]), draw.normal() * 0.3)
        turn /= np.linalg.norm(turn)
        pose = np.concatenate([[0.0, 0.0, height], turn])
        down = rotation(turn).T @ np.array([0, 0, -1.0])
        q = np.clip(draw.normal(size=n) * 0.2, *self.range)
        return (
            pose,
            np.concatenate([draw.normal(size=6), down, q, draw.normal(size=n)]),
            draw.uniform(-1, 1, n),
        )

    def run(
        self, pose: np.ndarray, observation: np.ndarray, action: np.ndarray
    ) -> tuple[list[np.ndarray], int]:
        """Observations after each step, and how many contacts there were."""
        n, data = len(self.joints), self.data
        mujoco.mj_resetData(self.model, data)
        p, v = self.place, self.motion
        turn = rotation(pose[3:])
        data.qpos[p : p + 7] = pose
        data.qvel[v : v + 3], data.qvel[v + 3 : v + 6] = turn @ observation[:3], observation[3:6]
        data.qpos[self.q], data.qvel[self.v] = observation[9 : 9 + n], observation[9 + n :]
        data.ctrl[:] = action
        seen, contacts = [], 0
        for _ in range(STEPS):
            mujoco.mj_step(self.model, data)
            contacts += data.ncon
            turn = rotation(data.qpos[p + 3 : p + 7])
            base = turn.T @ data.qvel[v : v + 3], data.qvel[v + 3 : v + 6], turn.T @ np.array([0, 0, -1.0])
            seen.append(np.concatenate([*base, data.qpos[self.q], data.qvel[self.v]]))
        return seen, contacts

    def compare(self, seed: int, height: float) -> dict[str, float]:
        """How far the run from the mirrored start is from the mirrored run, after one step and after all."""
        pose, observation, action = self.start(np.random.default_rng([seed, 5]), height)
        other = pose.copy()
        other[:3] = self.linear @ pose[:3]
        mujoco.mju_mat2Quat(other[3:], (self.linear @ rotation(pose[3:]) @ self.linear).ravel())
        here, contacts = self.run(pose, observation, action)
        there, _ = self.run(other, self.observations(observation), self.actions(action))
        wrong, _ = self.run(other, self.observations(observation), action)
        return {
            "one_step": float(np.abs(self.observations(here[0]) - there[0]).max()),
            "all_steps": float(np.abs(self.observations(here[-1]) - there[-1]).max()),
            "action_not_mirrored": float(np.abs(self.observations(here[0]) - wrong[0]).max()),
            "moved_by": float(np.abs(here[-1] - observation).max()),
            "contacts": contacts / STEPS,
        }


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """``[3, 3]``, by MuJoCo."""
    found = np.zeros(9)
    mujoco.mju_quat2Mat(found, np.ascontiguousarray(quaternion))
    return found.reshape(3, 3)


def main() -> None:
    """A few seconds."""
    rows = []
    for name, mended in ROBOTS:
        stepper = Stepper(PACKAGES / name, MENDED[name] if mended else ())
        first = stepper.found.generators[0]
        for place, height in (("air", 10.0), ("floor", float(stepper.model.qpos0[stepper.place + 2]))):
            runs = [stepper.compare(seed, height) for seed in range(SEEDS)]
            row = {
                "file": name,
                "mended": mended,
                "place": place,
                "base": first.base,
                "defect_upper": first.defect_upper,
            }
            row |= {
                key: float(np.max([run[key] for run in runs]))
                for key in ("one_step", "all_steps", "moved_by")
            }
            row["action_not_mirrored"] = float(np.min([run["action_not_mirrored"] for run in runs]))
            row["contacts"] = float(np.mean([run["contacts"] for run in runs]))
            row["what_breaks_it"] = [] if mended else [one.text for one in first.breaks]
            rows.append(row)
            print(row, flush=True)
    head = {"command": "python -m studies.stepped_robots", "commit": commit(), "seeds": SEEDS, "steps": STEPS}
    OUT.write_text(json.dumps({**head, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
