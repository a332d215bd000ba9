"""Where it is decided that a group is named: the ladder, and what fresh tasks could tell, as a layer's verdict."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from metasym.certification.certificate_thresholds import NAMING
from metasym.certification.ladder import Ladder, Rung
from metasym.certification.resolution import Resolution
from metasym.inspection.pattern import unconnected
from metasym.verdicts.defect_words import LARGEST_DEFECT
from metasym.verdicts.reports import AskedGroup, DifferingTasks, GroupAnswer, LadderRung, LayerReport
from metasym.verdicts.status_thresholds import PLAIN
from metasym.verdicts.verdict import (
    AnyReason,
    ExamplesDependent,
    InputsNeverVary,
    NearestRefuted,
    NoiseHides,
    NoiseUnlikeModel,
    NotContradicted,
    NothingNear,
    NotLinear,
    Status,
    TasksDiffer,
    Verdict,
    WeightsOpen,
)


@dataclass(frozen=True)
class Circumstances:
    """What a verdict depends on besides the ladder."""

    resolution: Resolution
    tasks: int
    """All tasks of the file."""
    examples: int
    """Of a task, typically."""
    directions: int
    unlinear: float = 0.0
    """The share of y that is not linear in the inputs, where squares of the inputs show that there is one."""
    dependent: float = 0.0
    """How much the noise of an example is correlated with that of the next, where weights suffer from it."""
    task_names: tuple[str, ...] = ()
    """What the file calls its tasks; by default their numbers."""
    blocks: int | None = None
    """The user's blocks of tasks, where there are some."""


def with_ladder(report: LayerReport, ladder: Ladder, seen: Circumstances) -> LayerReport:
    """The report with the certified group, all rungs, and the verdict; ``report`` is about the U in use.

    A group is named where fresh tasks certify it and a linear layer can speak for the whole of y.
    """
    linear = ladder
    ladder = dataclasses.replace(
        linear,
        rungs=tuple(_with_unlinear(rung, seen.unlinear) for rung in linear.rungs),
        certified=None if linear.certified is None else _with_unlinear(linear.certified, seen.unlinear),
    )
    found = ladder.certified
    broken = _broken_assumption(found, seen)
    capped = seen.unlinear > 0 and (
        found is None or not found.certificate.within(ladder.tolerance)
    )  # what is not linear could break any symmetry
    named = None if capped or broken is not None else found
    group = None
    if named is not None:
        group = dataclasses.replace(named.group, defect_upper=named.certificate.defect_upper)
    partial = report.partial if group is None and not capped and broken is None else ()
    if named is not None:
        status = Status.CERTIFIED if named.certificate.bound <= PLAIN else Status.APPROXIMATE
        verdict = Verdict(status)
    elif broken is not None:
        verdict = Verdict(Status.UNDECIDED, (broken,))
    elif capped and not _refuted_anyway(linear, seen):
        verdict = Verdict(Status.UNDECIDED, (_not_linear(linear, seen),))
    elif partial and not _nearly(ladder):
        verdict = Verdict(Status.READ)
    else:
        verdict = _unnamed(ladder, seen, report)
    about = named or _headline(ladder)
    counts = not capped and broken is None
    return dataclasses.replace(
        report,
        group=group,
        partial=partial,
        ladder=tuple(
            rung_report(rung, refuted=counts, certified=named is not None and rung.group is named.group)
            for rung in ladder.rungs
        ),
        verdict=dataclasses.replace(verdict, tasks=seen.tasks, directions=seen.directions),
        differing=None if about is None or not counts else _differing(about, seen),
    )


def with_answer(
    report: LayerReport, asked: AskedGroup, rung: Rung, seen: Circumstances, tolerance: float
) -> LayerReport:
    """The report with what the tasks say about a group that the user asked about.

    A group that is refuted as an exact symmetry is one nearly, where its bound is within the tolerance.
    """
    certified = rung if rung.certificate.within(tolerance) else None
    bare = dataclasses.replace(report, partial=())
    alone = with_ladder(bare, Ladder((rung,), certified, tolerance), seen)
    verdict, (found,) = alone.verdict, alone.ladder
    bound = max(found.defect_upper or math.inf, found.class_defect_upper or math.inf)
    refuted = any(isinstance(reason, NearestRefuted) for reason in verdict.reasons)
    if verdict.status is Status.NONE and refuted and bound <= tolerance:
        verdict = dataclasses.replace(verdict, status=Status.APPROXIMATE)
    return dataclasses.replace(report, answer=GroupAnswer(asked, found, verdict, alone.differing))


def _with_unlinear(rung: Rung, share: float) -> Rung:
    """The rung with limits for what tasks compute: what is not linear may turn its sign under an element."""
    if share == 0:
        return rung
    c = rung.certificate
    whole, classes = (math.sqrt(upper**2 + 4 * share) for upper in (c.defect_upper, c.class_defect_upper))
    wider = dataclasses.replace(c, defect_upper=whole, class_defect_upper=classes)
    return dataclasses.replace(rung, certificate=wider)


def _broken_assumption(found: Rung | None, seen: Circumstances) -> AnyReason | None:
    """What the certificate assumes of the noise, and is not so."""
    if seen.dependent:
        return ExamplesDependent(seen.dependent)
    if found is not None and found.certificate.negative < NAMING.negative:
        return NoiseUnlikeModel(found.group.name, found.group.order, found.certificate.negative)
    return None


def _refuted_anyway(ladder: Ladder, seen: Circumstances) -> bool:
    """Whether the share that is not linear is small, and the linear part alone contradicts every group."""
    small = 2 * math.sqrt(seen.unlinear) <= ladder.tolerance
    return small and ladder.certified is None


def _differing(rung: Rung, seen: Circumstances) -> DifferingTasks | None:
    c = rung.certificate
    if c.visible is None or c.share_upper is None:
        return None
    names = seen.task_names or tuple(str(t) for t in range(seen.tasks))
    return DifferingTasks(
        c.differing,
        tuple(names[t] for t in c.differing),
        seen.tasks,
        c.visible,
        c.share_upper,
        c.common,
        seen.blocks,
    )


def _headline(ladder: Ladder) -> Rung | None:
    """The group that a verdict without a named group is about: of those that come nearest the largest.

    First those that the tasks do not contradict; where they contradict all, the largest within the tolerance: a
    larger group that holds nearly says more than a part of it that holds more nearly.
    """
    near = [r for r in ladder.rungs if r.certificate.bound <= ladder.tolerance]
    if near and all(r.certificate.refuted for r in ladder.rungs):
        return max(near, key=lambda r: r.group.order)
    rungs = [r for r in ladder.rungs if not r.certificate.refuted] or list(ladder.rungs)
    if not rungs:
        return None
    nearest = min(_apart(r) for r in rungs)
    return max((r for r in rungs if _apart(r) <= NAMING.alike * nearest), key=lambda r: r.group.order)


def _nearly(ladder: Ladder) -> bool:
    """Whether a group holds nearly, or in most tasks: the verdict then starts with that, and with what breaks it."""
    found = [r.certificate for r in ladder.rungs]
    return any(c.bound <= ladder.tolerance or bool(c.differing) for c in found)


def _apart(rung: Rung) -> float:
    c = rung.certificate
    return c.defect if c.refuted else c.bound


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
        c.breaking,
        len(c.faint),
        c.differing,
        tuple(divmod(entry, rung.group.generators[0].shape[1]) for entry in c.faint),
    )


def _not_linear(ladder: Ladder, seen: Circumstances) -> NotLinear:
    refuted = [r for r in ladder.rungs if r is not ladder.certified and r.certificate.refuted]
    if ladder.certified is not None:
        above = [rung_report(r) for r in refuted if r.group.order > ladder.certified.group.order]
        return NotLinear(seen.unlinear, linear_part=rung_report(ladder.certified).bound(above))
    near = min(refuted, key=lambda r: r.certificate.defect, default=None)
    return NotLinear(seen.unlinear, nearest=None if near is None else (near.group.name, near.group.order))


def _unnamed(ladder: Ladder, seen: Circumstances, report: LayerReport) -> Verdict:
    """Why no group is named: none is there, or the tasks could not decide."""
    undecided: AnyReason | None = None
    refuted = [r for r in ladder.rungs if r.certificate.refuted]
    open_ = [r for r in ladder.rungs if not r.certificate.refuted]
    if seen.resolution.unseen:
        undecided = InputsNeverVary()
    elif open_:
        best = _headline(ladder)
        assert best is not None
        if best.certificate.differing and best.certificate.defect > ladder.tolerance / 2:
            c = best.certificate
            why = TasksDiffer(
                best.group.name, best.group.order, min(c.bound, LARGEST_DEFECT), ladder.tolerance
            )
            return Verdict(Status.NONE, (why,))
        bound = _possible(best.certificate.bound)
        undecided = NotContradicted(best.group.name, best.group.order, bound, ladder.tolerance, seen.examples)
    elif not math.isfinite(seen.resolution.smallest):
        undecided = WeightsOpen(seen.examples)
    elif seen.resolution.smallest > ladder.tolerance and not refuted:
        undecided = NoiseHides(seen.resolution.smallest)
    if undecided is not None:
        return Verdict(Status.UNDECIDED, (undecided,))
    if refuted:
        nearest = _headline(ladder)
        assert nearest is not None
        c = nearest.certificate
        found = NearestRefuted(
            nearest.group.name,
            nearest.group.order,
            c.defect,
            _possible(c.defect_upper),
            within=c.bound <= ladder.tolerance,
        )
        return Verdict(Status.NONE, (found,))
    blocks = 0 if report.pattern is None or not report.pattern.clear else unconnected(report.pattern)
    return Verdict(Status.NONE, (NothingNear(blocks if blocks > 1 else 0),))


def _possible(bound: float) -> float | None:
    """A bound that says something: None above the largest defect that there is."""
    return bound if bound < LARGEST_DEFECT else None


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
