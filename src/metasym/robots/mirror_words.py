"""What is known about a robot's mirrors, in sentences: for the terminal and for the page."""

from __future__ import annotations

from metasym.robots.robot_symmetries import Refusal, RobotSymmetries, RobotSymmetry
from metasym.robots.table_check import TableCheck
from metasym.verdicts.defect_words import measured, percent
from metasym.verdicts.verdict import Status

_MOST = 4
"""So many things that break a symmetry are listed."""


def about_robot(found: RobotSymmetries) -> str:
    """``a1.urdf: 12 joints on a base that moves freely (trunk), 13.7 kg``."""
    robot = found.mechanism
    base = "moves freely" if robot.floating else "stands"
    return f"{robot.name}: {len(robot.joints)} joints on a base that {base} ({robot.base_link}), {robot.mass:.3g} kg"


def verdict_words(found: RobotSymmetries) -> str:
    """The first sentence: which symmetries the robot has, and how sure that is."""
    if not found.generators:
        best = found.refused[0] if found.refused else None
        nearest = f"; the nearest is {best.base}: {refusal_words(best)}" if best else ""
        return f"the robot has no mirror or turn{nearest}."
    if found.status == Status.READ:
        return (
            f"the robot's axes are symmetric under {', '.join(g.base for g in found.generators)} "
            f"({found.group.name}, order {found.group.order}). The file has no masses to certify it."
        )
    sure = [g for g in found.generators if g.status == Status.CERTIFIED]
    near = [g for g in found.generators if g.status != Status.CERTIFIED]
    parts = []
    if sure:
        parts.append(f"{_listed(sure)}: certified")
    if near:
        parts.append(f"{_listed(near)}: nearly")
    order = f"{found.group.name}, order {found.group.order}"
    return f"the robot is symmetric under {'; '.join(parts)} ({order})."


def _listed(elements: list[RobotSymmetry]) -> str:
    return ", ".join(f"{g.base} (defect below {percent(g.certificate.upper)})" for g in elements)


def evidence_words(found: RobotSymmetries, g: RobotSymmetry) -> str:
    """Return the defects of one element, by what they were measured on."""
    c = g.certificate
    entry = " and ".join(dict.fromkeys(c.worst_joints))
    base = "of the momentum it gives to the base" if found.mechanism.floating else "of gravity's torques"
    return (
        f"{g.base}: defect of the joint inertia {measured(c.together.value)}, at most {percent(c.together.upper)}; "
        f"of its worst entry ({entry}) at most {percent(c.worst.upper)}; {base} at most {percent(c.base.upper)} "
        f"(95 %, {found.postures} fresh postures); axes within {percent(c.geometry)}"
    )


def breaking_words(g: RobotSymmetry) -> list[str]:
    """What breaks it, a line each; the rest is counted."""
    lines = []
    if g.certificate.untested:
        names = ", ".join(g.certificate.untested[:_MOST])
        more = ", ..." if len(g.certificate.untested) > _MOST else ""
        lines.append(f"joints that move no mass have their signs from the geometry alone: {names}{more}")
    for kind, what in (
        (g.masses, "differences of masses"),
        (g.limits, "joints with other limits"),
        (g.drives, "differences of drives and springs"),
    ):
        lines += [one.text for one in kind[:_MOST]]
        if len(kind) > _MOST:
            lines.append(f"and {len(kind) - _MOST} more {what}")
    return lines


def refused_words(found: RobotSymmetries) -> list[str]:
    """Return the symmetries of the geometry that the robot does not have, a line each, with the first obstacle."""
    lines = []
    for g in found.refused:
        first = next(iter(g.limits if g.refused is Refusal.LIMITS else g.masses), None)
        lines.append(f"{g.base}: {refusal_words(g)}{f' ({first.text})' if first else ''}")
    return lines


def refusal_words(found: RobotSymmetry | TableCheck) -> str:
    """Why a mirror of the geometry is not one of the robot."""
    return (
        "the limits of the joints do not fit" if found.refused is Refusal.LIMITS else "the masses do not fit"
    )


def check_words(check: TableCheck) -> str:
    """The first sentence about a table."""
    defects = f"defect of the joint inertia {measured(check.together.value)}, at most {percent(check.together.upper)}"
    if check.base_defect is not None and check.right:
        defects += (
            f"; of its worst entry at most {percent(check.worst.upper)}; of the base's part at most "
            f"{percent(check.base_defect.upper)}"
        )
    base = check.nearest or "a table of which only the joint inertia was compared"
    if check.wrong:
        entries = f"{len(check.wrong)} {'entry' if len(check.wrong) == 1 else 'entries'}"
        right = check.nearest or "a product of the robot's mirrors and turns"
        return f"wrong in {entries} ({defects}); the nearest that is right: {right}"
    if check.status == Status.CERTIFIED:
        return f"right: {base} ({defects})"
    if check.status == Status.APPROXIMATE:
        return f"right by geometry; masses and limits fit only nearly: {base} ({defects})"
    if check.status == Status.READ:
        return f"right by geometry; the file has no masses to certify it: {base}"
    if check.refused is not None:
        return f"not a symmetry of the robot, only of its geometry: {check.nearest} ({defects})"
    return f"wrong: the axes fit no mirror or turn of the base ({defects})"
