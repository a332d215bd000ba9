"""The numbers that decide what held-out tasks and rows certify: each with what it decides and what set it.

"Counted" means: fixed on seeds below 1,000, and what is named with it counted on fresh ones by ``python -m
studies.evidence`` (results under ``results/evidence``, tables in ``docs/evidence-studies.md``). "Checked with": fixed
before, and a study of whether the stated limits are true was run with it. "By hand" means that no study compared it
with other values. Sizes that only bound the cost of a search, and what is rounding, are in the code.
"""

from __future__ import annotations

from dataclasses import dataclass

from metasym.verdicts.defects import defect_of

TOLERANCE = 0.2
"""The default of ``--tolerance``: with a defect of a fifth, ``|W - mean over the group|^2`` is 2 % of ``|W|^2``. That
part of the outputs' power a network with the symmetry built in cannot learn, and nothing else. Counted."""

NEGLIGIBLE_VIOLATION = 1e-6
"""Violations below this part of the variance count against no symmetry, of tasks or of rows: they are rounding,
what solvers leave, and where models are fitted, not data. By hand, far above rounding."""

NEGLIGIBLE_DEFECT = defect_of(NEGLIGIBLE_VIOLATION)
"""The same as a defect: 0.14 %."""


@dataclass(frozen=True)
class LimitThresholds:
    """How sure limits of a mean square over tasks are."""

    level: float = 0.95
    """Of upper limits. Chosen; that they hold so often was checked on 1,050 small problems (``python -m
    studies.calibration``, ``results/evidence/calibration.json``)."""
    sure: float = 0.99
    """Of the lower limits that refute. Chosen; true groups refuted were counted by the same study."""
    most_projected: float = 2e9
    """Tasks times the cube of their weights up to which defects are projected out of every task; above, they come
    from each task's own least squares, with wider limits. By the time of 20,000 tasks of 8 x 8 (49 s before, 13 s
    since): the bound rises from 0.070 to 0.089 %."""
    enough_tasks: float = 0.9
    """The part of the tasks that must determine their own weights, for the group's limits to rest on these. By
    hand."""
    mostly: float = 0.6
    """The part of the tasks that must show more than half as much again as noise adds, to refute where the mean is
    too uncertain. By hand, after families in which a few tasks had most of the defect; counted since."""
    by_noise: float = 0.3
    """The part of the tasks that do so by noise alone, at most: a chi-square exceeds one and a half times its mean in
    less than a quarter. From the law, rounded up."""
    by_one: float = 2.0
    """Standard deviations of noise by which one task may have more of a square than it shows: how few tasks may carry
    what is not refuted. By hand, after six odd tasks with fewer examples than inputs; counted since."""
    carriers: int = 5
    """Tasks that shrinkage is chosen for, if they alone carry a defect. By hand, as ``by_one``."""
    learned_noise_error: float = 0.05
    """Relative error of a noise variance that was learned with the prior, and not measured in tasks. By hand."""
    all_visible: float = 0.99
    """The part of a defect in any direction that must show for its mean square to be an estimate without bias. By
    hand."""
    measured_from: int = 10
    """Examples to spare, over all tasks, from which the noise counts as measured. By hand."""


@dataclass(frozen=True)
class FileThresholds:
    """The defect over all tasks of a file, and which of them differ from the others."""

    selection: float = 1.5
    """Tasks that a group was found on may show a smaller mean square than they have, by at most so many standard
    errors: the group was chosen among others. Checked with ``python -m studies.mixed_populations``."""
    many: float = 0.2
    """If a larger part of the tasks contradicts a group one by one, it is not a few tasks that differ. By hand;
    checked with the same study, with up to 10 % odd tasks."""
    fewest: int = 5
    """Independent tasks, or blocks of them, below which their variation says nothing about an error. By hand,
    after copies of one task had certified a group that was not there."""
    chance: float = 0.01
    """The chance that noise makes any task of a file differ. Chosen; checked with the same study."""
    shown: float = 0.999
    """How sure the limit of what tasks show is that differ. Chosen, after a bound of a fresh file of
    ``studies.certificate_attacks`` that was too low by 0.01 % of itself; counted since."""
    seen: float = 0.975
    """A task whose defect is the visible one is noticed with this probability, ... Chosen."""
    seen_deviations: float = 1.96
    """... which is so many standard deviations of a Gaussian, ..."""
    seen_tasks: float = 0.95
    """... in this part of the tasks or more. Chosen."""
    faint: float = 0.05
    """Classes of tied weights count by their own size; those fainter than this part of a typical weight as if they
    were so large. By hand."""
    unknown_class: float = 3.0
    """A class is too faint to be known by its own size if so many standard errors of its square exceed the square of
    the tolerance. By hand."""


@dataclass(frozen=True)
class NamingThresholds:
    """Which groups of a ladder are tested on tasks, listed and named."""

    far: float = 4.5
    """Standard errors beyond which a mean square on tasks that a group was found on screens it out. By hand: a screen
    as strict as a test loses true groups by chance."""
    survives: float = 3.0
    """Single elements whose square stands out of noise by fewer standard errors are not contradicted. By hand;
    proposes subgroups only."""
    nearly: float = 0.5
    """Larger groups are listed if their defect is at most this: above it they are not near. By hand."""
    negative: float = -4.5
    """Standard errors below zero that no noise as assumed gives the square of a defect. By hand: as ``far``."""
    alike: float = 1.5
    """Of the groups that the tasks do not contradict, the verdict lists the largest one with a bound below this many
    times the tightest bound. By hand; decides which reason is given, not whether a group is named."""


@dataclass(frozen=True)
class BreakingThresholds:
    """When one output or input is named as what breaks a symmetry."""

    shown: float = 3.0
    """Standard errors from which a defect is there, and its carrier is searched for. By hand."""
    most: float = 0.8
    """The share of the defect that an output or input has to carry. By hand."""
    unclear: float = 0.02
    """Of those that carry a share within this of the best, the one whose factor is below 1 is named. By hand."""
    largest_factor: float = 100.0
    """A factor beyond this, or its inverse, is none: the output or input is something else. By hand."""


@dataclass(frozen=True)
class BetaThresholds:
    """When what breaks a symmetry predicts what the symmetric model leaves."""

    level: float = 0.99
    """Of the interval of beta, to two sides. Chosen; counted by ``python -m studies.discover``."""
    far: float = 0.05
    """The part of the examples, those with the largest breaking part, without which it must refute as well. By hand,
    after models had erred far from their data; counted since."""


LIMITS = LimitThresholds()
FILE = FileThresholds()
NAMING = NamingThresholds()
BREAKING = BreakingThresholds()
BETA = BetaThresholds()
