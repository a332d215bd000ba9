"""What is known about a robot's mirrors and turns."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.robots.broken_mirrors import Break
from metasym.robots.isometries import isometry_words
from metasym.robots.matching import Candidate
from metasym.robots.mechanism import Array, Mechanism, as_floats
from metasym.robots.posture_certificate import Certificate
from metasym.types import shortened
from metasym.verdicts.verdict import Status


class Refusal(enum.StrEnum):
    """What does not fit in a mirror that geometry has; ``mirror_words`` says it in words."""

    MASSES = "masses"
    LIMITS = "limits"


@dataclass(frozen=True, eq=False)
class RobotSymmetry:
    """One mirror or turn: what it does to the base and to the joints, and how nearly the robot keeps it."""

    action: Candidate
    certificate: Certificate
    masses: tuple[Break, ...]
    """Bodies whose masses do not fit, those that matter most first."""
    limits: tuple[Break, ...]
    """Joints whose limits do not fit."""
    drives: tuple[Break, ...]
    """Joints whose rotors, springs, damping or friction do not fit; only the rotors are part of the certificate."""
    status: Status
    refused: Refusal | None = None
    """Why it is not claimed, where it is not."""

    def __repr__(self) -> str:
        return f"RobotSymmetry({self.base}, {self.status}, defect at most {self.defect_upper:.2g})"

    @property
    def breaks(self) -> tuple[Break, ...]:
        """All that breaks it: masses, then limits, then drives."""
        return (*self.masses, *self.limits, *self.drives)

    @property
    def base(self) -> str:
        """What it does to the base: ``mirror plane y = 0``."""
        return isometry_words(self.action.isometry)

    @property
    def permutation(self) -> SignedPermutation:
        """What it does to the joints, about the centre."""
        return self.action.permutation

    @property
    def defect(self) -> float:
        """Of the joint inertia, all entries together."""
        return self.certificate.together.value

    @property
    def defect_upper(self) -> float:
        """Its upper bound at 95 %."""
        return self.certificate.together.upper

    def table(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        """``{"joint", "image", "sign"}`` for every joint: the image's position becomes sign times the joint's."""
        moves = zip(names, self.action.images, self.action.signs, strict=True)
        return [{"joint": name, "image": names[j], "sign": sign} for name, j, sign in moves]

    def as_dict(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Plain types, for JSON."""
        found = self.certificate
        return {
            "base": self.base,
            "isometry": [as_floats(row) for row in self.action.isometry],
            "status": str(self.status),
            **({"refused": str(self.refused)} if self.refused else {}),
            "defect": found.together.value,
            "defect_upper": found.together.upper,
            "worst_entry": {
                "joints": list(found.worst_joints),
                "defect": found.worst.value,
                "defect_upper": found.worst.upper,
            },
            "base_defect": found.base.value,
            "base_defect_upper": found.base.upper,
            "geometry": found.geometry,
            "untested": list(found.untested),
            "offsets": as_floats(self.action.offsets),
            "table": self.table(names),
            "what_breaks_it": [one.as_dict() for one in self.breaks],
        }


@dataclass(frozen=True, eq=False)
class RobotSymmetries:
    """All mirrors and turns of a robot: ``ms.mirror("robot.urdf")``."""

    mechanism: Mechanism
    generators: tuple[RobotSymmetry, ...]
    """All others are products of these; the ones that hold best first."""
    elements: tuple[RobotSymmetry, ...]
    """Every one that was found and is claimed."""
    refused: tuple[RobotSymmetry, ...]
    """Geometry has them; masses or limits do not."""
    centre: Array
    """``[n]``: the posture that all generators keep."""
    tolerance: float
    limits: bool
    """Whether joint limits were compared."""
    postures: int
    seconds: float = field(default=0.0, compare=False)

    def __repr__(self) -> str:
        found = ", ".join(one.base for one in self.generators) or "no mirror or turn"
        return shortened(f"RobotSymmetries({self.mechanism.name}, {len(self.names)} joints: {found})")

    @property
    def status(self) -> Status:
        """Of the generator that holds best; ``none`` without one."""
        return self.generators[0].status if self.generators else Status.NONE

    @cached_property
    def group(self) -> SignedGroup:
        """What the generators generate, on the joints."""
        n = len(self.mechanism.joints)
        return SignedGroup(tuple(g.permutation for g in self.generators), (n, n))

    @property
    def names(self) -> tuple[str, ...]:
        """The joints' names."""
        return self.mechanism.names

    def on_postures(self, q: Array, generator: int = 0) -> Array:
        """The mirrored postures of ``q [..., n]``; around the centre, so that a whole turn more is none."""
        q = np.asarray(q, dtype=np.float64)
        moved: Array = self.generators[generator].permutation.on_inputs(q - self.centre) + self.centre
        return moved

    def on_velocities(self, v: Array, generator: int = 0) -> Array:
        """The mirrored joint velocities, accelerations or torques of ``v [..., n]``."""
        moved: Array = self.generators[generator].permutation.on_inputs(np.asarray(v, dtype=np.float64))
        return moved

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        return {
            "robot": self.mechanism.name,
            "joints": list(self.names),
            "base": self.mechanism.base_link,
            "floating": self.mechanism.floating,
            "status": str(self.status),
            "group": self.group.name,
            "order": self.group.order,
            "centre": as_floats(self.centre),
            "generators": [g.as_dict(self.names) for g in self.generators],
            "refused": [g.as_dict(self.names) for g in self.refused],
            "notes": list(self.mechanism.notes),
            "tolerance": self.tolerance,
            "postures": self.postures,
            "seconds": self.seconds,
        }
