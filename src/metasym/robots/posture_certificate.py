"""Does a mechanism do the same after a mirror or turn? Measured at fresh postures, with bounds.

What is compared is the joint inertia ``M(g q) = g M(q) g^T``, with a free base eliminated: all entries together, and
each on the scale of its own two joints, since a gripper weighs nothing compared with a leg. The base's part is
compared by itself: the momentum that the joints give to a free base, or the torques of gravity where the base stands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import t as student

from metasym.groups.signed_permutations import SignedPermutation
from metasym.robots.dynamics import Dynamics, dynamics
from metasym.robots.matching import Candidate
from metasym.robots.mechanism import REVOLUTE, Array, Mechanism, cross_matrix
from metasym.robots.mirror_thresholds import CERTIFICATE

POSTURES = 128
"""The default of ``--postures``: the bounds of exact mirrors do not depend on it."""
_ROUNDING = 1e-13
"""A bound is never below this."""


@dataclass(frozen=True)
class Defect:
    """A relative root mean square over postures, and its upper bound at 95 %."""

    value: float
    upper: float


@dataclass(frozen=True)
class Certificate:
    """How far a mechanism is from itself after a mirror or turn."""

    together: Defect
    """Of all entries of the joint inertia."""
    worst: Defect
    """Of the worst entry, on the scale of its own joints."""
    worst_joints: tuple[str, str]
    """The joints of that entry."""
    base: Defect
    """Of the momentum that joints give to a free base; of gravity's torques where the base stands."""
    geometry: float
    """How far axes are from where they should be: in parts of the robot's size, or radians; the worst joint."""
    worst_axis: str
    """That joint."""
    untested: tuple[str, ...]
    """Joints that move no mass: nothing but geometry can say something about them."""

    nothing_tested: bool = False
    """Whether no joint moves any mass: then there is no certificate."""

    @property
    def upper(self) -> float:
        """The largest of the three bounds."""
        return max(self.together.upper, self.worst.upper, self.base.upper)


class Postures:
    """Random postures of a mechanism, and what it does there."""

    def __init__(self, mechanism: Mechanism, seed: int = 0, count: int = POSTURES) -> None:
        self.mechanism = mechanism
        self.q = draw_postures(mechanism, np.random.default_rng(seed), count)
        self.here = dynamics(mechanism, self.q)
        self.inertia = _inertia(mechanism, self.here)
        # Angles as lengths at the robot's reach: hinges and slides in one unit.
        self._units = np.array([1 / mechanism.size if j.kind == REVOLUTE else 1.0 for j in mechanism.joints])

    def certify(self, candidate: Candidate) -> Certificate:
        """How far the mechanism is from itself after the candidate."""
        mechanism, here = self.mechanism, self.here
        there = dynamics(mechanism, candidate.on_postures(self.q))
        together, worst, joints, untested = self._compared(there, candidate.images, candidate.signs)
        geometry = _geometry(mechanism, candidate, here, there)
        axis = int(geometry.argmax())
        return Certificate(
            together,
            worst,
            joints,
            _defect(*_base(mechanism, candidate, here, there)),
            float(geometry[axis]),
            mechanism.names[axis],
            untested,
            len(untested) == len(mechanism.joints),
        )

    def inertia_defect(
        self, g: SignedPermutation, centre: Array
    ) -> tuple[Defect, Defect, tuple[str, str], tuple[str, ...]]:
        """Of a signed permutation about a centre: of all entries, of the worst, its joints, and untested joints."""
        there = dynamics(self.mechanism, g.on_inputs(self.q - centre) + centre)
        return self._compared(there, g.inputs, g.input_signs)

    def _compared(
        self, there: Dynamics, onto: tuple[int, ...], with_signs: tuple[int, ...]
    ) -> tuple[Defect, Defect, tuple[str, str], tuple[str, ...]]:
        images, signs = list(onto), np.array(with_signs, dtype=np.float64)
        before, after = self.inertia, _inertia(self.mechanism, there)[:, images][:, :, images]
        apart = (after * np.outer(signs, signs) - before) ** 2
        own = before.diagonal(axis1=1, axis2=2) ** 2
        larger = own.mean(0)[images] > own.mean(0)
        own = np.where(larger, own[:, images], own)  # of a joint and its image the one that moves more mass
        power = own.mean(0)
        scale = np.sqrt(np.outer(power, power))
        tested = scale > 1e-18 * max(scale.max(), np.finfo(float).tiny)
        parts = own / np.maximum(power, np.finfo(float).tiny)
        size = (
            scale * (parts[:, :, None] + parts[:, None, :]) / 2
        )  # how the scale itself varies, to first order
        ratio, upper = relative(np.where(tested, apart, 0.0), np.where(tested, size, 1.0))
        at = np.unravel_index(int(upper.argmax()), upper.shape)
        units = np.outer(self._units, self._units) ** 2
        together = _defect(*relative((apart * units).sum((1, 2)), (before**2 * units).sum((1, 2))))
        names = self.mechanism.names
        untested = tuple(name for name, seen in zip(names, tested.diagonal(), strict=True) if not seen)
        return together, _defect(ratio[at], upper[at]), (names[at[0]], names[at[1]]), untested


def draw_postures(mechanism: Mechanism, draw: np.random.Generator, count: int) -> Array:
    """``[count, n]``: angles all around, slides over their range, or a tenth of the robot's size."""
    reach = []
    for joint in mechanism.joints:
        ends = max(abs(joint.lower), abs(joint.upper))
        slide = ends if 0 < ends < mechanism.size else 0.1 * mechanism.size
        reach.append(np.pi if joint.kind == REVOLUTE else slide)
    drawn: Array = draw.uniform(-1, 1, (count, len(reach))) * reach
    return drawn


def relative(apart: Array, size: Array) -> tuple[Array, Array]:
    """The root of the ratio of two means over postures ``[postures, ...]``, and its upper bound at 95 %."""
    count = len(apart)
    mean = np.maximum(size.mean(0), np.finfo(float).tiny)
    ratio = apart.mean(0) / mean
    spread = (apart - ratio * size).std(0, ddof=1) / (mean * np.sqrt(count))
    return np.sqrt(ratio), np.sqrt(ratio + float(student.ppf(CERTIFICATE.level, count - 1)) * spread)


def _defect(value: npt.ArrayLike, upper: npt.ArrayLike) -> Defect:
    return Defect(float(np.asarray(value)), max(_ROUNDING, float(np.asarray(upper))))


def _inertia(mechanism: Mechanism, at: Dynamics) -> Array:
    return at.free if mechanism.floating and mechanism.mass > 0 else at.joints


def _base(mechanism: Mechanism, candidate: Candidate, here: Dynamics, there: Dynamics) -> tuple[Array, Array]:
    images, signs = list(candidate.images), np.array(candidate.signs, dtype=np.float64)
    if not mechanism.floating:
        apart = there.gravity[:, images] * signs - here.gravity
        return relative((apart**2).sum(1), (here.gravity**2).sum(1))
    linear, translation = candidate.isometry[:3, :3], candidate.isometry[:3, 3]
    carry = np.zeros((6, 6))  # what the isometry does to momentum: its angular part is an axial vector
    carry[:3, :3] = np.linalg.det(linear) * linear
    carry[:3, 3:] = cross_matrix(translation) @ linear
    carry[3:, 3:] = linear
    joints = there.momenta[:, images] * signs[:, None] - here.momenta @ carry.T
    whole = there.whole - carry @ here.whole @ carry.T
    units = np.array([1 / mechanism.size] * 3 + [1.0] * 3)  # kilograms and metres become one unit
    apart = ((joints * units) ** 2).sum((1, 2)) + ((whole * np.outer(units, units)) ** 2).sum((1, 2))
    size = ((here.momenta * units) ** 2).sum((1, 2)) + ((here.whole * np.outer(units, units)) ** 2).sum(
        (1, 2)
    )
    return relative(apart, size)


def _geometry(mechanism: Mechanism, candidate: Candidate, here: Dynamics, there: Dynamics) -> Array:
    """``[n]``: how far each joint's axis lands from its image's, root mean square over postures."""
    linear, translation = candidate.isometry[:3, :3], candidate.isometry[:3, 3]
    images = list(candidate.images)
    axes = there.axes[:, images]
    turned = here.axes @ linear.T
    angle = np.linalg.norm(np.cross(turned, axes), axis=-1)
    away = here.origins @ linear.T + translation - there.origins[:, images]
    aside = np.linalg.norm(away - axes * (away * axes).sum(-1, keepdims=True), axis=-1) / mechanism.size
    revolute = np.array([joint.kind == REVOLUTE for joint in mechanism.joints])
    found: Array = np.sqrt((angle**2 + np.where(revolute, aside, 0.0) ** 2).mean(0))
    return found
