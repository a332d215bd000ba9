"""Mirrors and turns of the base: which a robot could have, and what they are called."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from metasym.robots.dynamics import GRAVITY
from metasym.robots.mechanism import Array, Mechanism, centre_of_mass, pose, rotation_about
from metasym.robots.mirror_thresholds import CANDIDATES

_MOST_DIRECTIONS = 60
"""Directions of mirrors and axes that are tried."""
_MOST_TURNS = 12
"""Orders of turns up to which they are tried, and directions of their axes."""
_NO_TURN = 0.1
"""Degrees that words leave out: such a turn is none, or a half turn."""
_NO_DISTANCE = 5e-5
"""Metres that words leave out."""


def candidate_isometries(mechanism: Mechanism) -> Iterator[Array]:
    """Mirrors and turns ``[4, 4]`` of the base that its joints suggest, those along the base's axes first.

    A plane or an axis may lie anywhere: through the base's origin, amid the joints that the base carries, through
    its centre of mass. A base on the ground keeps what keeps the vertical.
    """
    centres = _centres(mechanism)
    turns = _orders(mechanism)
    seen: Array = np.empty((0, 4, 4))
    for linear in _linear_parts(_directions(mechanism), turns):
        if not mechanism.floating and np.abs(linear @ GRAVITY - GRAVITY).max() > CANDIDATES.same_direction:
            continue
        for centre in centres:
            one = pose(linear, centre - linear @ centre)
            if not (
                np.abs(seen - one).max((1, 2), initial=0.0)
                < CANDIDATES.same_direction * min(mechanism.size, 1.0)
            ).any():
                seen = np.concatenate([seen, one[None]])
                yield one


def _linear_parts(directions: list[Array], turns: list[int]) -> Iterator[Array]:
    for d in directions:
        yield np.eye(3) - 2 * np.outer(d, d)
    for d in directions:
        yield 2 * np.outer(d, d) - np.eye(3)
    for order in turns:
        for d in directions[:_MOST_TURNS]:
            yield rotation_about(d, 2 * math.pi / order)
    yield -np.eye(3)


def _directions(mechanism: Mechanism) -> list[Array]:
    """Normals of planes and axes of turns: the base's axes, and what the joints on it suggest."""
    frames = mechanism.rest_frames
    first = mechanism.children[-1]
    points = frames[list(first), :3, 3]
    found = list(np.eye(3))
    if len(points) > 2:
        found += list(np.linalg.svd(points - points.mean(0))[2])
    axes = [frames[i, :3, :3] @ joint.axis for i, joint in enumerate(mechanism.joints)]
    carried = mechanism.above.sum(1)  # a limb is taken to one with as many joints
    alike = [(a, b) for k, a in enumerate(first) for b in first[:k] if carried[a] == carried[b]]
    found += [frames[a, :3, 3] - frames[b, :3, 3] for a, b in alike]
    found += [axes[i] for i in first]
    found += [axes[a] + sign * axes[b] for a, b in alike for sign in (1, -1)]
    # Limbs may hang on a chain, not on the base: at rest the plane stands between two that are alike there too.
    farther = [
        (a, b)
        for i, below in mechanism.children.items()
        if i >= 0
        for k, a in enumerate(below)
        for b in below[:k]
        if carried[a] == carried[b]
    ]
    found += [frames[a, :3, 3] - frames[b, :3, 3] for a, b in farther]
    if not mechanism.floating:  # the plane of an arm may stand anywhere above the ground
        found += axes + [np.cross(axis, GRAVITY) for axis in axes]
    kept: list[Array] = []
    for v in found:
        length = float(np.linalg.norm(v))
        if length < 1e-6:
            continue
        d = v / length
        if all(abs(float(d @ other)) < math.cos(CANDIDATES.same_direction) for other in kept):
            kept.append(d)
    return kept[:_MOST_DIRECTIONS]


def _centres(mechanism: Mechanism) -> list[Array]:
    points = mechanism.rest_frames[list(mechanism.children[-1]), :3, 3]
    found = [np.zeros(3), points.mean(0)]
    if mechanism.floating:
        found.append(centre_of_mass(mechanism.base_inertia))
    return found


def _orders(mechanism: Mechanism) -> list[int]:
    """Orders of turns, above 2, that the number of like limbs allows."""
    limbs = len(mechanism.children[-1])
    return [k for k in range(3, min(limbs, _MOST_TURNS) + 1) if any(n % k == 0 for n in (limbs, limbs - 1))]


def isometry_words(isometry: Array) -> str:
    """``mirror plane y = 0``, ``half turn about z``, ``turn by 120 degrees about z``."""
    linear, translation = isometry[:3, :3], isometry[:3, 3]
    if np.linalg.det(linear) < 0:
        values, vectors = np.linalg.eigh((linear + linear.T) / 2)
        if values[1] > 0.5:
            normal = _upwards(vectors[:, 0])
            return f"mirror plane {_plane(normal, float(normal @ translation) / 2)}"
        if values[2] < -0.5:
            return "reflection of all three axes"
        axis = _upwards(vectors[:, 0])
        turned = math.degrees(math.acos(float(np.clip((np.trace(linear) + 1) / 2, -1, 1))))
        return f"turn by {turned:.3g} degrees about {_axis(axis)}, mirrored along it"
    angle = math.degrees(math.acos(float(np.clip((np.trace(linear) - 1) / 2, -1, 1))))
    if angle < _NO_TURN:
        return "the base as it is"
    axis = _upwards(np.linalg.svd(linear - np.eye(3))[2][2])
    return (
        f"half turn about {_axis(axis)}"
        if angle > 180 - _NO_TURN
        else f"turn by {angle:.3g} degrees about {_axis(axis)}"
    )


def _upwards(v: Array) -> Array:
    """The direction with its largest part positive."""
    signed: Array = v * (1.0 if v[np.abs(v).argmax()] > 0 else -1.0)
    return signed


def _axis(d: Array) -> str:
    largest = int(np.abs(d).argmax())
    return (
        "xyz"[largest]
        if d[largest] > 1 - CANDIDATES.same_direction**2
        else f"({', '.join(f'{v:.3g}' for v in d + 0.0)})"
    )


def _plane(normal: Array, distance: float) -> str:
    named = _axis(normal)
    at = f"{distance:.3g}" if abs(distance) > _NO_DISTANCE else "0"
    return (
        f"{named} = {at}" if len(named) == 1 else f"with normal {named}" + ("" if at == "0" else f" at {at}")
    )
