"""What was learned: which entries of W are tied, by which group, how surely.

Everything is read from U U^T, never from U's entries: U and U R for an orthogonal R are the same symmetry.
"""

from metasym.inspection.layers import inspect
from metasym.inspection.reports import (
    FoundGroup,
    GroupElement,
    GroupErrors,
    LayerReport,
    PartialSymmetry,
    SharingPattern,
    SpatialTransform,
    SymmetryReport,
)

__all__ = [
    "FoundGroup",
    "GroupElement",
    "GroupErrors",
    "LayerReport",
    "PartialSymmetry",
    "SharingPattern",
    "SpatialTransform",
    "SymmetryReport",
    "inspect",
]
