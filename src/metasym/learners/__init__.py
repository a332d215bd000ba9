"""The meta-learners of the paper, all with one interface (``Learner``)."""

from metasym.learners.base import Learner, Metric, accuracy
from metasym.learners.evidence_msr import EvidenceMSR
from metasym.learners.gradient import ANIL, MAML, MSR, GradientLearner, MSRJoint
from metasym.learners.multitask import MTSR
from metasym.learners.prototypes import ProtoNet

__all__ = [
    "ANIL",
    "MAML",
    "MSR",
    "MTSR",
    "EvidenceMSR",
    "GradientLearner",
    "Learner",
    "MSRJoint",
    "Metric",
    "ProtoNet",
    "accuracy",
]
