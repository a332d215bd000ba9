"""Where it is decided that a group is named: the ladder, and what fresh tasks could tell, as a layer's verdict."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from metasym.certification.ladder import Ladder, Rung
from metasym.certification.resolution import Resolution
from metasym.verdicts.layer_words import bound_of
from metasym.verdicts.reports import PLAIN, LadderRung, LayerReport
from metasym.verdicts.verdict import (
    AnyReason,
    InputsNeverVary,
    NearestRefuted,
    NoiseHides,
    NotContradicted,
    NothingNear,
    NotLinear,
    Status,
    Verdict,
    WeightsOpen,
)

_ALIKE = 1.5
"""Of groups that the tasks do not contradict the largest is told whose bound is not this many times the tightest."""


@dataclass(frozen=True)
class Circumstances:
    """What a verdict depends on besides the ladder."""

    resolution: Resolution
    tasks: int
    """Fresh tasks."""
    examples: int
    """Of a task, typically."""
    directions: int
    unlinear: float = 0.0
    """The share of y that is not linear in the inputs, where squares of the inputs show that there is one."""


def with_ladder(report: LayerReport, ladder: Ladder, seen: Circumstances) -> LayerReport:
    """The report with the certified group, all rungs, and the verdict; ``report`` is about the U in use.

    A group is named where fresh tasks certify it and a linear layer can speak for the whole of y.
    """
    capped = math.sqrt(2 * seen.unlinear) > ladder.tolerance  # what is not linear could break any symmetry
    named = None if capped else ladder.certified
    group = None
    if named is not None:
        group = dataclasses.replace(named.group, defect_upper=named.certificate.defect_upper)
    partial = report.partial if group is None and not capped else ()
    if named is not None:
        status = Status.CERTIFIED if named.certificate.bound <= PLAIN else Status.APPROXIMATE
        verdict = Verdict(status)
    elif capped:
        verdict = Verdict(Status.UNDECIDED, (_not_linear(ladder, seen),))
    elif partial:
        verdict = Verdict(Status.READ)
    else:
        verdict = _unnamed(ladder, seen)
    return dataclasses.replace(
        report,
        group=group,
        partial=partial,
        ladder=tuple(rung_report(rung, refuted=not capped, certified=rung is named) for rung in ladder.rungs),
        verdict=dataclasses.replace(verdict, tasks=seen.tasks, directions=seen.directions),
    )


def rung_report(rung: Rung, *, refuted: bool = True, certified: bool = False) -> LadderRung:
    """A rung as a report has it; ``refuted`` False: the tasks' linear parts do not count against it."""
    c = rung.certificate
    return LadderRung(
        rung.group.name,
        rung.group.order,
        c.defect,
        _finite(c.defect_upper),
        c.class_defect,
        _finite(c.class_defect_upper),
        c.refuted and refuted,
        certified,
        rung.group.generators,
    )


def _not_linear(ladder: Ladder, seen: Circumstances) -> NotLinear:
    refuted = [r for r in ladder.rungs if r is not ladder.certified and r.certificate.refuted]
    if ladder.certified is not None:
        above = [rung_report(r) for r in refuted if r.group.order > ladder.certified.group.order]
        return NotLinear(seen.unlinear, linear_part=bound_of(rung_report(ladder.certified), above))
    near = min(refuted, key=lambda r: r.certificate.defect, default=None)
    return NotLinear(seen.unlinear, nearest=None if near is None else (near.group.name, near.group.order))


def _unnamed(ladder: Ladder, seen: Circumstances) -> Verdict:
    """Why no group is named: none is there, or the tasks could not have told."""
    undecided: AnyReason | None = None
    refuted = [r for r in ladder.rungs if r.certificate.refuted]
    open_ = [r for r in ladder.rungs if not r.certificate.refuted]
    if seen.resolution.unseen:
        undecided = InputsNeverVary()
    elif open_:
        tightest = min(r.certificate.bound for r in open_)
        alike = [r for r in open_ if r.certificate.bound <= _ALIKE * tightest]
        best = max(alike, key=lambda r: r.group.order)
        bound = _finite(best.certificate.bound)
        undecided = NotContradicted(best.group.name, best.group.order, bound, ladder.tolerance, seen.examples)
    elif not math.isfinite(seen.resolution.smallest):
        undecided = WeightsOpen(seen.examples)
    elif seen.resolution.smallest > ladder.tolerance and not refuted:
        undecided = NoiseHides(seen.resolution.smallest)
    if undecided is not None:
        return Verdict(Status.UNDECIDED, (undecided,))
    if refuted:
        nearest = min(refuted, key=lambda r: r.certificate.defect)
        found = NearestRefuted(nearest.group.name, nearest.group.order, nearest.certificate.defect)
        return Verdict(Status.NONE, (found,))
    return Verdict(Status.NONE, (NothingNear(),))


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
