"""What was learned: which entries of W are tied, by which group, and how certain that is.

Everything is read from U U^T, never from U's entries: U and U R for an orthogonal R are the same symmetry.
"""

from metasym.inspection.layers import inspect
from metasym.inspection.projection import Projected, project
from metasym.inspection.transfer import SavedSymmetry, load_symmetry, save_symmetry

__all__ = ["Projected", "SavedSymmetry", "inspect", "load_symmetry", "project", "save_symmetry"]
