"""Which joint a mirror or turn of the base takes to which, with which sign and about which rest pose.

An isometry A of the base takes joint i to joint j where it takes the axis of i to that of j: of a revolute joint only
the line counts, of a prismatic one only the direction. Then the body of i is taken to the body of j by
``A_i = motion(j, -o) X_j^-1 A X_i`` at every posture, where X are the placements and the joint's position goes to
``sign q + o``. The offset o is open as far as joint and body may be turned about the axis: what the body carries
decides it, else what it weighs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import linear_sum_assignment

from metasym.groups.signed_permutations import SignedPermutation
from metasym.robots.mechanism import (
    REVOLUTE,
    Array,
    Mechanism,
    centre_of_mass,
    inverse_pose,
    joint_motion,
)
from metasym.robots.mirror_thresholds import CANDIDATES

_WEIGHED = 0.05
"""What an offset costs that only the body's mass asks for."""
_IMPOSSIBLE = 1e6
"""The cost of a pair of joints that do not match."""
_VISITS = 300
"""So many pairs of joints are examined for other offsets; after that the first that fits is taken."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """An isometry of the base and what it does to the joints: position ``q_i`` goes to ``sign_i q_i + offset_i``."""

    isometry: Array
    """``[4, 4]``, on the base."""
    images: tuple[int, ...]
    """Joint i goes to joint ``images[i]``."""
    signs: tuple[int, ...]
    offsets: Array
    """``[n]``: of the image's position, for each joint."""
    bodies: Array
    """``[n, 4, 4]``: takes the body of joint i, in its frame, to that of its image, in its frame."""
    cost: float

    @cached_property
    def permutation(self) -> SignedPermutation:
        """On the joints' positions (inputs) and torques (outputs)."""
        return SignedPermutation(self.images, self.images, self.signs, self.signs)

    def on_postures(self, q: Array) -> Array:
        """``g q`` for ``q [..., n]``."""
        moved: Array = np.empty_like(q)
        moved[..., list(self.images)] = q * np.array(self.signs) + self.offsets
        return moved

    @property
    def mirrors(self) -> bool:
        """Whether left and right change sides."""
        return bool(np.linalg.det(self.isometry[:3, :3]) < 0)


@dataclass(frozen=True)
class _Pair:
    """Joint i and all that it carries, taken to joint j."""

    cost: float
    moves: tuple[tuple[int, int, int, float, Array], ...]
    """i, j, sign, offset, what takes body to body."""


@dataclass(frozen=True)
class _Placed:
    """How a joint's axis lands on another's."""

    b: Array
    """``[4, 4]``: from the frame of one to the frame of the other, both at 0."""
    sign: int
    cost: float


class Matcher:
    """Finds what isometries of the base do to the joints of one mechanism."""

    def __init__(self, mechanism: Mechanism, only: SignedPermutation | None = None) -> None:
        self.mechanism = mechanism
        self.only = only
        """If given, joints go to these images with these signs, or not at all."""
        self._limit = CANDIDATES.geometry * mechanism.size
        self._left = 0
        shapes: dict[int, object] = {}
        for i in range(len(mechanism.joints) - 1, -1, -1):
            below = sorted((shapes[c] for c in mechanism.children[i]), key=repr)
            shapes[i] = (mechanism.joints[i].kind, *below)
        known: dict[object, int] = {}
        self._shape = [known.setdefault(shapes[i], len(known)) for i in range(len(mechanism.joints))]
        self._back = [inverse_pose(joint.placement) for joint in mechanism.joints]

    def match(self, isometry: Array) -> Candidate | None:
        """What the isometry does to the joints; None where it takes some axis to no axis."""
        self._left = _VISITS
        found = self._children(-1, -1, isometry, _IMPOSSIBLE)
        if found is None:
            return None
        n = len(self.mechanism.joints)
        images, signs, offsets, bodies = [0] * n, [1] * n, np.zeros(n), np.empty((n, 4, 4))
        for i, j, sign, offset, body in found.moves:
            images[i], signs[i], offsets[i], bodies[i] = j, sign, offset, body
        cost = found.cost
        if self.mechanism.floating:
            cost += mass_distance(self.mechanism.base_inertia, self.mechanism.base_inertia, isometry)
        return Candidate(isometry, tuple(images), tuple(signs), offsets, bodies, cost)

    def _children(self, i: int, j: int, a: Array, limit: float) -> _Pair | None:
        """The best way to take the joints on body i to those on body j, if cheaper than ``limit``; -1 is the base."""
        mine, theirs = self.mechanism.children[i], self.mechanism.children[j]
        if len(mine) != len(theirs):
            return None
        if not mine:
            return _Pair(0.0, ())
        placed = [[self._axis(c, d, a) for d in theirs] for c in mine]
        if not all(map(any, placed)) or not all(map(any, zip(*placed, strict=True))):
            return None
        pairs = [
            [None if at is None else self._joint(c, d, at, limit) for d, at in zip(theirs, row, strict=True)]
            for c, row in zip(mine, placed, strict=True)
        ]
        if len(mine) == 1:
            return pairs[0][0]
        costs = np.array([[_IMPOSSIBLE if p is None else p.cost for p in row] for row in pairs])
        chosen = [pairs[r][c] for r, c in zip(*linear_sum_assignment(costs), strict=True)]
        kept = [p for p in chosen if p is not None]
        if len(kept) < len(chosen):
            return None
        return _Pair(sum(p.cost for p in kept), tuple(m for p in kept for m in p.moves))

    def _axis(self, i: int, j: int, a: Array) -> _Placed | None:
        """How joint i lands on joint j where their parents' bodies are taken to each other by ``a``; None if not."""
        mine, theirs = self.mechanism.joints[i], self.mechanism.joints[j]
        if self._shape[i] != self._shape[j]:
            return None
        b = self._back[j] @ a @ mine.placement
        along = float(b[:3, :3] @ mine.axis @ theirs.axis)
        off = math.acos(min(1.0, abs(along)))
        if off > CANDIDATES.geometry:
            return None
        sign = 1 if along > 0 else -1
        if mine.kind == REVOLUTE:
            sign *= 1 if np.linalg.det(b[:3, :3]) > 0 else -1
            aside = _length(_across(b[:3, 3], theirs.axis))
            if aside > self._limit:
                return None
            off += aside / self.mechanism.size
        if self.only is not None and (self.only.inputs[i], self.only.input_signs[i]) != (j, sign):
            return None
        return _Placed(b, sign, off / CANDIDATES.geometry)

    def _joint(self, i: int, j: int, at: _Placed, limit: float) -> _Pair | None:
        """Joint i and all that it carries taken to joint j, if cheaper than ``limit``."""
        mine, theirs = self.mechanism.joints[i], self.mechanism.joints[j]
        tried = []
        for offset, price in self._offsets(i, j, at.b):
            if i == j and at.sign > 0 and offset:
                continue  # q + o: no position stays where it is
            body = joint_motion(theirs, -offset) @ at.b
            own = at.cost + mass_distance(mine.inertia, theirs.inertia, body) + price
            tried.append((own, offset, body))
        best: _Pair | None = None
        for own, offset, body in sorted(tried, key=lambda one: one[0]):
            most = limit if best is None else best.cost
            if own >= most or (best is not None and self._left <= 0):
                break
            self._left -= 1
            below = self._children(i, j, body, most - own)
            if below is not None and own + below.cost < most:
                best = _Pair(own + below.cost, ((i, j, at.sign, offset, body), *below.moves))
        return best

    def _offsets(self, i: int, j: int, b: Array) -> list[tuple[float, float]]:
        """Offsets of j's position that could fit, each with what it costs beside 0."""
        mine, theirs = self.mechanism.joints[i], self.mechanism.joints[j]
        centres = b[:3, :3] @ centre_of_mass(mine.inertia) + b[:3, 3], centre_of_mass(theirs.inertia)
        found = [0.0]
        if mine.kind != REVOLUTE:
            # A slide that is drawn at another place: its load determines by how much, else its centre of mass.
            for c in self.mechanism.children[i]:
                at = (b @ self.mechanism.joints[c].placement)[:3, 3]
                others = [self.mechanism.joints[d].placement[:3, 3] for d in self.mechanism.children[j]]
                found += [float((at - other) @ theirs.axis) for other in others]
            weighed = [float((centres[0] - centres[1]) @ theirs.axis)]
            least = near = self._limit
        else:
            for c in self.mechanism.children[i]:
                frame = b @ self.mechanism.joints[c].placement
                axis = frame[:3, :3] @ self.mechanism.joints[c].axis
                for d in self.mechanism.children[j]:
                    other = self.mechanism.joints[d]
                    found += _angles(frame[:3, 3], other.placement[:3, 3], theirs.axis, self._limit)
                    turn = _angles(axis, other.placement[:3, :3] @ other.axis, theirs.axis, 0.1)
                    found += [*turn, *(t + math.pi for t in turn)]
            least, near = CANDIDATES.snapped, CANDIDATES.snapped_by_mass
            found = [_snapped(o, least) for o in (*found, math.pi, math.pi / 2, -math.pi / 2)]
            weighed = [_snapped(o, near) for o in _angles(*centres, theirs.axis, 0.1 * self._limit)]
        # Masses are often wrong by a little: an odd offset that only they suggest has to fit them well.
        found = _apart(found, least)
        for o in weighed:
            apart = mass_distance(mine.inertia, theirs.inertia, joint_motion(theirs, -o) @ b)
            if apart < CANDIDATES.same_mass and all(abs(o - other) > near for other in found):
                found.append(o)
        return [(o, _WEIGHED if o else 0.0) for o in found]


def mass_distance(mine: Array, theirs: Array, a: Array) -> float:
    """How far the masses of two bodies are apart when ``a`` takes one to the other: 0 alike, 1 unrelated or worse."""
    moved = a @ mine @ a.T
    larger = max(float(moved[3, 3]), float(theirs[3, 3]))
    if larger <= 0:
        return 0.0
    reach = math.sqrt(max(float(np.trace(moved[:3, :3])), float(np.trace(theirs[:3, :3])), 1e-12) / larger)
    scale = np.array([1 / reach, 1 / reach, 1 / reach, 1.0])
    apart = (moved - theirs) * np.outer(scale, scale) / larger
    return min(1.0, float(np.linalg.norm(apart)))


def _across(v: Array, axis: Array) -> Array:
    """The part of v that is orthogonal to the axis."""
    part: Array = v - axis * float(v @ axis)
    return part


def _angles(v: Array, w: Array, axis: Array, least: float) -> list[float]:
    """The turn about the axis that takes w to v, where both are off it."""
    p, r = _across(v, axis), _across(w, axis)
    if min(_length(p), _length(r)) <= least:
        return []
    across = (r[1] * p[2] - r[2] * p[1], r[2] * p[0] - r[0] * p[2], r[0] * p[1] - r[1] * p[0])
    return [math.atan2(float(axis @ across), float(r @ p))]


def _length(v: Array) -> float:
    return math.sqrt(float(v @ v))


def _snapped(angle: float, near: float) -> float:
    """Between -pi and pi; quarter turns exact."""
    wrapped = math.remainder(angle, 2 * math.pi)
    quarter = round(wrapped / (math.pi / 2)) * (math.pi / 2)
    found = quarter if abs(wrapped - quarter) < near else wrapped
    return math.pi if found <= -math.pi + near else found


def _apart(values: list[float], least: float) -> list[float]:
    """The values without repetitions, in their order."""
    kept: list[float] = []
    for v in values:
        if all(abs(v - other) > least for other in kept):
            kept.append(v)
    return kept
