"""The numbers that decide which mirrors and turns a robot has: each with what it decides and what set it.

"Counted" means: set on the robots of example-robot-data (``python -m studies.robots``), and what is claimed with it
counted on robots of other packages (``python -m studies.held_out_robots``, ``results/robots/held_out.json``).
"By hand" means that no study compared it with other values. Sizes that only bound the cost are in the code.
"""

from __future__ import annotations

from dataclasses import dataclass

TOLERANCE = 0.01
"""The default of ``--tolerance``: defects up to this, as bounds at 95 %, are certified. Counted."""


@dataclass(frozen=True)
class CandidateThresholds:
    """Which mirrors and turns the robot's geometry allows: they propose, the certificate decides."""

    geometry: float = 0.01
    """So far may an axis be off, of the robot's size, or in radians, to be a candidate at all. Counted."""
    snapped: float = 2e-3
    """Offsets nearer to 0 or a quarter turn than this are that, where axes suggest them. Counted: 0.02 took the rest
    poses of planted robots for 0 (``results/robots/planted.json``)."""
    snapped_by_mass: float = 0.02
    """The same where only masses suggest an offset: those are often wrong by a little. By hand."""
    same_mass: float = 0.01
    """As near must the masses of two bodies be that alone suggest an odd offset. By hand."""
    same_direction: float = 1e-3
    """Directions nearer than this, in radians, are one; so are isometries. By hand: far above rounding."""
    same_centre: float = 1e-6
    """So far may an element move the posture that all keep. By hand: far above rounding."""


@dataclass(frozen=True)
class CertificateThresholds:
    """What a certified, near or refused mirror is."""

    level: float = 0.98
    """Of Student's t: squares are skewed, so that 0.95 would be too low in about 7 of 100 cases. Counted
    (``results/robots/bounds.json``)."""
    exact_geometry: float = 1e-3
    """So far may axes be off, in parts of the robot's size, to be where they should be. Counted."""
    nearly: float = 0.1
    """Defects of all entries together up to this are near; above, a mirror is only claimed where masses are missing.
    Counted."""
    worst_nearly: float = 0.5
    """The same for the worst entry. Counted."""
    rounding: float = 1e-8
    """Defects below this are rounding, of numbers in the file too. By hand."""
    fewest_postures: int = 10
    """Postures below which their variation says nothing about an error. By hand."""


@dataclass(frozen=True)
class BreakThresholds:
    """Which differences in the file count, and which limits refuse a mirror."""

    part: float = 0.01
    """Differences below this part are not worth a line: of mass, of the body's inertia, of limits. By hand."""
    centre: float = 1e-3
    """Centres of mass nearer than this part of the robot's size are in one place, ... By hand."""
    least_centre: float = 1e-4
    """... and nearer than this, in metres: files are rounded. By hand."""
    spring: float = 1e-3
    """Springs that are slack at positions nearer than this are slack at one. By hand."""
    limits: float = 0.1
    """Limits that differ by more than this part of the joint's range are other limits. Counted."""
    broken: float = 0.25
    """Where more than this part of the joints have other limits, the robot cannot move alike. Counted."""
    all_around: float = 0.05
    """A range less than this below a whole turn is one: such a joint has no limits. By hand."""


CANDIDATES = CandidateThresholds()
CERTIFICATE = CertificateThresholds()
BREAKS = BreakThresholds()
