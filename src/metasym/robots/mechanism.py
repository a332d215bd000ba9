"""A robot as a tree of joints with one degree of freedom, and what its bodies weigh.

A body's mass is kept as its pseudo-inertia ``[4, 4]``, the second moments of the points ``(x, y, z, 1)``: unlike the
usual inertia matrix it is carried along by mirrors as by turns, ``A J A^T``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from metasym.types import MetasymError

Array = npt.NDArray[np.float64]

REVOLUTE, PRISMATIC = "revolute", "prismatic"


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint, and the body that it moves. Fixed joints are none: their links are parts of the body."""

    name: str
    kind: str
    """``"revolute"`` or ``"prismatic"``."""
    parent: int
    """The joint that carries it; -1 for the base."""
    placement: Array
    """``[4, 4]``: its frame in the frame of its parent, where both are at 0."""
    axis: Array
    """``[3]``: a unit vector in its own frame."""
    link: str
    """The name of the body that it moves."""
    inertia: Array
    """``[4, 4]``: the body's pseudo-inertia, in the joint's frame."""
    lower: float = -np.inf
    upper: float = np.inf
    rotor: float = 0.0
    """What the drive adds to the joint's own inertia."""
    stiffness: float = 0.0
    """Of a spring that pulls it back."""
    spring_at: float = 0.0
    """The position where that spring is slack."""
    damping: float = 0.0
    friction: float = 0.0


@dataclass(frozen=True, eq=False)
class Mechanism:
    """A base and the joints that it carries, parents before children."""

    name: str
    joints: tuple[Joint, ...]
    base_link: str
    base_inertia: Array
    """``[4, 4]``, in the base's frame."""
    floating: bool
    """Whether the base moves freely, or stands on the ground."""
    notes: tuple[str, ...] = field(default=())
    """What the reader has to say about the file."""

    def __post_init__(self) -> None:
        if not self.joints:
            raise MetasymError(
                f"{self.name}: expected a robot with joints that move, found none", about=self.name, found=0
            )
        seen: set[str] = set()
        for i, joint in enumerate(self.joints):
            if joint.name in seen:
                raise MetasymError(
                    f"{self.name}: expected joints of different names, found two of {joint.name}",
                    about=f"{self.name}: joint {joint.name}",
                    found="twice",
                )
            seen.add(joint.name)
            assert -1 <= joint.parent < i, "parents come before children"

    @property
    def names(self) -> tuple[str, ...]:
        """The joints' names."""
        return tuple(joint.name for joint in self.joints)

    @cached_property
    def children(self) -> dict[int, tuple[int, ...]]:
        """The joints that each joint carries; those of the base at -1."""
        found: dict[int, list[int]] = {i: [] for i in range(-1, len(self.joints))}
        for i, joint in enumerate(self.joints):
            found[joint.parent].append(i)
        return {i: tuple(children) for i, children in found.items()}

    @cached_property
    def above(self) -> npt.NDArray[np.bool_]:
        """``[n, n]``: whether joint i carries joint k, or is it."""
        found = np.eye(len(self.joints), dtype=bool)
        for k, joint in enumerate(self.joints):
            if joint.parent >= 0:
                found[:, k] |= found[:, joint.parent]
        return found

    @cached_property
    def rest_frames(self) -> Array:
        """``[n, 4, 4]``: the joints' frames in the base's frame, all joints at 0."""
        found = np.empty((len(self.joints), 4, 4))
        for i, joint in enumerate(self.joints):
            found[i] = joint.placement if joint.parent < 0 else found[joint.parent] @ joint.placement
        return found

    @cached_property
    def size(self) -> float:
        """How far the robot reaches: the largest distance between two joints at 0, at least 1 cm."""
        points = np.concatenate([np.zeros((1, 3)), self.rest_frames[:, :3, 3]])
        return float(max(np.linalg.norm(points[:, None] - points[None], axis=-1).max(), 0.01))

    @cached_property
    def mass(self) -> float:
        """The mass of all that moves."""
        own = sum(float(joint.inertia[3, 3]) for joint in self.joints)
        return own + (float(self.base_inertia[3, 3]) if self.floating else 0.0)


def pose(rotation: npt.ArrayLike, translation: npt.ArrayLike) -> Array:
    """``[4, 4]``: turn, then move."""
    found = np.eye(4)
    found[:3, :3], found[:3, 3] = rotation, translation
    return found


def inverse_pose(frame: Array) -> Array:
    """The inverse of an isometry ``[4, 4]``."""
    return pose(frame[:3, :3].T, -frame[:3, :3].T @ frame[:3, 3])


def pseudo_inertia(mass: float, centre: npt.ArrayLike, about_centre: npt.ArrayLike) -> Array:
    """From the mass, the centre of mass ``[3]`` and the usual inertia matrix ``[3, 3]`` about it."""
    usual, c = np.asarray(about_centre, dtype=np.float64), np.asarray(centre, dtype=np.float64)
    found = np.empty((4, 4))
    found[:3, :3] = np.trace(usual) / 2 * np.eye(3) - usual + mass * np.outer(c, c)
    found[:3, 3] = found[3, :3] = mass * c
    found[3, 3] = mass
    return found


def centre_of_mass(inertia: Array) -> Array:
    """``[3]``; 0 for a body without mass."""
    centre: Array = inertia[:3, 3] / inertia[3, 3] if inertia[3, 3] > 0 else np.zeros(3)
    return centre


def about_centre(inertia: Array) -> Array:
    """``[3, 3]``: the usual inertia matrix about the centre of mass."""
    c = centre_of_mass(inertia)
    second = inertia[:3, :3] - inertia[3, 3] * np.outer(c, c)
    usual: Array = np.trace(second) * np.eye(3) - second
    return usual


def rotation_about(axis: Array, angles: npt.ArrayLike) -> Array:
    """``[..., 3, 3]``: turns by the angles ``[...]`` about a unit vector ``[3]``."""
    angle = np.asarray(angles, dtype=np.float64)[..., None, None]
    k = cross_matrix(axis)
    found: Array = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)
    return found


def cross_matrix(v: Array) -> Array:
    """``[..., 3, 3]``: what takes w to ``v x w``, for ``v [..., 3]``."""
    found = np.zeros((*v.shape, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        found[..., k, j], found[..., j, k] = v[..., i], -v[..., i]
    return found


def joint_motion(joint: Joint, q: npt.ArrayLike) -> Array:
    """``[..., 4, 4]``: what the joint does at the positions ``q [...]``."""
    at = np.asarray(q, dtype=np.float64)
    found = np.zeros((*at.shape, 4, 4))
    found[..., range(4), range(4)] = 1.0
    if joint.kind == REVOLUTE:
        found[..., :3, :3] = rotation_about(joint.axis, at)
    else:
        found[..., :3, 3] = at[..., None] * joint.axis
    return found


def as_floats(values: Any) -> list[float]:
    """Plain numbers, for JSON."""
    return [float(v) for v in values]
