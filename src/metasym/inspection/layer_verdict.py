"""What may be said of a layer whose U was read: the status, and the reasons where no group is named."""

from __future__ import annotations

import dataclasses

from metasym.inspection.pattern import unconnected
from metasym.inspection.reading_thresholds import PATTERN, SPATIAL
from metasym.verdicts.reports import LayerReport, SharingPattern
from metasym.verdicts.verdict import (
    AnyReason,
    NoGap,
    NoPermutation,
    NothingLearned,
    NoTiesInFactors,
    NoTransform,
    SmallMargin,
    Status,
    TooFewTies,
    TransformsAlone,
    TransformsByChance,
    Unexplained,
    Verdict,
    WeightTooLarge,
    WideClasses,
)


def with_verdict(report: LayerReport) -> LayerReport:
    """The report with its verdict."""
    return dataclasses.replace(report, verdict=_verdict(report))


def _verdict(report: LayerReport) -> Verdict:
    if report.effective_filter_size == 0:
        return Verdict(Status.NONE, (NothingLearned(),))
    if report.pattern is None and report.kind != "kronecker":
        return Verdict(Status.NOT_READ, (WeightTooLarge(),))
    if report.group is not None:
        return Verdict(Status.READ)
    if report.pattern is None:
        return Verdict(Status.NONE, (NoTiesInFactors(),))
    if report.spatial:
        return _transforms(report)
    if not report.pattern.clear:
        return _unclear(report.pattern)
    if report.partial:
        return Verdict(Status.READ)
    blocks = 0 if report.pattern.signed else unconnected(report.pattern)
    return Verdict(Status.NONE, (NoPermutation(blocks if blocks > 1 else 0),))


def _transforms(report: LayerReport) -> Verdict:
    """A convolution whose rotations and flips form no group."""
    accepted = tuple(one.name for one in report.spatial if one.accepted)
    near = tuple(
        one.name for one in report.spatial if one.error <= SPATIAL.error and one.margin >= SPATIAL.margin
    )
    if accepted or near:
        found = TransformsAlone(accepted) if accepted else TransformsByChance(near)
        return Verdict(Status.UNDECIDED, (found,))
    best = min(report.spatial, key=lambda one: one.error)
    return Verdict(
        Status.NONE, (NoTransform(best.name, best.error, best.margin, SPATIAL.error, SPATIAL.margin),)
    )


def _unclear(pattern: SharingPattern) -> Verdict:
    reason: AnyReason
    if pattern.margin >= PATTERN.margin and (
        pattern.residual > PATTERN.unexplained or pattern.dominant_residual > PATTERN.residual
    ):
        reason = Unexplained(pattern.residual, pattern.dominant_residual)
    elif pattern.margin >= PATTERN.margin and pattern.tied + pattern.zeros > PATTERN.many_ties:
        reason = WideClasses(pattern.within)
    elif pattern.margin >= PATTERN.margin:
        return Verdict(Status.NONE, (TooFewTies(),))
    elif pattern.within > PATTERN.no_gap_width or pattern.margin < PATTERN.no_gap_margin:
        return Verdict(Status.NONE, (NoGap(pattern.margin),))
    else:
        reason = SmallMargin(pattern.margin, PATTERN.margin)
    return Verdict(Status.UNDECIDED, (reason,))
