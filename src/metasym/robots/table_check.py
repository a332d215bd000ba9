"""Whether a table written by hand is right, and if not, which joints and signs are wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metasym.groups.signed_permutations import SignedPermutation
from metasym.robots.broken_mirrors import Break
from metasym.robots.joint_tables import JointTable, as_permutation
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
    nearest: str
    """What the nearest right table does to the base; empty where the robot has none."""
    together: Defect
    """Of the table itself."""
    worst: Defect
    worst_joints: tuple[str, str]
    breaks: tuple[Break, ...] = ()
    """What breaks a table that is right by geometry."""
    refused: Refusal | None = None
    """Why such a table is not claimed, where it is not."""

    @property
    def right(self) -> bool:
        """Whether every entry is what the robot has."""
        return self.status != Status.NONE

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for JSON."""
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
            **({"refused": str(self.refused)} if self.refused else {}),
            "what_breaks_it": [one.as_dict() for one in self.breaks],
        }


def check_table(found: RobotSymmetries, table: JointTable, *, seed: int = 1) -> TableCheck:
    """Compare a joint table with the symmetries of a robot.

    Args:
        found: What :func:`metasym.mirror` found: all products of its generators, and what it refused.
        table: The table to check.
        seed: Seed of the postures.

    Returns:
        Whether the table is right, and which joints and signs are wrong.
    """
    names = found.names
    n = len(names)
    if all(joint == image and sign > 0 for joint, (image, sign) in table.moves.items()):
        raise MetasymError(
            "expected a table that moves some joint, found one that moves none", about="table", found=0
        )
    claimed = [(g, None) for g in found.group.first_elements(_MOST_ELEMENTS) if not g.is_identity]
    refused = [(one.permutation, one) for one in found.refused]
    best: tuple[int, SignedPermutation, RobotSymmetry | None] | None = None
    for g, one in (*claimed, *refused):
        moves = {
            names[i]: (names[j], s) for i, (j, s) in enumerate(zip(g.inputs, g.input_signs, strict=True))
        }
        apart = sum(moves[joint] != move for joint, move in table.moves.items())
        if best is None or apart < best[0]:
            best = apart, g, one
    postures = Postures(found.mechanism, seed, found.postures)
    if best is None:
        own = as_permutation(table, names, SignedPermutation.identity(n, n))
        together, worst, joints = postures.inertia_defect(own, found.centre)
        return TableCheck(Status.NONE, (), "", together, worst, joints)
    apart, g, dismissed = best
    known = dismissed or next((one for one in found.elements if one.permutation == g), None)
    right = {names[i]: (names[j], s) for i, (j, s) in enumerate(zip(g.inputs, g.input_signs, strict=True))}
    wrong = tuple(
        WrongEntry(joint, image, sign, *right[joint])
        for joint, (image, sign) in table.moves.items()
        if right[joint] != (image, sign)
    )
    rest = g if set(table.moves) == set(names) or not apart else SignedPermutation.identity(n, n)
    together, worst, joints = postures.inertia_defect(as_permutation(table, names, rest), found.centre)
    if wrong or dismissed is not None:
        status = Status.NONE
    elif known is not None:
        status = known.status
    else:
        status = (
            Status.CERTIFIED if max(together.upper, worst.upper) <= found.tolerance else Status.APPROXIMATE
        )
    breaks = known.breaks if known is not None else ()
    why = dismissed.refused if dismissed is not None and not wrong else None
    nearest = known.base if known else "a product"
    return TableCheck(status, wrong, nearest, together, worst, joints, breaks, why)
