"""The verdict as a ladder: the largest group that fresh tasks certify, and larger ones that hold only nearly."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from metasym.certification.all_tasks import AllTasks
from metasym.certification.bounds import Noise, noise_of
from metasym.certification.candidates import candidates, named, subgroups
from metasym.certification.certificate import Certificate, certify, certify_all
from metasym.certification.certificate_thresholds import NAMING, TOLERANCE
from metasym.certification.screening import screened
from metasym.evidence.prior import Prior
from metasym.evidence.statistics import TaskStatistics
from metasym.groups.signed_groups import weight_orbits
from metasym.groups.signed_permutations import SignedPermutation
from metasym.verdicts.reports import FoundGroup

_SCREENED = 64
"""Candidates that are tested on tasks that they were found on, before any is tested on held-out tasks."""
_ASKED = 4
"""Candidates that fresh tasks are asked about: each has its chance of being wrong."""
_ABOVE = 3
"""Larger groups that hold only nearly, in the end."""
_TASKS = 150
"""Tasks that candidates are screened on."""
_LOOKED_AT = 1000
"""Tasks on which single elements of a refuted group are tested."""


@dataclass(frozen=True)
class Rung:
    """A group and what fresh tasks say about it."""

    group: FoundGroup
    certificate: Certificate


@dataclass(frozen=True)
class Ladder:
    """Groups that were tested on held-out tasks, largest first."""

    rungs: tuple[Rung, ...]
    certified: Rung | None
    """The largest that is not refuted and whose defect is at most the tolerance."""
    tolerance: float

    def asked(self, rung: Rung) -> Ladder:
        """With what tasks say about a group that the user gave, where it is one of these: one bound for one group.

        The user did not choose it by these tasks, so that all of them may judge it.
        """
        shape = rung.group.generators[0].shape
        classes = weight_orbits(rung.group.generators, shape).classes.tobytes()
        rungs = tuple(
            replace(one, certificate=rung.certificate)
            if one.group.order == rung.group.order
            and weight_orbits(one.group.generators, shape).classes.tobytes() == classes
            else one
            for one in self.rungs
        )
        if rungs == self.rungs:
            return self
        within = [one for one in rungs if one.certificate.within(self.tolerance)]
        return Ladder(rungs, max(within, key=lambda one: one.group.order, default=None), self.tolerance)


def climb(
    prior: Prior,
    learned: TaskStatistics,
    fresh: TaskStatistics,
    *,
    everyone: AllTasks | TaskStatistics | None = None,
    tolerance: float = TOLERANCE,
    with_mean: bool = True,
    beyond: int = 1,
) -> Ladder:
    """The groups that the prior of the tasks ``learned`` suggests, tested on the tasks ``fresh``.

    ``everyone`` are all tasks of the file, about which the upper limits are: with their own weights, or, where tasks
    have too few examples to determine these, their statistics; None: the limits are about the fresh ones. A group
    that the tasks refute is replaced by its largest subgroups. Without the mean the groups are those of the tasks'
    deviations from the mean map, and only the certified one is reported. Groups of orders up to ``beyond`` are left
    out.
    """
    judge = _Judge(prior, learned, fresh, everyone, tolerance, with_mean)
    search = _Search(
        candidates(prior, with_mean=with_mean), prior, judge.learned[slice(0, _LOOKED_AT)], beyond
    )
    nearly: list[FoundGroup] = []
    rungs: list[Rung] = []
    certified: Rung | None = None
    for _ in range(_SCREENED):
        group = search.next()
        if group is None or len(rungs) == _ASKED:
            break
        apart = judge.screen(group)
        if apart is not None:
            if with_mean and apart <= NAMING.nearly:
                nearly.append(group)
            search.below(group)
            continue
        rung = Rung(group, judge.certificate(group))
        rungs.append(rung)
        if rung.certificate.within(tolerance):
            certified = rung
            break
        search.below(group)
    for group in nearly[-_ABOVE:]:
        # The tasks that it was found on contradict it, far beyond chance, whatever a few others allow.
        rungs.append(Rung(group, replace(judge.certificate(group), refuted=True)))
    told: list[Rung] = []
    for rung in rungs:
        near = rung.certificate.defect <= NAMING.nearly or (
            bool(rung.certificate.differing) and not rung.certificate.refuted
        )
        if rung is certified or (with_mean and near):
            told.append(Rung(named(rung.group, prior), rung.certificate))
            certified = told[-1] if rung is certified else certified
    return Ladder(tuple(sorted(told, key=lambda r: -r.group.order)), certified, tolerance)


def hold(
    group: FoundGroup,
    prior: Prior,
    learned: TaskStatistics,
    fresh: TaskStatistics,
    *,
    everyone: AllTasks | TaskStatistics,
    tolerance: float = TOLERANCE,
) -> Rung:
    """A group that the user gave, tested on all tasks: none of them was used to find it."""
    if isinstance(everyone, AllTasks):
        everyone = replace(everyone, fresh=torch.ones_like(everyone.fresh))
    whole = fresh if isinstance(everyone, AllTasks) else everyone
    judge = _Judge(prior, learned, whole, everyone, tolerance, True)
    return Rung(group, judge.certificate(group))


class _Judge:
    """What tasks say about a group: those it was found on, those held out, and all together."""

    def __init__(
        self,
        prior: Prior,
        learned: TaskStatistics,
        fresh: TaskStatistics,
        everyone: AllTasks | TaskStatistics | None,
        tolerance: float,
        with_mean: bool,
    ) -> None:
        self.power, self.tolerance = prior.power, tolerance
        if not with_mean:
            learned, fresh = learned.minus(prior.mean), fresh.minus(prior.mean)
            everyone = None if everyone is None else everyone.minus(prior.mean)
            self.power = self.power - prior.mean.square()
        self.learned, self.fresh, self.everyone = learned, fresh, everyone
        self.noise: Noise = noise_of(fresh, prior.noise, learned)

    def screen(self, group: FoundGroup) -> float | None:
        """The defect of a group that is far from the tasks it was found on; None if it is not."""
        if isinstance(self.everyone, AllTasks):
            return screened(self.everyone, group.generators)
        found = certify(
            self.learned[slice(0, _TASKS)], group.generators, power=self.power, noise=self.noise, quick=True
        )
        return found.defect if found.refuted else None

    def certificate(self, group: FoundGroup) -> Certificate:
        """What held-out tasks and all tasks say."""
        if isinstance(self.everyone, AllTasks):
            return certify_all(self.everyone, group.generators, tolerance=self.tolerance)
        if self.everyone is None:
            return certify(self.fresh, group.generators, power=self.power, noise=self.noise)
        found = certify(self.fresh, group.generators, power=self.power, noise=self.noise, alone=False)
        whole = certify(self.everyone, group.generators, power=self.power, noise=self.noise)
        return replace(whole, refuted=found.refuted)


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
