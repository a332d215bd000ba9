"""What a mechanism does at given postures: frames, joint inertia, gravity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from metasym.robots.mechanism import REVOLUTE, Array, Mechanism, cross_matrix, joint_motion

GRAVITY = np.array([0.0, 0.0, -1.0])
"""The direction in which things fall, in the frame of a base that stands on the ground."""


@dataclass(frozen=True, eq=False)
class Dynamics:
    """A mechanism at some postures, all in the base's frame. Vectors of six are angular, then linear."""

    origins: Array
    """``[P, n, 3]``: where the joints are."""
    axes: Array
    """``[P, n, 3]``: their axes."""
    joints: Array
    """``[P, n, n]``: the joint inertia for a base that does not move."""
    momenta: Array
    """``[P, n, 6]``: the momentum about the base's origin that a unit velocity of a joint gives."""
    whole: Array
    """``[P, 6, 6]``: the inertia of the robot as one rigid body."""

    @property
    def free(self) -> Array:
        """``[P, n, n]``: the joint inertia with a free base eliminated."""
        back = self.momenta.transpose(0, 2, 1)
        try:
            moved = np.linalg.solve(self.whole, back)
        except np.linalg.LinAlgError:  # all mass in one line: about that, nothing resists
            moved = np.linalg.pinv(self.whole, hermitian=True) @ back
        onto: Array = self.joints - self.momenta @ moved
        return onto

    @property
    def gravity(self) -> Array:
        """``[P, n]``: the torques of a weight of 1 a unit of mass."""
        torques: Array = -self.momenta[..., 3:] @ GRAVITY
        return torques


def dynamics(mechanism: Mechanism, q: Array) -> Dynamics:
    """The mechanism at the postures ``q [P, n]``."""
    count, n = q.shape
    frames = frames_at(mechanism, q)
    axes = np.stack([frames[:, i, :3, :3] @ joint.axis for i, joint in enumerate(mechanism.joints)], axis=1)
    origins = frames[:, :, :3, 3]
    revolute = np.array([joint.kind == REVOLUTE for joint in mechanism.joints])[None, :, None]
    motions = np.concatenate(
        [np.where(revolute, axes, 0.0), np.where(revolute, np.cross(origins, axes), axes)], axis=-1
    )
    carried = np.empty((count, n, 4, 4))
    for i, joint in enumerate(mechanism.joints):
        carried[:, i] = frames[:, i] @ joint.inertia @ frames[:, i].transpose(0, 2, 1)
    whole = np.broadcast_to(mechanism.base_inertia, (count, 4, 4)).copy()
    for i in range(n - 1, -1, -1):
        parent = mechanism.joints[i].parent
        (whole if parent < 0 else carried[:, parent])[...] += carried[:, i]
    momenta = (_spatial(carried) @ motions[..., None])[..., 0]
    upper = motions @ momenta.transpose(0, 2, 1) * mechanism.above  # joint i carries joint k
    joints = upper + np.triu(upper, 1).transpose(0, 2, 1)
    joints += np.diag([joint.rotor for joint in mechanism.joints])
    return Dynamics(origins, axes, joints, momenta, _spatial(whole))


def frames_at(mechanism: Mechanism, q: Array) -> Array:
    """``[P, n, 4, 4]``: the joints' frames at the postures ``q [P, n]``, in the base's frame."""
    found = np.empty((*q.shape, 4, 4))
    for i, joint in enumerate(mechanism.joints):
        own = joint.placement @ joint_motion(joint, q[:, i])
        found[:, i] = own if joint.parent < 0 else found[:, joint.parent] @ own
    return found


def _spatial(pseudo: Array) -> Array:
    """``[..., 6, 6]``: momentum by velocity, for pseudo-inertias ``[..., 4, 4]``."""
    found = np.zeros((*pseudo.shape[:-2], 6, 6))
    second, moment, mass = pseudo[..., :3, :3], cross_matrix(pseudo[..., :3, 3]), pseudo[..., 3, 3]
    trace = np.trace(second, axis1=-2, axis2=-1)
    found[..., :3, :3] = trace[..., None, None] * np.eye(3) - second
    found[..., :3, 3:], found[..., 3:, :3] = moment, -moment
    found[..., 3:, 3:] = mass[..., None, None] * np.eye(3)
    return found
