from .base import Learner as Learner, Metric as Metric, accuracy as accuracy
from .evidence_msr import EvidenceMSR as EvidenceMSR
from .gradient import (
    ANIL as ANIL,
    GradientLearner as GradientLearner,
    MAML as MAML,
    MSR as MSR,
    MSRJoint as MSRJoint,
)
from .multitask import MTSR as MTSR
from .prototypes import ProtoNet as ProtoNet
