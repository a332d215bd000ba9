"""metasym: learn the symmetries that a family of tasks shares, and build them into a network."""

import importlib
from typing import TYPE_CHECKING, Any

from metasym import groups, models, nn, tasks, testing
from metasym.inspection import inspect, load_symmetry, project, save_symmetry
from metasym.learners import ANIL, MAML, MSR, MTSR, EvidenceMSR, Learner, MSRJoint, ProtoNet
from metasym.storage.serialization import CheckpointError
from metasym.structured import structure_plan, structured
from metasym.symmetry.costs import cost
from metasym.symmetry.field_symmetry import FieldSymmetry
from metasym.symmetry.matrices import Cost, DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.symmetry.pruning import NuclearAdam, compress
from metasym.symmetry.reparam import Split, bake, reparameterize, split, symmetries
from metasym.training.checkpoint import load, save
from metasym.training.distributed import LostRankError
from metasym.training.evaluation import evaluate
from metasym.training.guard import NonFiniteError
from metasym.training.loop import train
from metasym.training.settings import Files, Validation
from metasym.types import Batch, Episode, MetasymError, MetasymWarning, OuterLoss, Record, Score, Tasks
from metasym.verdicts.symmetry_report import SymmetryReport

if TYPE_CHECKING:
    from metasym.discovery.shared_parameters import SharedParameters, shared_parameters
    from metasym.experiments.discovering.discover import Discovered
    from metasym.experiments.discovering.discover_run import load_discovered
    from metasym.experiments.discovering.door import discover
    from metasym.experiments.own_tasks.learned import LearnedRun, load_learned
    from metasym.robots import RobotSymmetries, mirror
    from metasym.runs import Run, learn, open_run

_ON_FIRST_USE = {
    "Discovered": "experiments.discovering.discover",
    "LearnedRun": "experiments.own_tasks.learned",
    "RobotSymmetries": "robots",
    "Run": "runs",
    "SharedParameters": "discovery.shared_parameters",
    "discover": "experiments.discovering.door",
    "learn": "runs",
    "load_discovered": "experiments.discovering.discover_run",
    "load_learned": "experiments.own_tasks.learned",
    "mirror": "robots",
    "open_run": "runs",
    "shared_parameters": "discovery.shared_parameters",
}
"""Names of whole runs, and of discovery, which needs scikit-learn: training a network should not wait for these."""


def __getattr__(name: str) -> Any:
    if name in _ON_FIRST_USE:
        return getattr(importlib.import_module(f"metasym.{_ON_FIRST_USE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__version__ = "0.1.0"

__all__ = [
    "ANIL",
    "MAML",
    "MSR",
    "MTSR",
    "Batch",
    "CheckpointError",
    "Cost",
    "DenseSymmetry",
    "Discovered",
    "Episode",
    "EvidenceMSR",
    "FieldSymmetry",
    "Files",
    "KroneckerSymmetry",
    "LearnedRun",
    "Learner",
    "LostRankError",
    "MSRJoint",
    "MetasymError",
    "MetasymWarning",
    "NonFiniteError",
    "NuclearAdam",
    "OuterLoss",
    "ProtoNet",
    "Record",
    "RobotSymmetries",
    "Run",
    "Score",
    "SharedParameters",
    "Split",
    "Symmetry",
    "SymmetryReport",
    "Tasks",
    "Validation",
    "bake",
    "compress",
    "cost",
    "discover",
    "evaluate",
    "groups",
    "inspect",
    "learn",
    "load",
    "load_discovered",
    "load_learned",
    "load_symmetry",
    "mirror",
    "models",
    "nn",
    "open_run",
    "project",
    "reparameterize",
    "save",
    "save_symmetry",
    "shared_parameters",
    "split",
    "structure_plan",
    "structured",
    "symmetries",
    "tasks",
    "testing",
    "train",
]
