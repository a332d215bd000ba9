"""The ladder in words, and in a layer's report."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from metasym.certification.ladder import Ladder, Rung
from metasym.certification.resolution import Resolution
from metasym.inspection.reports import PLAIN, LadderRung, LayerReport, PartialSymmetry

_ALSO = 2
_ALIKE = 1.5
"""Of groups that the tasks do not contradict the largest is told whose bound is not this many times the tightest."""


@dataclass(frozen=True)
class Circumstances:
    """What the words depend on besides the ladder."""

    resolution: Resolution
    tasks: int
    """Fresh tasks."""
    examples: int
    """Of a task, typically."""
    directions: int
    unlinear: float = 0.0
    """The share of y that is not linear in the inputs, where squares of the inputs show that there is one."""


def with_ladder(report: LayerReport, ladder: Ladder, seen: Circumstances) -> LayerReport:
    """The report with the certified group, all rungs, and the verdict; ``report`` is about the U in use."""
    certified = ladder.certified
    capped = _capped(ladder, seen)
    named = None if certified is None or capped else certified
    group = None
    if named is not None:
        group = dataclasses.replace(named.group, defect_upper=named.certificate.defect_upper)
    rungs = tuple(
        LadderRung(
            rung.group.name,
            rung.group.order,
            rung.certificate.defect,
            _finite(rung.certificate.defect_upper),
            rung.certificate.class_defect,
            _finite(rung.certificate.class_defect_upper),
            rung.certificate.refuted and not capped,
            rung is named,
            rung.group.generators,
        )
        for rung in ladder.rungs
    )
    words = _words(ladder, named, seen, report.partial if group is None and not capped else ())
    used = f"{seen.directions} of {math.prod(report.weight_shape)} directions in use"
    return dataclasses.replace(
        report,
        group=group,
        partial=report.partial if group is None and not capped else (),
        ladder=rungs,
        verdict=f"{words}; {used}",
    )


def _capped(ladder: Ladder, seen: Circumstances) -> bool:
    """Whether what is not linear, about which a linear layer knows nothing, could break any symmetry."""
    return math.sqrt(2 * seen.unlinear) > ladder.tolerance


def _words(
    ladder: Ladder, named: Rung | None, seen: Circumstances, partial: Sequence[PartialSymmetry]
) -> str:
    above = [r for r in ladder.rungs if r is not ladder.certified and r.certificate.refuted]
    if ladder.certified is not None:
        larger = [r for r in above if r.group.order > ladder.certified.group.order][-_ALSO:]
        nearly = "".join(
            f"; to {_called(r)} only within {percent(r.certificate.defect)}, refuted" for r in larger
        )
        if named is not None:
            return f"{claim(named, seen.tasks)}{nearly}"
        return (
            f"cannot be decided by a linear layer: {percent(seen.unlinear)} of y is not linear in the inputs; the "
            f"linear part alone is {claim(ladder.certified, seen.tasks)}{nearly}"
        )
    if _capped(ladder, seen):
        near = min(above, key=lambda r: r.certificate.defect, default=None)
        nearest = (
            "" if near is None else f"; the nearest symmetry of the linear part would be {_called(near)}"
        )
        return (
            f"cannot be decided by a linear layer: it leaves {percent(seen.unlinear)} of y unexplained, which is not "
            f"linear in the inputs and no noise{nearest}"
        )
    if partial:
        return (
            f"translation structure, {' and '.join(shift.description for shift in partial)}: no permutation of all "
            "outputs and inputs keeps it; read off U, without a certificate"
        )
    open_ = [r for r in ladder.rungs if not r.certificate.refuted]
    if seen.resolution.unseen:
        return (
            "cannot be decided this way: in some direction the inputs of all tasks never vary (constant or equal "
            "columns, or sums that stay the same), so that the weights along it can be anything; leave such "
            "columns out"
        )
    if open_:
        tightest = min(r.certificate.bound for r in open_)
        best = max(
            (r for r in open_ if r.certificate.bound <= _ALIKE * tightest), key=lambda r: r.group.order
        )
        bound = best.certificate.bound
        if not math.isfinite(bound):
            return (
                f"cannot be decided this way: the tasks do not contradict {_called(best)}, but with "
                f"{seen.examples} examples a task they could not contradict anything; more examples a task would"
            )
        return (
            f"cannot be decided: the tasks do not contradict {_called(best)}, but their noise allows nothing tighter "
            f"than a defect of {percent(bound)} (tolerance {percent(ladder.tolerance)}); more tasks, more examples "
            "or less noise would"
        )
    if not math.isfinite(seen.resolution.smallest):
        return (
            f"cannot be decided this way: {seen.examples} examples a task leave the weights of every task open, and "
            "what tasks share does not suggest a symmetry; more examples a task would tell"
        )
    if seen.resolution.smallest > ladder.tolerance and not above:
        return (
            "cannot be decided: the noise hides defects up to "
            f"{percent(seen.resolution.smallest)}; more tasks, more examples or less noise would tell"
        )
    if above:
        best = min(above, key=lambda r: r.certificate.defect)
        defect = percent(best.certificate.defect)
        return f"no symmetry: the nearest, {_called(best)}, has a defect of {defect}, refuted"
    return (
        "no symmetry: no permutation of outputs and inputs, with signs or without, comes near what tasks share; "
        "symmetries of other kinds, such as rotations that mix inputs, were not looked for"
    )


def claim(rung: Rung, tasks: int) -> str:
    """``equivariant to Z_8, order 8 (defect below 0.1 %, 95 %, on 100 fresh tasks)``."""
    c = rung.certificate
    weak = ""
    if c.class_defect_upper > max(2 * c.defect_upper, 0.01):
        weak = f"; of each class of tied weights by its own size below {percent(c.class_defect_upper)}"
    nearly = "" if c.bound <= PLAIN else f"within {percent(c.defect_upper)} "
    return (
        f"{nearly}equivariant to {rung.group.name}{_order(rung)} (defect below {percent(c.defect_upper)}, 95 %, on "
        f"{tasks} tasks that took no part in learning{weak})"
    )


def _called(rung: Rung) -> str:
    return f"{rung.group.name}{_order(rung)}"


def _order(rung: Rung) -> str:
    return "" if rung.group.name.startswith("a group of order") else f", order {rung.group.order}"


def percent(share: float) -> str:
    """A share of 1 as percent, with two digits that matter, rounded up."""
    value = 100 * share
    if value <= 1e-4:
        return "0.0001 %"
    step = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / step - 1e-9) * step:.10g} %"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
