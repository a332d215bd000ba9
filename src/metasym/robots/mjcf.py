"""Reads robots from MuJoCo's XML, which only MuJoCo itself can read: defaults, masses from shapes, included files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from metasym.errors import in_one_line
from metasym.robots.mechanism import (
    PRISMATIC,
    REVOLUTE,
    Array,
    Joint,
    Mechanism,
    inverse_pose,
    joint_motion,
    pose,
    pseudo_inertia,
)
from metasym.types import MetasymError


def read_mjcf(path: Path, floating: bool | None = None) -> Mechanism:
    """The mechanism of a MuJoCo model with one robot; a body with a free joint is its base."""
    try:
        import mujoco
    except ImportError:
        raise MetasymError(
            f"{path}: expected MuJoCo to read its XML, found none: pip install metasym[robots]",
            about="mujoco",
        ) from None
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        said = in_one_line(error)
        raise MetasymError(
            f"{path}: expected a model that MuJoCo reads, found {said}", about=str(path), found=said
        ) from None
    kinds = mujoco.mjtJoint
    loose = [b for b in range(model.nbody) if _joints(model, b, int(kinds.mjJNT_FREE))]
    free = [b for b in loose if any(_joints(model, k) for k in _below(model, b))]
    objects = [b for b in loose if b not in free]
    if len(free) > 1:
        names = ", ".join(model.body(b).name for b in free)
        raise MetasymError(
            f"{path}: expected one robot, found {len(free)} free bodies: {names}",
            about=f"{path}: free bodies",
            found=len(free),
        )
    balls = [model.joint(j).name for j in range(model.njnt) if model.jnt_type[j] == int(kinds.mjJNT_BALL)]
    if balls:
        raise MetasymError(
            f"{path}: expected hinges and slides, found ball joints: {', '.join(balls)}",
            about=f"{path}: ball joints",
            found=tuple(balls),
        )
    base = free[0] if free else 0
    inertias: dict[int, Array] = {-1: np.zeros((4, 4))}
    joints: list[Joint] = []
    at: dict[int, tuple[int, Array]] = {
        base: (-1, np.eye(4))
    }  # the joint that carries a body, and its frame there
    for b in range(base, model.nbody):
        parent = int(model.body_parentid[b])
        if b != base:
            if parent not in at or b in objects:
                continue
            carrier, frame = at[parent]
            frame = frame @ pose(_rotation(model.body_quat[b]), model.body_pos[b])
            for j in _joints(model, b):
                own = pose(np.eye(3), model.jnt_pos[j])
                slide = model.jnt_type[j] == int(kinds.mjJNT_SLIDE)
                limited = bool(model.jnt_limited[j])
                lower, upper = model.jnt_range[j] if limited else (-np.inf, np.inf)
                joint = Joint(
                    name=model.joint(j).name or f"joint {j}",
                    kind=PRISMATIC if slide else REVOLUTE,
                    parent=carrier,
                    placement=frame @ own,
                    axis=np.array(model.jnt_axis[j]),
                    link=model.body(b).name or f"body {b}",
                    inertia=np.zeros((4, 4)),
                    lower=float(lower),
                    upper=float(upper),
                    rotor=float(model.dof_armature[model.jnt_dofadr[j]]),
                    stiffness=float(model.jnt_stiffness[j]),
                    spring_at=float(model.qpos_spring[model.jnt_qposadr[j]]),
                    damping=float(model.dof_damping[model.jnt_dofadr[j]]),
                    friction=float(model.dof_frictionloss[model.jnt_dofadr[j]]),
                )
                # The drawn posture is at qpos0, which need not be 0.
                back = joint_motion(joint, -float(model.qpos0[model.jnt_qposadr[j]]))
                joints.append(replace(joint, placement=joint.placement @ back))
                carrier, frame = len(joints) - 1, inverse_pose(own)
                inertias[carrier] = np.zeros((4, 4))
            at[b] = (carrier, frame)
        carrier, frame = at[b]
        turned = _rotation(model.body_iquat[b])
        usual = turned @ np.diag(model.body_inertia[b]) @ turned.T
        held = pseudo_inertia(float(model.body_mass[b]), model.body_ipos[b], usual)
        inertias[carrier] = inertias[carrier] + frame @ held @ frame.T
    notes = []
    if model.neq:
        notes.append("equality constraints of the file (closed chains, coupled joints) are ignored")
    if objects:
        names = ", ".join(model.body(b).name or f"body {b}" for b in objects)
        notes.append(f"free bodies without joints are no part of the robot: {names}")
    return Mechanism(
        path.name,
        tuple(replace(joint, inertia=inertias[i]) for i, joint in enumerate(joints)),
        model.body(base).name or "world",
        inertias[-1],
        bool(free) if floating is None else floating,
        tuple(notes),
    )


def _below(model: Any, body: int) -> list[int]:
    """The bodies that a body carries."""
    found = {body}
    for b in range(body + 1, model.nbody):  # parents come before children
        if int(model.body_parentid[b]) in found:
            found.add(b)
    return sorted(found - {body})


def _joints(model: Any, body: int, kind: int | None = None) -> list[int]:
    """The joints of a body, of one kind or all."""
    first, count = int(model.body_jntadr[body]), int(model.body_jntnum[body])
    return [j for j in range(first, first + count) if kind is None or model.jnt_type[j] == kind]


def _rotation(quaternion: Array) -> Array:
    w, x, y, z = quaternion
    found: Array = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return found
