"""A verdict: its status, and the reasons for it as values with their numbers."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import msgspec


class Status(enum.StrEnum):
    """What is known about a symmetry."""

    CERTIFIED = "certified"
    """Held-out data allow no defect that matters."""
    APPROXIMATE = "certified approximately"
    """Held-out data bound the defect; it may be large enough to matter."""
    READ = "read but not certified"
    """Learned weights show it; it was not tested on held-out data."""
    NONE = "none"
    """Looked for and not found, or refuted."""
    UNDECIDED = "undecided"
    """The data, or the way the weights were learned, cannot decide."""
    NOT_READ = "not read"
    """It was not examined."""


class Reason(msgspec.Struct, frozen=True, tag_field="kind"):
    """Why a verdict is what it is. A subclass a reason, with its numbers."""


class NothingLearned(Reason, frozen=True, tag="nothing_learned"):
    """U is zero."""


class WeightTooLarge(Reason, frozen=True, tag="weight_too_large"):
    """The weight has too many entries for its sharing pattern to be read."""


class NoTiesInFactors(Reason, frozen=True, tag="no_ties_in_factors"):
    """The factors of a Kronecker product have no equal rows that a group could exchange."""


class NoGap(Reason, frozen=True, tag="no_gap"):
    """No gap separates tied weights from others."""

    margin: float


class TooFewTies(Reason, frozen=True, tag="too_few_ties"):
    """So few weights are tied that they may be so by chance."""


class SmallMargin(Reason, frozen=True, tag="small_margin"):
    """The gap between tied weights and others is too narrow."""

    margin: float
    least: float


class Unexplained(Reason, frozen=True, tag="unexplained"):
    """The pattern leaves too much of U unexplained."""

    residual: float
    dominant_residual: float


class WideClasses(Reason, frozen=True, tag="wide_classes"):
    """Weights of one class are too far apart."""

    width: float
    """Relative to the length of a row of U."""


class NoPermutation(Reason, frozen=True, tag="no_permutation"):
    """Weights are tied, and no permutation of outputs and inputs keeps all classes."""

    negatable_blocks: int = 0
    """Blocks that no weight connects, where there are several: each may be negated."""


class NoTransform(Reason, frozen=True, tag="no_transform"):
    """No rotation or flip maps filters to filters."""

    nearest: str
    error: float
    margin: float
    most_error: float
    least_margin: float


class TransformsAlone(Reason, frozen=True, tag="transforms_alone"):
    """Some rotations or flips fit, but transforms that follow from them do not."""

    names: tuple[str, ...]


class TransformsByChance(Reason, frozen=True, tag="transforms_by_chance"):
    """Some rotations or flips may fit by chance."""

    names: tuple[str, ...]


class LearnedBySteps(Reason, frozen=True, tag="learned_by_steps"):
    """U was learned by outer steps, which may leave no pattern where tasks have a symmetry."""

    inner_steps: bool
    """Whether tasks adapt by steps too; else they are solved exactly."""
    remedy: str
    """``"one-hot targets"``, ``"a linear layer"`` or ``"more data"``: what to use to decide it."""


class Bound(msgspec.Struct, frozen=True):
    """How large a group's defect may be."""

    name: str
    order: int
    defect_upper: float
    class_defect_upper: float
    refuted_above: tuple[tuple[str, int, float], ...] = ()
    """Larger groups that hold only nearly: name, order, defect."""
    faint_weights: int = 0
    """Weights that are too faint for their classes to be known by their own size."""


class NotLinear(Reason, frozen=True, tag="not_linear"):
    """A linear layer leaves so much of y that is not linear in the inputs that it could break any symmetry."""

    share: float
    linear_part: Bound | None = None
    """What the linear part alone has."""
    nearest: tuple[str, int] | None = None
    """Else the nearest group of the linear part: name, order."""


class InputsNeverVary(Reason, frozen=True, tag="inputs_never_vary"):
    """In some direction the inputs of all tasks never vary: the weights along it can be anything."""


class NotContradicted(Reason, frozen=True, tag="not_contradicted"):
    """The tasks do not contradict a group, and cannot bound its defect as tightly as asked."""

    name: str
    order: int
    bound: float | None
    """The tightest bound that noise allows; None where nothing could have been contradicted."""
    tolerance: float
    examples: int


class WeightsOpen(Reason, frozen=True, tag="weights_open"):
    """The examples are too few to determine the weights of any task, and what tasks share suggests no symmetry."""

    examples: int


class NoiseHides(Reason, frozen=True, tag="noise_hides"):
    """Noise hides defects up to this size."""

    defect: float


class NearestRefuted(Reason, frozen=True, tag="nearest_refuted"):
    """Held-out tasks refute every group: this is the largest within the tolerance, else of the nearest."""

    name: str
    order: int
    defect: float
    defect_upper: float | None = None
    within: bool = False
    """Whether no larger defect than the tolerance is allowed: it holds nearly."""


class TasksDiffer(Reason, frozen=True, tag="tasks_differ"):
    """Most tasks have a group; the others differ so much that over all tasks its defect may exceed the tolerance."""

    name: str
    order: int
    defect_upper: float
    tolerance: float


class NoiseUnlikeModel(Reason, frozen=True, tag="noise_unlike_model"):
    """The weights are less noisy than the residuals suggest: noise that is larger for small inputs, for example."""

    name: str
    order: int
    deviations: float
    """Standard errors by which the squared defect, with the expected noise subtracted, is below zero."""


class ExamplesDependent(Reason, frozen=True, tag="examples_dependent"):
    """The noise of successive examples is correlated: they are not independent, and no error of weights is known."""

    correlation: float


class NothingNear(Reason, frozen=True, tag="nothing_near"):
    """No signed permutation comes near what tasks share, except sign changes of parts that no weight connects."""

    negatable_blocks: int = 0
    """Blocks that no weight connects, where there are several: each may be negated, whatever its weights are."""


AnyReason = (
    NothingLearned
    | WeightTooLarge
    | NoTiesInFactors
    | NoGap
    | TooFewTies
    | SmallMargin
    | Unexplained
    | WideClasses
    | NoPermutation
    | NoTransform
    | TransformsAlone
    | TransformsByChance
    | LearnedBySteps
    | NotLinear
    | InputsNeverVary
    | NotContradicted
    | WeightsOpen
    | NoiseHides
    | NearestRefuted
    | NothingNear
    | TasksDiffer
    | NoiseUnlikeModel
    | ExamplesDependent
)


@dataclass(frozen=True)
class Verdict:
    """What is known, and why. The report holds the claim itself: the group and the ladder."""

    status: Status
    reasons: tuple[AnyReason, ...] = ()
    tasks: int | None = None
    """Tasks that its bounds are about: all of the file; None where it was not tested on tasks."""
    directions: int | None = None
    """Directions of the tasks' prior that are in use, where U was learned by evidence."""

    def __repr__(self) -> str:
        tasks = "" if self.tasks is None else f", {self.tasks} tasks"
        why = ", ".join(type(reason).__name__ for reason in self.reasons)
        return f"Verdict({self.status}{tasks}{f', because: {why}' if why else ''})"
