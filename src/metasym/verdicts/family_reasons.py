"""Why ``discover`` claims nothing about a family of tasks: a reason a class, with its numbers."""

from __future__ import annotations

from metasym.verdicts.outcomes import About, DiscoveryReason, Outcome


class TooFewTasks(DiscoveryReason, frozen=True, tag="too_few_tasks"):
    """There are too few tasks to find a group on some and test it on others."""

    outcome = Outcome.NOT_EXAMINED
    least: int
    tasks: int


class TooFewExamples(DiscoveryReason, frozen=True, tag="too_few_examples"):
    """A task has too few examples for its linear map."""

    outcome = Outcome.NOT_EXAMINED
    least: int
    inputs: int
    examples: int


class MapTooLarge(DiscoveryReason, frozen=True, tag="map_too_large"):
    """The tasks' linear maps have too many entries."""

    outcome = Outcome.NOT_EXAMINED
    most: int
    outputs: int
    inputs: int


class ZerosUnclear(DiscoveryReason, frozen=True, tag="zeros_unclear"):
    """It is unclear which entries of the tasks' linear maps are zero."""


class NoLinearPart(DiscoveryReason, frozen=True, tag="no_linear_part"):
    """The tasks have no linear part to read ties from."""


class NoGapInTies(DiscoveryReason, frozen=True, tag="no_gap_in_ties"):
    """No gap separates entries that are tied in all tasks from others."""


class TiesNotClasses(DiscoveryReason, frozen=True, tag="ties_not_classes"):
    """Ties between entries of the tasks' linear maps do not form classes."""


class NoPermutationOfTies(DiscoveryReason, frozen=True, tag="no_permutation_of_ties"):
    """No permutation keeps the ties between entries of the tasks' linear maps."""

    outcome = Outcome.REFUTED


class TiesDiffer(About, frozen=True, tag="ties_differ"):
    """Entries that the group ties differ in the same way in all tasks, or may differ."""

    difference: float
    """Mean square, as a part of the entries' power."""
    upper: float | None
    """None where the data give no bound."""
    most: float


class RefutedByTasks(About, frozen=True, tag="refuted_by_tasks"):
    """The linear maps of held-out tasks contradict it: the same certificate as in ``learn``."""

    outcome = Outcome.REFUTED
    defect: float
    upper: float | None
    """None where the data give no bound."""


class MapsAllow(About, frozen=True, tag="maps_allow"):
    """The linear maps of the tasks allow a defect that is too large."""

    defect: float
    upper: float | None
    """None where the data give no bound."""
    most: float


class JudgesDiffer(About, frozen=True, tag="judges_differ"):
    """Functions fitted to tasks contradict what the tasks' linear maps certify, and the tasks look linear."""

    beta: float
    low: float
    high: float
    defect_upper: float


class InputsElsewhere(About, frozen=True, tag="inputs_elsewhere"):
    """It moves inputs to where there are no data: their means or sizes differ."""


class TasksAllow(About, frozen=True, tag="tasks_allow"):
    """Functions fitted to held-out tasks allow a violation that is too large."""

    beta: float
    low: float
    high: float
    violation: float
    most: float


class CommonAllows(About, frozen=True, tag="common_allows"):
    """What all tasks share allows a violation that is too large."""

    violation: float
    most: float
