"""The verdict as a ladder: the largest group that fresh tasks certify, and larger ones that hold only nearly."""

from __future__ import annotations

from dataclasses import dataclass

from metasym.certification.bounds import noise_of
from metasym.certification.candidates import candidates, named, subgroups
from metasym.certification.certificate import TOLERANCE, Certificate, certify
from metasym.evidence.prior import Prior
from metasym.evidence.statistics import TaskStatistics
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.reports import FoundGroup

NEARLY = 0.5
"""Larger groups are told if their defect is at most this: beyond it there is nothing near about them."""
_SCREENED = 64
"""Candidates that are held against tasks that they were found on, before any is held against fresh ones."""
_ASKED = 4
"""Candidates that fresh tasks are asked about: each has its chance of being wrong."""
_ABOVE = 3
"""Larger groups that hold only nearly, in the end."""
_TASKS = 150
"""Tasks that candidates are screened on."""
_LOOKED_AT = 1000
"""Tasks that single elements of a refuted group are held against."""


@dataclass(frozen=True)
class Rung:
    """A group and what fresh tasks say about it."""

    group: FoundGroup
    certificate: Certificate


@dataclass(frozen=True)
class Ladder:
    """Groups that were held against fresh tasks, largest first."""

    rungs: tuple[Rung, ...]
    certified: Rung | None
    """The largest that is not refuted and whose defect is at most the tolerance."""
    tolerance: float


def climb(
    prior: Prior,
    learned: TaskStatistics,
    fresh: TaskStatistics,
    *,
    tolerance: float = TOLERANCE,
    with_mean: bool = True,
    beyond: int = 1,
) -> Ladder:
    """The groups that the prior of the tasks ``learned`` suggests, held against the tasks ``fresh``.

    A group that the tasks refute is replaced by its largest subgroups. Without the mean the groups are those of the
    tasks' deviations from the mean map, and none is told but the certified one. Groups of orders up to ``beyond`` are
    left out.
    """
    power = prior.power
    if not with_mean:
        learned, fresh = learned.minus(prior.mean), fresh.minus(prior.mean)
        power = power - prior.mean.square()
    some, noise = learned[slice(0, _TASKS)], noise_of(fresh, prior.noise, learned)
    search = _Search(candidates(prior, with_mean=with_mean), prior, learned[slice(0, _LOOKED_AT)], beyond)
    nearly: list[FoundGroup] = []
    rungs: list[Rung] = []
    certified: Rung | None = None
    for _ in range(_SCREENED):
        group = search.next()
        if group is None or len(rungs) == _ASKED:
            break
        screened = certify(some, group.generators, power=power, noise=noise, quick=True)
        if screened.refuted:
            if with_mean and screened.defect <= NEARLY:
                nearly.append(group)
            search.below(group)
            continue
        rung = Rung(group, certify(fresh, group.generators, power=power, noise=noise))
        rungs.append(rung)
        if rung.certificate.within(tolerance):
            certified = rung
            break
        search.below(group)
    for group in nearly[-_ABOVE:]:
        rungs.append(Rung(group, certify(fresh, group.generators, power=power, noise=noise)))
    told: list[Rung] = []
    for rung in rungs:
        if rung is certified or (with_mean and rung.certificate.defect <= NEARLY):
            told.append(Rung(named(rung.group, prior), rung.certificate))
            certified = told[-1] if rung is certified else certified
    return Ladder(tuple(sorted(told, key=lambda r: -r.group.order)), certified, tolerance)


class _Search:
    """Groups to be looked at, the largest first, none twice."""

    def __init__(self, waiting: list[FoundGroup], prior: Prior, tasks: TaskStatistics, beyond: int) -> None:
        self.waiting, self.prior, self.tasks, self.beyond = waiting, prior, tasks, beyond
        self.seen: set[tuple[SignedPermutation, ...]] = set()

    def next(self) -> FoundGroup | None:
        while self.waiting:
            group = self.waiting.pop(0)
            if group.order > self.beyond and group.generators not in self.seen:
                self.seen.add(group.generators)
                return group
        return None

    def below(self, group: FoundGroup) -> None:
        self.waiting = sorted(
            [*self.waiting, *subgroups(group, self.prior, self.tasks)], key=lambda g: -g.order
        )
