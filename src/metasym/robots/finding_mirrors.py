"""Finds a robot's mirrors and turns: candidates from its geometry, certificates from its dynamics."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from metasym.argument_types import checked
from metasym.groups.signed_groups import SignedGroup
from metasym.robots.broken_mirrors import (
    Break,
    breaking_drives,
    breaking_limits,
    breaking_masses,
    limits_hold,
)
from metasym.robots.centres import common_centre
from metasym.robots.isometries import candidate_isometries
from metasym.robots.matching import Candidate, Matcher
from metasym.robots.mechanism import Mechanism
from metasym.robots.mirror_thresholds import CERTIFICATE, TOLERANCE
from metasym.robots.posture_certificate import POSTURES, Certificate, Postures
from metasym.robots.reading_robots import read_robot
from metasym.robots.robot_symmetries import Refusal, RobotSymmetries, RobotSymmetry
from metasym.types import MetasymError
from metasym.verdicts.verdict import Status

_MOST_ELEMENTS = 2000
"""Elements of a group that are written out, to see whether the next one is new."""


@checked
def mirror(
    robot: str | Path | Mechanism,
    *,
    floating: bool | None = None,
    tolerance: float = TOLERANCE,
    limits: bool = True,
    postures: int = POSTURES,
    seed: int = 0,
) -> RobotSymmetries:
    """Find the mirrors and turns of a robot: signed permutations of its joints under which it is itself.

    Args:
        robot: A URDF file, or MuJoCo's XML.
        floating: Whether the base moves freely; by default the file decides (a base with mass and more than one
            limb does, or one with a free joint).
        tolerance: Largest defect, as a bound at 95 %, that is called certified.
        limits: Whether joint limits must fit too.
        postures: How many fresh postures measure the defects.
        seed: Of these postures.

    """
    if not 0 < tolerance < 1:
        raise MetasymError(
            f"expected a tolerance between 0 and 1, found {tolerance}", about="tolerance", found=tolerance
        )
    if postures < CERTIFICATE.fewest_postures:
        raise MetasymError(
            f"expected at least {CERTIFICATE.fewest_postures} postures, found {postures}",
            about="postures",
            found=postures,
        )
    started = time.perf_counter()
    mechanism = robot if isinstance(robot, Mechanism) else read_robot(robot, floating=floating)
    at = Postures(mechanism, seed, postures)
    tried = [judged(mechanism, at, one, tolerance, limits) for one in _candidates(mechanism)]
    claimed = sorted((one for one in tried if one.status != Status.NONE), key=_order)
    generators: list[RobotSymmetry] = []
    for one in claimed:
        if one.permutation not in _generated(mechanism, generators):
            generators.append(one)
    centre = common_centre(mechanism, [g.action for g in generators])
    while centre is None:  # the last ones hold least
        dropped = generators.pop()
        claimed.remove(dropped)
        centre = common_centre(mechanism, [g.action for g in generators])
    return RobotSymmetries(
        mechanism,
        tuple(generators),
        tuple(claimed),
        tuple(sorted((one for one in tried if one.status == Status.NONE), key=_order)),
        centre,
        tolerance,
        limits,
        postures,
        time.perf_counter() - started,
    )


def _candidates(mechanism: Mechanism) -> list[Candidate]:
    """What geometry allows: for every signed permutation the isometry that fits best, if it keeps some posture."""
    matcher = Matcher(mechanism)
    found: dict[tuple[tuple[int, ...], tuple[int, ...]], Candidate] = {}
    for isometry in candidate_isometries(mechanism):
        one = matcher.match(isometry)
        if one is None or one.permutation.is_identity:
            continue
        known = found.get((one.images, one.signs))
        if (known is None or one.cost < known.cost) and common_centre(mechanism, [one]) is not None:
            found[one.images, one.signs] = one
    return list(found.values())


def judged(
    mechanism: Mechanism, postures: Postures, one: Candidate, tolerance: float, limits: bool
) -> RobotSymmetry:
    """Return a candidate with its certificate, what breaks it, and whether it is claimed."""
    certificate = postures.certify(one)
    # Of a body that only turns about a standing axis most of the mass has no effect: no defect, nothing to tell.
    masses = breaking_masses(mechanism, one) if certificate.upper > CERTIFICATE.rounding else ()
    ends = breaking_limits(mechanism, one) if limits else ()
    status, refused = _status(
        certificate, masses, limits_hold(mechanism, ends), bool(one.offsets.any()), tolerance
    )
    drives = breaking_drives(mechanism, one)
    return RobotSymmetry(one, certificate, masses, ends, drives, status, refused)


def _status(
    found: Certificate, masses: tuple[Break, ...], limits: bool, offsets: bool, tolerance: float
) -> tuple[Status, Refusal | None]:
    exact = found.geometry <= CERTIFICATE.exact_geometry
    certified = exact and found.upper <= tolerance
    missing = any(one.what == "no mass" for one in masses)
    far = found.together.value > CERTIFICATE.nearly or found.worst.value > CERTIFICATE.worst_nearly
    if far and not (exact and missing):
        return Status.NONE, Refusal.MASSES
    if not limits and (offsets or not certified):
        return Status.NONE, Refusal.LIMITS
    if found.nothing_tested:
        return Status.READ, None
    certified = certified and not found.untested
    return (Status.CERTIFIED if certified and limits else Status.APPROXIMATE), None


def _order(one: RobotSymmetry) -> tuple[bool, bool, bool, float]:
    """Certified ones first, mirrors before turns, without offsets before others, small defects first."""
    moved = bool(np.abs(one.action.offsets).max() > 0)
    return one.status != Status.CERTIFIED, moved, not one.action.mirrors, one.certificate.upper


def _generated(mechanism: Mechanism, generators: list[RobotSymmetry]) -> set[object]:
    n = len(mechanism.joints)
    group = SignedGroup(tuple(g.permutation for g in generators), (n, n))
    return set(group.first_elements(_MOST_ELEMENTS))
