"""Statements about a symmetry: values with their numbers, and the one place that makes words of them.

Nothing here knows data or models. Other rooms decide, and fill these values; they never read words back.
"""

from metasym.verdicts.layer_words import verdict_words
from metasym.verdicts.reports import (
    FoundGroup,
    GroupErrors,
    LadderRung,
    LayerReport,
    PartialSymmetry,
    SharingPattern,
    SpatialTransform,
)
from metasym.verdicts.symmetry_report import SymmetryReport
from metasym.verdicts.verdict import Reason, Status, Verdict

__all__ = [
    "FoundGroup",
    "GroupErrors",
    "LadderRung",
    "LayerReport",
    "PartialSymmetry",
    "Reason",
    "SharingPattern",
    "SpatialTransform",
    "Status",
    "SymmetryReport",
    "Verdict",
    "verdict_words",
]
