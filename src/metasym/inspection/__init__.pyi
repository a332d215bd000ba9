from .layers import inspect as inspect
from .projection import Projected as Projected, project as project
from .transfer import (
    SavedSymmetry as SavedSymmetry,
    load_symmetry as load_symmetry,
    save_symmetry as save_symmetry,
)
