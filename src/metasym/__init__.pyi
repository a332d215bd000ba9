from . import (
    groups as groups,
    models as models,
    nn as nn,
    sklearn as sklearn,
    tasks as tasks,
    testing as testing,
)
from .discovery.shared_parameters import (
    SharedParameters as SharedParameters,
    shared_parameters as shared_parameters,
)
from .errors import LostRankError as LostRankError
from .runs.discovering.discovered_run import DiscoveredRun as DiscoveredRun
from .runs.discovering.discover_arrays import discover as discover
from .runs.learning.learned_run import LearnedRun as LearnedRun
from .fast_layers.compilation import structure_plan as structure_plan
from .fast_layers.deployment import StructuredLearner as StructuredLearner, structured as structured
from .inspection.layers import inspect as inspect
from .inspection.projection import project as project
from .inspection.transfer import load_symmetry as load_symmetry, save_symmetry as save_symmetry
from .learners.base import Learner as Learner
from .learners.evidence_msr import EvidenceMSR as EvidenceMSR
from .learners.gradient import ANIL as ANIL, MAML as MAML, MSR as MSR, MSRJoint as MSRJoint
from .learners.multitask import MTSR as MTSR
from .learners.prototypes import ProtoNet as ProtoNet
from .runs.learning.learn_arrays import learn as learn
from .runs.open_runs import open_run as open_run
from .robots import RobotSymmetries as RobotSymmetries, mirror as mirror
from .runs.equivariance_check import (
    FunctionEquivariance as FunctionEquivariance,
    check_equivariance as check_equivariance,
)
from .runs.run import Run as Run
from .storage.serialization import CheckpointError as CheckpointError
from .symmetry.costs import cost as cost
from .symmetry.field_symmetry import FieldSymmetry as FieldSymmetry
from .symmetry.cost_of_weight import Cost as Cost
from .symmetry.matrices import (
    DenseSymmetry as DenseSymmetry,
    KroneckerSymmetry as KroneckerSymmetry,
    Symmetry as Symmetry,
)
from .symmetry.parametrized import Split as Split
from .symmetry.pruning import NuclearAdam as NuclearAdam, compress as compress
from .symmetry.reparam import (
    bake as bake,
    reparameterize as reparameterize,
    split as split,
    symmetries as symmetries,
)
from .training.checkpoint import load as load, save as save
from .training.evaluation import evaluate as evaluate
from .training.guard import NonFiniteError as NonFiniteError
from .training.loop import train as train
from .training.settings import Files as Files, Validation as Validation
from .types import (
    Batch as Batch,
    Episode as Episode,
    MetasymError as MetasymError,
    MetasymWarning as MetasymWarning,
    OuterLoss as OuterLoss,
    Record as Record,
    Score as Score,
    Tasks as Tasks,
)
from .verdicts.symmetry_report import SymmetryReport as SymmetryReport

__version__: str
