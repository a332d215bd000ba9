"""The verdict in words, with its evidence; weaker evidence, weaker words."""

from __future__ import annotations

import dataclasses

from metasym.inspection.pattern import EVIDENCE, MARGIN, RESIDUAL
from metasym.inspection.reports import FoundGroup, LayerReport, SharingPattern


def verdict(report: LayerReport) -> LayerReport:
    """The report with its verdict."""
    return dataclasses.replace(report, verdict=_words(report))


def _words(report: LayerReport) -> str:
    used = f"uses {report.effective_filter_size} of {report.filter_size} filter entries"
    if report.effective_filter_size == 0:
        return "U is zero: nothing was learned"
    pattern = report.pattern
    if pattern is None:
        return f"{used}; too large for its sharing pattern to be read"
    if not pattern.clear:
        return f"{_unclear(pattern)}; {used}"
    evidence = f"residual {pattern.residual:.2g}, margin {pattern.margin:.3g}"
    if report.group is not None:
        return f"{_group(report.group)}; {_ties(pattern)}, {used} ({evidence})"
    if report.partial:
        shifts = " and ".join(p.description for p in report.partial)
        return (
            f"translation structure, {shifts}: no permutation of all outputs and inputs keeps it; "
            f"{_ties(pattern)}, {used} ({evidence})"
        )
    return f"no symmetry found: {_ties(pattern)}, but no permutation keeps all classes; {used} ({evidence})"


def _group(group: FoundGroup) -> str:
    named = (
        group.name if group.name.startswith("a group of order") else f"{group.name}, of order {group.order}"
    )
    kind = "signed permutations (modulo -1)" if group.signed else "permutations"
    acts = "transitive" if group.transitive else "not transitive"
    return f"equivariant to {named}: the largest group of {kind} with this sharing pattern, {acts}"


def _ties(pattern: SharingPattern) -> str:
    entries = len(pattern.classes) * len(pattern.classes[0])
    zeros = f", {pattern.zeros} zero" if pattern.zeros else ""
    up_to = " up to sign" if pattern.signed else ""
    return f"{entries} weights in {pattern.count} classes{up_to}{zeros}"


def _unclear(pattern: SharingPattern) -> str:
    if pattern.margin >= MARGIN and pattern.residual > RESIDUAL:
        return (
            f"pattern unclear: it leaves {pattern.residual:.0%} of U unexplained (at most {RESIDUAL:.0%}); "
            "no group is named"
        )
    if pattern.margin >= MARGIN:
        return "no symmetry found: too few weights are tied to tell ties from chance"
    if pattern.within > 0.5 or pattern.margin < 1.2:
        return f"no symmetry found: no gap separates tied weights from others (margin {pattern.margin:.2f})"
    return f"pattern unclear: margin {pattern.margin:.2f}, below {MARGIN:g}; no group is named"


__all__ = ["EVIDENCE", "verdict"]
