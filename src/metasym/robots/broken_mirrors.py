"""What in a robot's file breaks a mirror or turn: masses, centres, inertias, limits, drives and springs."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metasym.robots.matching import Candidate
from metasym.robots.mechanism import REVOLUTE, Array, Mechanism, about_centre, centre_of_mass
from metasym.robots.mirror_thresholds import BREAKS


@dataclass(frozen=True)
class Break:
    """One thing that does not fit."""

    where: str
    """The link or joint."""
    image: str
    """Where it is taken."""
    what: str
    """``"no mass"``, ``"mass"``, ``"centre of mass"``, ``"no inertia"``, ``"inertia"``, ``"limits"``, ``"rotor"``,
    ``"stiffness"``, ``"spring"``, ``"damping"`` or ``"friction"``."""
    text: str
    weight: float
    """How much it matters beside others: about the part of the robot's mass that is in the wrong place."""

    def as_dict(self) -> dict[str, str]:
        """Plain types, for JSON."""
        return {"where": self.where, "image": self.image, "what": self.what, "text": self.text}


def breaking_masses(mechanism: Mechanism, candidate: Candidate) -> tuple[Break, ...]:
    """Bodies whose masses do not fit those of their images, those that matter most first."""
    found: list[Break] = []
    if mechanism.floating:
        found += _body(
            mechanism, (mechanism.base_link,) * 2, (mechanism.base_inertia,) * 2, candidate.isometry
        )
    for i, j in enumerate(candidate.images):
        if j < i and candidate.images[j] == i:
            continue  # the pair was looked at from its other end
        mine, theirs = mechanism.joints[i], mechanism.joints[j]
        found += _body(
            mechanism, (mine.link, theirs.link), (mine.inertia, theirs.inertia), candidate.bodies[i]
        )
    return tuple(
        sorted(found, key=lambda one: (one.what != "no mass", one.what != "no inertia", -one.weight))
    )


def _body(
    mechanism: Mechanism, links: tuple[str, str], inertias: tuple[Array, Array], a: Array
) -> list[Break]:
    here, there = links
    moved, other = a @ inertias[0] @ a.T, inertias[1]
    masses = float(moved[3, 3]), float(other[3, 3])
    heavier = max(masses)
    total = max(mechanism.mass, 1e-12)
    if heavier <= 1e-9 * total:
        return []
    named = here if here == there else f"{here} and {there}"
    if min(masses) <= 1e-6 * heavier:
        without, with_ = (here, there) if masses[0] < masses[1] else (there, here)
        text = f"{without} has no mass, {with_} has {heavier:.3g} kg"
        return [Break(here, there, "no mass", text, heavier / total)]
    found = []
    if abs(masses[0] - masses[1]) > BREAKS.part * heavier:
        text = f"{named}: masses of {masses[0]:.4g} and {masses[1]:.4g} kg"
        found.append(Break(here, there, "mass", text, abs(masses[0] - masses[1]) / total))
    off = float(np.linalg.norm(centre_of_mass(moved) - centre_of_mass(other)))
    if off > max(BREAKS.centre * mechanism.size, BREAKS.least_centre):
        # Of a body that is its own image the centre is off the plane by half of what the two are apart.
        alone = here == there
        distance = off / 2 if alone else off
        whose = f"{here}: centre of mass" if alone else f"{named}: centres of mass"
        text = f"{whose} {distance * 1e3:.2g} mm {'off' if alone else 'apart'}"
        found.append(Break(here, there, "centre of mass", text, heavier * off / (total * mechanism.size)))
    mine, theirs = about_centre(moved), about_centre(other)
    larger = max(float(np.linalg.norm(mine)), float(np.linalg.norm(theirs)))
    apart = float(np.linalg.norm(mine - theirs)) / larger if larger > 0 else 0.0
    if apart > BREAKS.part:
        size = larger / (total * mechanism.size**2)
        if min(float(np.linalg.norm(mine)), float(np.linalg.norm(theirs))) < 1e-6 * larger:
            without = here if np.linalg.norm(mine) < np.linalg.norm(theirs) else there
            found.append(Break(here, there, "no inertia", f"{without} has no inertia", size))
        else:
            text = f"{named}: inertias {apart:.0%} apart"
            found.append(Break(here, there, "inertia", text, apart * size))
    return found


def breaking_limits(mechanism: Mechanism, candidate: Candidate) -> tuple[Break, ...]:
    """Joints whose limits are not those of their images; joints that turn all around have none."""
    found = []
    for i, j in enumerate(candidate.images):
        mine, theirs = mechanism.joints[i], mechanism.joints[j]
        if j < i and candidate.images[j] == i:
            continue
        sign, offset = candidate.signs[i], float(candidate.offsets[i])
        ends = sorted((sign * mine.lower + offset, sign * mine.upper + offset))
        own = _range(mine.kind, *ends), _range(theirs.kind, theirs.lower, theirs.upper)
        if own[0] is None and own[1] is None:
            continue
        if own[0] is None or own[1] is None:
            apart = 1.0
        else:
            shift = 0.0
            if mine.kind == REVOLUTE:  # the same limits a whole turn away are the same
                shift = round((sum(own[1]) - sum(own[0])) / (4 * math.pi)) * 2 * math.pi
            widest = max(own[0][1] - own[0][0], own[1][1] - own[1][0], 1e-9)
            apart = max(abs(own[0][k] + shift - own[1][k]) for k in (0, 1)) / widest
        if apart > BREAKS.part:
            text = (
                f"{mine.name} to {theirs.name}: limits {_shown(own[0])} after the move, "
                f"{_shown(own[1])} in the file"
            )
            found.append(Break(mine.name, theirs.name, "limits", text, apart))
    return tuple(sorted(found, key=lambda one: -one.weight))


def breaking_drives(mechanism: Mechanism, candidate: Candidate) -> tuple[Break, ...]:
    """Joints whose rotor, spring, damping or friction are not those of their images."""
    found = []
    for i, j in enumerate(candidate.images):
        mine, theirs = mechanism.joints[i], mechanism.joints[j]
        if j < i and candidate.images[j] == i:
            continue
        named = mine.name if i == j else f"{mine.name} and {theirs.name}"
        for what, a, b in (
            ("rotor", mine.rotor, theirs.rotor),
            ("stiffness", mine.stiffness, theirs.stiffness),
            ("damping", mine.damping, theirs.damping),
            ("friction", mine.friction, theirs.friction),
        ):
            apart = abs(a - b) / max(abs(a), abs(b), 1e-300)
            if apart > BREAKS.part:
                inertia = " inertia" if what == "rotor" else ""
                text = f"{named}: {what}{inertia} of {a:.3g} and {b:.3g}"
                found.append(Break(mine.name, theirs.name, what, text, apart))
        if mine.stiffness and theirs.stiffness:
            slack = candidate.signs[i] * mine.spring_at + float(candidate.offsets[i])
            apart = slack - theirs.spring_at
            if mine.kind == REVOLUTE:
                apart = math.remainder(apart, 2 * math.pi)
            if abs(apart) > BREAKS.spring:
                text = (
                    f"{mine.name} to {theirs.name}: spring slack at {slack:.3g} after the move, at "
                    f"{theirs.spring_at:.3g} in the file"
                )
                found.append(Break(mine.name, theirs.name, "spring", text, abs(apart)))
    return tuple(sorted(found, key=lambda one: (one.what != "rotor", -one.weight)))


def limits_hold(mechanism: Mechanism, breaks: tuple[Break, ...]) -> bool:
    """Whether the robot can still move alike: files have a wrong limit or two, not wrong ones at every limb."""
    broken = {name for one in breaks if one.weight > BREAKS.limits for name in (one.where, one.image)}
    return len(broken) <= BREAKS.broken * len(mechanism.joints)


def _range(kind: str, lower: float, upper: float) -> tuple[float, float] | None:
    """Limits; None where there are none, or where the joint can turn all around."""
    if not (math.isfinite(lower) and math.isfinite(upper)) or upper <= lower:
        return None
    return None if kind == REVOLUTE and upper - lower >= 2 * math.pi - BREAKS.all_around else (lower, upper)


def _shown(limits: tuple[float, float] | None) -> str:
    return "none" if limits is None else f"{limits[0]:.3g} to {limits[1]:.3g}"
