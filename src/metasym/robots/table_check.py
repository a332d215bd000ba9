"""Whether a table written by hand is right, and if not, which joints and signs are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metasym.argument_types import checked
from metasym.groups.signed_permutations import SignedPermutation
from metasym.robots.broken_mirrors import Break
from metasym.robots.centres import common_centre
from metasym.robots.finding_mirrors import judged
from metasym.robots.isometries import candidate_isometries
from metasym.robots.joint_tables import JointTable, as_permutation
from metasym.robots.matching import Matcher
from metasym.robots.mirror_thresholds import CERTIFICATE
from metasym.robots.posture_certificate import Defect, Postures
from metasym.robots.robot_symmetries import Refusal, RobotSymmetries, RobotSymmetry
from metasym.types import MetasymError
from metasym.verdicts.verdict import Status

_MOST_ELEMENTS = 500
"""Elements of a group that a table is compared with."""


@dataclass(frozen=True)
class WrongEntry:
    """An entry of a table that is not what the robot has."""

    joint: str
    image: str
    sign: int
    """As the table says."""
    right_image: str
    right_sign: int

    @property
    def text(self) -> str:
        """One line about it."""
        if self.image == self.right_image:
            return f"{self.joint}: the sign must be {self.right_sign:+d}, found {self.sign:+d}"
        wanted = f"{self.right_image} with {self.right_sign:+d}"
        return f"{self.joint}: the image must be {wanted}, found {self.image} with {self.sign:+d}"


@dataclass(frozen=True)
class TableCheck:
    """What a robot says about a table."""

    status: Status
    """Certified: right. Certified approximately: right, as far as the file's masses and limits are. None: wrong."""
    wrong: tuple[WrongEntry, ...]
    """Where it differs from the nearest table that is claimed of the robot; empty where none is."""
    nearest: str
    """What the table does to the base, or the nearest right one where entries are wrong; empty if not known."""
    together: Defect
    """Of the table itself."""
    worst: Defect
    worst_joints: tuple[str, str]
    base_defect: Defect | None = None
    """Of the base's part; None where no mirror or turn of the base fits the axes: then only the joint inertia
    was compared."""
    breaks: tuple[Break, ...] = ()
    """What breaks a table that is right by geometry."""
    refused: Refusal | None = None
    """Why such a table is not claimed, where it is not."""

    @property
    def right(self) -> bool:
        """Whether the table is one of the robot's symmetries."""
        return self.status != Status.NONE

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
        base = self.base_defect
        return {
            "right": self.right,
            "status": str(self.status),
            "nearest": self.nearest,
            "wrong": [
                {
                    "joint": w.joint,
                    "image": w.image,
                    "sign": w.sign,
                    "right_image": w.right_image,
                    "right_sign": w.right_sign,
                }
                for w in self.wrong
            ],
            "defect": self.together.value,
            "defect_upper": self.together.upper,
            "worst_entry": {
                "joints": list(self.worst_joints),
                "defect": self.worst.value,
                "defect_upper": self.worst.upper,
            },
            **({"base_defect": base.value, "base_defect_upper": base.upper} if base else {}),
            **({"refused": str(self.refused)} if self.refused else {}),
            "what_breaks_it": [one.as_dict() for one in self.breaks],
        }


@checked
def check_table(found: RobotSymmetries, table: JointTable, *, seed: int = 1) -> TableCheck:
    """Compare a joint table with a robot: the table's own certificate decides whether it is right.

    Args:
        found: What :func:`metasym.mirror` found: all products of its generators, and what it refused.
        table: The table to check. Joints that it does not name move as in a symmetry of the robot that agrees
            with it, or else not at all.
        seed: Seed of the postures.

    Returns:
        Whether the table is right; if not, and the robot has symmetries, which joints and signs are wrong.
    """
    if all(joint == image and sign > 0 for joint, (image, sign) in table.moves.items()):
        raise MetasymError(
            "expected a table that moves some joint, found one that moves none", about="table", found=0
        )
    names = found.names
    postures = Postures(found.mechanism, seed, found.postures)
    claimed = [g for g in found.group.first_elements(_MOST_ELEMENTS) if not g.is_identity]
    nearest = min(claimed, key=lambda g: len(_wrong(table, names, g)), default=None)
    wrong = _wrong(table, names, nearest) if nearest is not None else ()
    product = nearest is not None and not wrong
    still = SignedPermutation.identity(len(names), len(names))
    own = as_permutation(table, names, nearest if nearest is not None and product else still)
    known = next((one for one in found.elements if one.permutation == own), None)
    known = known or _fitted(found, postures, own)
    if known is not None and known.status != Status.NONE:
        return _known(postures, known)
    together, worst, joints, untested = postures.inertia_defect(own, found.centre)
    upper = max(together.upper, worst.upper)
    fits = upper <= found.tolerance
    if product:
        status = Status.CERTIFIED if fits else Status.APPROXIMATE
        return TableCheck(status, (), "", together, worst, joints)
    refused = next((one for one in found.refused if not _wrong(table, names, one.permutation)), None)
    refused = refused or (known if nearest is None else None)
    if refused is not None:
        return _known(postures, refused)
    if nearest is not None:
        # A wrong entry of a light joint can hide below the tolerance: then the robot's own tables fit better. Where
        # only signs differ, the axes tell which are right: the inertia of a wheel is the same with both.
        right = max(defect.upper for defect in postures.inertia_defect(nearest, found.centre)[:2])
        signs = all(one.image == one.right_image for one in wrong)
        fits = fits and not signs and upper <= max(CERTIFICATE.rounding, right)
    if fits and not any(table.moves.get(name, (name, 1)) != (name, 1) for name in untested):
        return TableCheck(Status.CERTIFIED, (), "", together, worst, joints)
    base = next((one.base for one in found.elements if one.permutation == nearest), "")
    return TableCheck(Status.NONE, wrong, base, together, worst, joints)


def _known(postures: Postures, known: RobotSymmetry) -> TableCheck:
    """A table whose action on the base is known, with its certificate at these postures."""
    c = postures.certify(known.action)
    defects = (c.together, c.worst, c.worst_joints, c.base)
    return TableCheck(known.status, (), known.base, *defects, known.breaks, known.refused)


def _wrong(table: JointTable, names: tuple[str, ...], g: SignedPermutation) -> tuple[WrongEntry, ...]:
    """The entries in which a table differs from a signed permutation."""
    right = {names[i]: (names[j], s) for i, (j, s) in enumerate(zip(g.inputs, g.input_signs, strict=True))}
    return tuple(
        WrongEntry(joint, image, sign, *right[joint])
        for joint, (image, sign) in table.moves.items()
        if right[joint] != (image, sign)
    )


def _fitted(found: RobotSymmetries, postures: Postures, own: SignedPermutation) -> RobotSymmetry | None:
    """The table with the mirror or turn of the base that fits its axes best; None if none does."""
    mechanism = found.mechanism
    matcher = Matcher(mechanism, own)
    fits = [matcher.match(one) for one in (np.eye(4), *candidate_isometries(mechanism))]
    kept = [one for one in fits if one is not None and common_centre(mechanism, [one]) is not None]
    if not kept:
        return None
    best = min(kept, key=lambda one: one.cost)
    return judged(mechanism, postures, best, found.tolerance, found.limits)
