"""metasym: learn the symmetries that a family of tasks shares, and build them into a network."""

from metasym import groups, testing
from metasym.costs import cost
from metasym.learners import ANIL, MAML, MSR, MTSR, Learner, MSRJoint, ProtoNet
from metasym.reparam import Split, bake, reparameterize, split, symmetries
from metasym.symmetry import Cost, DenseSymmetry, KroneckerSymmetry, Symmetry
from metasym.types import Batch, Episode, MetasymError, Record, Score

__version__ = "0.1.0"

__all__ = [
    "ANIL",
    "MAML",
    "MSR",
    "MTSR",
    "Batch",
    "Cost",
    "DenseSymmetry",
    "Episode",
    "KroneckerSymmetry",
    "Learner",
    "MSRJoint",
    "MetasymError",
    "ProtoNet",
    "Record",
    "Score",
    "Split",
    "Symmetry",
    "bake",
    "cost",
    "groups",
    "reparameterize",
    "split",
    "symmetries",
    "testing",
]
