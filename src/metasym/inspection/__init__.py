"""What was learned: which entries of W are tied, by which group, and how certain that is.

Everything is read from U U^T, never from U's entries: U and U R for an orthogonal R are the same symmetry.
"""

from metasym.inspection.layers import inspect
from metasym.inspection.projection import Projected, project
from metasym.inspection.reports import (
    FoundGroup,
    GroupErrors,
    LadderRung,
    LayerReport,
    PartialSymmetry,
    SharingPattern,
    SpatialTransform,
    SymmetryReport,
)
from metasym.inspection.transfer import SavedSymmetry, load_symmetry, save_symmetry

__all__ = [
    "FoundGroup",
    "GroupErrors",
    "LadderRung",
    "LayerReport",
    "PartialSymmetry",
    "Projected",
    "SavedSymmetry",
    "SharingPattern",
    "SpatialTransform",
    "SymmetryReport",
    "inspect",
    "load_symmetry",
    "project",
    "save_symmetry",
]
