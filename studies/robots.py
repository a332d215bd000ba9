"""Mirrors of the robots in example-robot-data, held against Pinocchio's mass matrix and morpho-symm's tables.

``python -m studies.robots [PART ...] [--minutes M]`` writes results/robots/*.json, all or some of them; robots that
are in robots.json are not looked at again. It needs ``pip install pin example-robot-data morpho-symm``
(the last one with ``--no-deps``: only its tables are read). Pinocchio reads the files and computes the inertia by
itself: nothing of metasym's reader or dynamics takes part in what it says.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import sysconfig
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pinocchio as pin

from metasym.robots import (
    JointTable,
    Mechanism,
    RobotSymmetries,
    check_table,
    mirror,
    observation_code,
    parse_tables,
    read_robot,
    read_tables,
)
from metasym.robots.dynamics import dynamics
from metasym.robots.mechanism import REVOLUTE
from metasym.robots.mirror_words import refusal_words
from metasym.robots.posture_certificate import Postures, draw_postures
from metasym.runs.machine import commit
from metasym.types import MetasymError

OUT = Path(__file__).parent.parent / "results" / "robots"
ROBOTS = Path(sysconfig.get_paths()["purelib"]) / "cmeel.prefix" / "share" / "example-robot-data" / "robots"

MORPHO = {
    "a1.urdf": "a1",
    "go1.urdf": "a1",
    "go2.urdf": "a1",
    "b1.urdf": "a1",
    "anymal_b_simple_description/robots/anymal.urdf": "anymal_c",
    "anymal_c_simple_description/urdf/anymal.urdf": "anymal_c",
    "baxter.urdf": "baxter",
    "bolt.urdf": "bolt",
    "hyq_no_sensors.urdf": "hyq",
    "solo12.urdf": "solo",
    "ur3_robot.urdf": "ur5",
    "ur5_robot.urdf": "ur5",
    "ur10_robot.urdf": "ur5",
}
"""Which of morpho-symm's files is about which robot, its parents followed."""


class Oracle:
    """A robot's joint inertia as Pinocchio has it, joints in the order of names."""

    def __init__(self, path: Path, found: RobotSymmetries) -> None:
        floating, names = found.mechanism.floating, found.names
        root = (pin.JointModelFreeFlyer(),) if floating else ()
        self.model = pin.buildModelFromUrdf(str(path), *root)
        self.data = self.model.createData()
        self.floating = floating
        self.joints = [self.model.joints[self.model.getJointId(name)] for name in names]
        self.at = [joint.idx_v for joint in self.joints]

    def configuration(self, q: np.ndarray) -> np.ndarray:
        """Pinocchio's configuration of joint positions, the base at 0."""
        whole = pin.neutral(self.model)
        for joint, value in zip(self.joints, q, strict=True):
            if joint.nq == 2:  # Pinocchio keeps cosine and sine of a joint without limits
                whole[joint.idx_q : joint.idx_q + 2] = np.cos(value), np.sin(value)
            else:
                whole[joint.idx_q] = value
        return whole

    def inertia(self, q: np.ndarray) -> np.ndarray:
        """``[P, n, n]``, a free base eliminated."""
        found = []
        for one in q:
            m = pin.crba(self.model, self.data, self.configuration(one))
            m = np.triu(m) + np.triu(m, 1).T
            j = np.ix_(self.at, self.at)
            if self.floating:
                onto = m[self.at, :6]
                found.append(m[j] - onto @ np.linalg.solve(m[:6, :6], onto.T))
            else:
                found.append(m[j])
        return np.array(found)


def compared(
    before: np.ndarray, after: np.ndarray, images: Any, signs: Any, units: Any = 1.0
) -> tuple[float, float]:
    """The defect of all entries, and of the worst on its joints' own scale."""
    images, signs = list(images), np.array(signs, dtype=float)
    apart = after[:, images][:, :, images] * np.outer(signs, signs) - before
    power = (before**2).mean(0).diagonal()
    own = np.sqrt(np.maximum(power, power[images]))
    scale = np.outer(own, own)
    seen = scale > 1e-18 * scale.max()
    entries = np.sqrt((apart**2).mean(0)[seen] / scale[seen])
    units = np.outer(units, units) if np.ndim(units) else 1.0
    return float(np.sqrt(((apart * units) ** 2).sum() / ((before * units) ** 2).sum())), float(entries.max())


def one_robot(path: Path) -> dict[str, Any]:
    """What metasym says about a robot, and what Pinocchio and morpho-symm say about that."""
    began = time.process_time()
    found = mirror(path)
    seconds = time.process_time() - began
    oracle = Oracle(path, found)
    draw = np.random.default_rng(12345)
    q = draw_postures(found.mechanism, draw, 3000 if len(found.names) < 40 else 1500)
    before = oracle.inertia(q)
    own = Postures(found.mechanism, 3, 50)
    agrees = float(np.abs(own.inertia - oracle.inertia(own.q)).max() / np.abs(own.inertia).max())
    row: dict[str, Any] = {
        "file": str(path.relative_to(ROBOTS)),
        "joints": len(found.names),
        "floating": found.mechanism.floating,
        "status": str(found.status),
        "group": found.group.name,
        "seconds": round(seconds, 3),
        "inertia_agrees_with_pinocchio": agrees,
        "generators": [],
        "refused": [f"{g.base}: {refusal_words(g)}" for g in found.refused],
    }
    for g in found.generators:
        after = oracle.inertia(g.action.on_postures(q))
        images, signs = g.action.images, g.action.signs
        units = [1 / found.mechanism.size if j.kind == REVOLUTE else 1.0 for j in found.mechanism.joints]
        together, worst = compared(before, after, images, signs, units)
        flips = []
        for orbit in {frozenset((i, j)) for i, j in enumerate(images)}:
            turned = [-s if i in orbit else s for i, s in enumerate(signs)]
            moved = g.action.on_postures(q[:200])
            about = found.centre[[images[i] for i in orbit]]
            moved[:, [images[i] for i in orbit]] = 2 * about - moved[:, [images[i] for i in orbit]]
            flips.append(compared(before[:200], oracle.inertia(moved), images, turned)[1])
        row["generators"].append(
            {
                "base": g.base,
                "status": str(g.status),
                "defect": g.defect,
                "defect_upper": g.defect_upper,
                "worst": g.certificate.worst.value,
                "worst_upper": g.certificate.worst.upper,
                "base_upper": g.certificate.base.upper,
                "geometry": g.certificate.geometry,
                "pinocchio_defect": together,
                "pinocchio_worst": worst,
                "bound_holds": together <= g.defect_upper and worst <= g.certificate.worst.upper,
                "least_worst_with_one_sign_flipped": min(flips),
                "signs_that_dynamics_cannot_tell": sum(f <= 1.5 * worst + 1e-9 for f in flips),
                "what_breaks_it": [one.text for one in g.breaks][:4],
            }
        )
    name = next((key for key in MORPHO if row["file"].endswith(key)), None)
    if name is not None:
        row["morpho_symm"] = morpho(found, MORPHO[name])
    return row


def morpho(found: RobotSymmetries, name: str) -> dict[str, Any]:
    """Whether the tables of morpho-symm are among what was found, and where they differ."""
    spec = importlib.util.find_spec("morpho_symm")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    file = Path(spec.submodule_search_locations[0]) / "cfg" / "robot" / f"{name}.yaml"
    names = [one for one in found.names if "gripper" not in one or name != "baxter"]
    try:
        tables = read_tables(file, names)
    except MetasymError as error:
        return {"file": name, "unreadable": str(error).partition(": ")[2]}
    checks = [check_table(found, table) for table in tables]
    return {
        "file": name,
        "tables": len(tables),
        "right": sum(check.right for check in checks),
        "geometry_only": sum(not check.right and not check.wrong for check in checks),
        "differences": [[w.text for w in check.wrong] for check in checks if check.wrong],
        "their_defects": [check.together.value for check in checks],
    }


def stepped(path: Path, steps: int = 50, dt: float = 1e-3) -> dict[str, Any]:
    """A state and an action, mirrored by the generated function, stepped by Pinocchio: how far from the mirror."""
    found = mirror(path)
    oracle = Oracle(path, found)
    layout = ["lin_vel", "ang_vel", "gravity", "joint_pos", "joint_vel"]
    scope: dict[str, Any] = {"__name__": "generated"}
    exec(observation_code(found, layout, absolute=True), scope)
    n = len(found.names)
    draw = np.random.default_rng(7)
    linear = found.generators[0].action.isometry[:3, :3]
    turn = pin.exp3(draw.normal(size=3))
    velocity, position, action = draw.normal(size=6 + n), draw.normal(size=n), draw.normal(size=n)
    action *= 0.02 * found.mechanism.mass

    def run(turn: np.ndarray, observation: np.ndarray, action: np.ndarray) -> np.ndarray:
        q = oracle.configuration(observation[9 : 9 + n])
        q[3:7] = pin.Quaternion(turn).coeffs()
        v, tau = np.zeros(oracle.model.nv), np.zeros(oracle.model.nv)
        v[:6] = observation[:6]
        v[oracle.at], tau[oracle.at] = observation[9 + n :], action
        for _ in range(steps):
            v = v + dt * pin.aba(oracle.model, oracle.data, q, v, tau)
            q = pin.integrate(oracle.model, q, dt * v)
        down = pin.Quaternion(q[3:7]).toRotationMatrix().T @ np.array([0, 0, -1.0])
        joints = [np.arctan2(q[j.idx_q + 1], q[j.idx_q]) if j.nq == 2 else q[j.idx_q] for j in oracle.joints]
        return np.concatenate([v[:6], down, joints, v[oracle.at]])

    start = np.concatenate([velocity[:6], turn.T @ np.array([0, 0, -1.0]), position, velocity[6:]])
    mirrored = scope["mirror_observations"](start)
    end = run(turn, start, action)
    other = run(linear @ turn @ linear, mirrored, scope["mirror_actions"](action))
    names_only = np.array([found.names.index(row["image"]) for row in found.generators[0].table(found.names)])
    return {
        "file": path.name,
        "defect_upper": found.generators[0].defect_upper,
        "steps": steps,
        "largest_difference": float(np.abs(scope["mirror_observations"](end) - other).max()),
        "moved_by": float(np.abs(end - start).max()),
        "names_without_signs": float(
            np.abs(
                scope["mirror_observations"](end)
                - run(linear @ turn @ linear, mirrored, action[np.argsort(names_only)])
            ).max()
        ),
    }


def planted(path: Path, seed: int, swap: bool) -> dict[str, Any]:
    """One error in a right table: whether it is found, and the joint named."""
    found = mirror(path)
    draw = np.random.default_rng(seed)
    table = parse_tables(found.generators[0].as_dict(found.names), found.names)[0]
    moves = dict(table.moves)
    joints = [str(name) for name in draw.permutation(list(moves))]
    if swap:
        a, b = joints[:2]
        moves[a], moves[b] = (moves[b][0], moves[a][1]), (moves[a][0], moves[b][1])
    else:
        a = b = joints[0]
        moves[a] = (moves[a][0], -moves[a][1])
    check = check_table(found, JointTable(moves))
    return {
        "file": path.name,
        "error": f"images of {a} and {b} exchanged" if swap else f"sign of {a}",
        "found": not check.right,
        "named": {w.joint for w in check.wrong} == {a, b},
        "said": [w.text for w in check.wrong],
        "defect": check.together.value,
    }


def coverage(path: Path, seeds: int = 40) -> dict[str, Any]:
    """How often the bounds from 128 postures are too low, beside the defect at 10,000."""
    found = mirror(path)
    action = found.generators[0].action
    true = Postures(found.mechanism, 999, 10_000 if len(found.names) < 20 else 4000).certify(action)
    low = {"together": 0, "worst": 0, "base": 0}
    for seed in range(1, seeds + 1):
        got = Postures(found.mechanism, seed).certify(action)
        for key in low:
            low[key] += getattr(got, key).upper < getattr(true, key).value
    return {"file": path.name, "seeds": seeds, "too_low": low, "defect": true.together.value}


def limb(path: Path, top: str) -> Mechanism:
    """A single limb of a robot, on a wall."""
    whole = read_robot(path)
    first = whole.names.index(top)
    kept = [i for i in range(len(whole.joints)) if whole.above[first, i]]
    number = {old: new for new, old in enumerate(kept)}
    joints = [
        replace(
            whole.joints[i],
            parent=-1 if i == first else number[whole.joints[i].parent],
            placement=whole.rest_frames[i] if i == first else whole.joints[i].placement,
        )
        for i in kept
    ]
    return Mechanism(f"{path.stem}: {top}", tuple(joints), "wall", np.zeros((4, 4)), False)


def without_mirror(robot: Mechanism) -> dict[str, Any]:
    """What is claimed of a limb, and the least defect of all its patterns of signs about 0, tried one by one."""
    found = mirror(robot)
    n = len(found.names)
    q = draw_postures(robot, np.random.default_rng(5), 40)
    before = dynamics(robot, q).joints
    best = np.inf
    for signs in itertools.islice(itertools.product((1, -1), repeat=n), 1, None):
        best = min(best, compared(before, dynamics(robot, q * np.array(signs)).joints, range(n), signs)[1])
    return {
        "limb": robot.name,
        "joints": n,
        "claimed": len(found.generators),
        "least_worst_entry_of_signs": best,
    }


def find(name: str) -> Path:
    """The first file whose path ends so."""
    return next(path for path in sorted(ROBOTS.rglob("*.urdf")) if str(path).endswith(name))


def write(name: str, value: dict[str, Any], command: str = "python -m studies.robots") -> None:
    """A small JSON file of results."""
    OUT.mkdir(parents=True, exist_ok=True)
    head = {"command": command, "commit": commit()}
    (OUT / f"{name}.json").write_text(json.dumps({**head, **value}, indent=1) + "\n")


def all_robots(minutes: float) -> None:
    """Every robot that is not in the file yet, until the time is over."""
    path = OUT / "robots.json"
    known = json.loads(path.read_text()) if path.exists() else {"robots": [], "unread": {}}
    rows, unread = known["robots"], known["unread"]
    done = {row["file"] for row in rows} | set(unread)
    until = time.monotonic() + 60 * minutes
    for path in sorted(ROBOTS.rglob("*.urdf")):
        name = str(path.relative_to(ROBOTS))
        if name in done or time.monotonic() > until:
            continue
        try:
            rows.append(one_robot(path))
            print(name, rows[-1]["status"], rows[-1]["group"], rows[-1]["seconds"], flush=True)
        except MetasymError as error:
            unread[name] = str(error).replace(str(ROBOTS) + "/", "")
        write("robots", {"counts": counts(rows), "robots": rows, "unread": unread})


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    """What the table of the docs says."""
    generators = [g for row in rows for g in row["generators"]]
    tables = [row["morpho_symm"] for row in rows if "morpho_symm" in row]
    return {
        "files": len(rows),
        "with_a_mirror": sum(bool(row["generators"]) for row in rows),
        "certified": sum(row["status"] == "certified" for row in rows),
        "without": sum(not row["generators"] for row in rows),
        "generators": len(generators),
        "below_their_bounds": sum(g["bound_holds"] for g in generators),
        "files_with_signs_that_rest_on_geometry": sum(
            any(g["signs_that_dynamics_cannot_tell"] for g in row["generators"]) for row in rows
        ),
        "morpho_symm_files": len(tables),
        "morpho_symm_tables": sum(one.get("tables", 0) for one in tables),
        "morpho_symm_tables_right": sum(one.get("right", 0) for one in tables),
    }


EXACT = ("/quadruped.urdf", "/simple_humanoid.urdf", "/solo.urdf", "/a1.urdf")
LIMBS = (
    ("/g1_29dof_rev_1_0.urdf", "left_shoulder_pitch_joint"),
    ("/g1_29dof_rev_1_0.urdf", "left_hip_pitch_joint"),
    ("/talos_reduced.urdf", "arm_left_1_joint"),
    ("/pr2.urdf", "l_shoulder_pan_joint"),  # a control: this arm has a mirror
)
NAMES = (
    *("a1", "go2", "g1_29dof_rev_1_0", "solo12", "talos_reduced"),
    *("icub", "romeo", "bolt", "baxter", "laikago"),
)
PARTS = {
    "limbs": lambda: [without_mirror(limb(find(name), top)) for name, top in LIMBS],
    "steps": lambda: [stepped(find(name)) for name in EXACT],
    "tables": lambda: [planted(find(f"/{name}.urdf"), k, k % 2 == 1) for k, name in enumerate(NAMES)],
    "bounds": lambda: [coverage(find(f"/{name}.urdf")) for name in (*NAMES, "hyq_no_sensors", "panda")],
}


def main() -> None:
    """All of it, about ten minutes of one core."""
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", help=f"of robots, {', '.join(PARTS)}")
    parser.add_argument("--minutes", type=float, default=math.inf, help="for robots")
    options = parser.parse_args()
    for part in options.parts or ("robots", *PARTS):
        if part == "robots":
            all_robots(options.minutes)
        else:
            write(part, {"rows": PARTS[part]()}, f"python -m studies.robots {part}")


if __name__ == "__main__":
    main()
