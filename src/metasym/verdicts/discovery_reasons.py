"""Why ``discover`` claims a symmetry or does not: a reason a class, with its numbers.

``outcome`` says what follows for the candidate: it is refuted, not refuted (nor certified), or was not examined.
"""

from __future__ import annotations

import math
from typing import Literal

from metasym.verdicts.family_reasons import (
    CommonAllows,
    InputsElsewhere,
    JudgesDiffer,
    MapsAllow,
    MapTooLarge,
    NoGapInTies,
    NoLinearPart,
    NoPermutationOfTies,
    RefutedByTasks,
    TasksAllow,
    TiesDiffer,
    TiesNotClasses,
    TooFewExamples,
    TooFewTasks,
    ZerosUnclear,
)
from metasym.verdicts.outcomes import About, DiscoveryReason, Outcome

# What a search for generators sees before anything has a name.


class EveryDirectionChanges(DiscoveryReason, frozen=True, tag="every_direction_changes"):
    """No direction of the space that was searched leaves the fitted function as it is."""

    outcome = Outcome.REFUTED
    what: Literal["function", "polynomial"] = "function"


class NoDirectionTold(DiscoveryReason, frozen=True, tag="no_direction_told"):
    """All directions are below the noise: the data distinguish none from any other."""


class NoClearGap(DiscoveryReason, frozen=True, tag="no_clear_gap"):
    """No gap separates directions of symmetry from the others."""

    gap: float
    least: float


class BracketsLeave(DiscoveryReason, frozen=True, tag="brackets_leave"):
    """The directions that are kept are not near any Lie algebra."""

    quiet: int


class NumberOfInvariants(DiscoveryReason, frozen=True, tag="number_of_invariants"):
    """The algebra has no polynomial invariants, or too many to fit a function of them."""

    quiet: int
    invariants: int


class SearchDidNotEnd(DiscoveryReason, frozen=True, tag="search_did_not_end"):
    """The search inside the algebra found ever smaller algebras and did not end."""


class FewDirectionsTold(DiscoveryReason, frozen=True, tag="few_directions_told"):
    """So many directions are below the noise that no algebra can be read."""

    told: int


class AffineFunction(DiscoveryReason, frozen=True, tag="affine_function"):
    """An affine function follows every change of its outputs."""


class SizesOutOfReach(DiscoveryReason, frozen=True, tag="sizes_out_of_reach"):
    """Too few examples, or too many inputs and outputs, for the equations of a polynomial's algebra."""

    outcome = Outcome.NOT_EXAMINED
    examples: int
    inputs: int
    outputs: int


class DependentOutputs(DiscoveryReason, frozen=True, tag="dependent_outputs"):
    """Outputs follow from each other up to noise: what moves them is not unique."""


class TooManyInputs(DiscoveryReason, frozen=True, tag="too_many_inputs"):
    """The space was not searched: its size grows with the inputs."""

    outcome = Outcome.NOT_EXAMINED
    most: int
    inputs: int


class NotForFamilies(DiscoveryReason, frozen=True, tag="not_for_families"):
    """The search for continuous symmetries supports single functions only."""

    outcome = Outcome.NOT_EXAMINED


# What held-out data, and other models, say about a candidate with a name.


class RefutedByBeta(About, frozen=True, tag="refuted_by_beta"):
    """What breaks the symmetry in a flexible model predicts what the symmetric model leaves."""

    outcome = Outcome.REFUTED
    beta: float
    low: float
    high: float
    on: Literal["examples", "tasks"] = "examples"


class BetaUndetermined(About, frozen=True, tag="beta_undetermined"):
    """What breaks the symmetry in a flexible model is too small to judge it, though it speaks against it."""

    beta: float
    low: float
    high: float


class LikelierWithout(About, frozen=True, tag="likelier_without"):
    """The data are more likely with a part that breaks the symmetry, but held-out data do not confirm that part.

    Smooth kernels also fit such a part to a symmetric function with kinks, so it refutes nothing.
    """

    part: float
    """The variance of that part at its likeliest, as a part of that of y."""


class FewRowsDiffer(About, frozen=True, tag="few_rows_differ"):
    """Some examples are far from what the symmetric model predicts: a violation in few places, or outliers."""

    rows: tuple[int, ...]
    """The largest first, at most ten, as the file counts them."""
    count: int
    share: float
    """Their share of the variance of y."""
    upper: float
    """The largest share that such rows hold among further ones, at 99 %."""
    tolerance: float


class RefutedByPolynomial(About, frozen=True, tag="refuted_by_polynomial"):
    """A polynomial that fits almost exactly has a part that the group does not preserve."""

    outcome = Outcome.REFUTED
    left: float
    """The part of the variance that the polynomial leaves, at most."""
    broken: float
    """The part that the group does not preserve."""


class RefutedBySameTerms(About, frozen=True, tag="refuted_by_same_terms"):
    """Polynomials with the same terms that do not have the symmetry fit better, by an F test."""

    outcome = Outcome.REFUTED
    f: float


class ExplainedBetter(About, frozen=True, tag="explained_better"):
    """A model with another symmetry has the higher evidence: what this one leaves is not all noise."""


class NearSymmetry(About, frozen=True, tag="near_symmetry"):
    """The data allow a violation that is too large, as a part of the variance, for the symmetry to be named."""

    violation: float
    tolerance: float
    """As a part of the variance that the moved inputs carry."""
    named_up_to: float
    """The same as a part of the whole variance."""
    examples: int
    """That the bound rests on."""

    @property
    def needed(self) -> float:
        """How many examples would allow no more than ``named_up_to``, if the bound falls as that of noise does."""
        return self.examples * self.violation / self.named_up_to if self.named_up_to > 0 else math.inf


class NotShownToBeNoise(About, frozen=True, tag="not_shown_to_be_noise"):
    """The residual of the symmetric model may be a rough violation: no other model shows that it is noise."""

    left_over: float
    floor: float
    """The residual of a model without any symmetry."""


class NotAnAlgebra(About, frozen=True, tag="not_an_algebra"):
    """Brackets of the generators leave their span by more than rounding error."""


class HardlyMatters(About, frozen=True, tag="hardly_matters"):
    """The inputs that it moves carry almost none of the variance."""

    share: float | None = None
    """The part of the variance that they carry; None where it is none at all."""


class InputsCarryTooLittle(About, frozen=True, tag="inputs_carry_too_little"):
    """A part of a claimed algebra moves inputs that carry too little for the bound to say anything about them."""


class FewValues(About, frozen=True, tag="few_values"):
    """It moves an input that has only a few values."""

    values: int


class LeavesInputs(About, frozen=True, tag="leaves_inputs"):
    """It breaks an equation that all inputs satisfy."""


class NotRotations(About, frozen=True, tag="not_rotations"):
    """The algebra is not compact: no average over it exists."""


class NeverComesBack(About, frozen=True, tag="never_comes_back"):
    """Frequencies are not whole multiples of one: the group of a generator is no circle."""


class NotClosedAtWholeFrequencies(About, frozen=True, tag="not_closed_at_whole_frequencies"):
    """Generators moved to whole frequencies are no longer closed under brackets."""


class MovesNoOutput(About, frozen=True, tag="moves_no_output"):
    """It is a candidate for symmetries that move outputs, and it moves none."""


# Finite groups.


class EveryMoveRefuted(DiscoveryReason, frozen=True, tag="every_move_refuted"):
    """Held-out data refute every signed permutation that was tried, each by beta."""

    outcome = Outcome.REFUTED
    tried: int
    unlike: int = 0
    """Permutations that a shape suggests, but that would exchange inputs of different distributions."""


class NoneLikely(DiscoveryReason, frozen=True, tag="none_likely"):
    """Every signed permutation that was tried makes the data less likely; not all are refuted."""

    tried: int
    unlike: int = 0
    """Permutations that a shape suggests, but that would exchange inputs of different distributions."""


class GroupTooLarge(DiscoveryReason, frozen=True, tag="group_too_large"):
    """The moves generate a group that is too large to list."""

    outcome = Outcome.NOT_EXAMINED
    moves: int
    most: int


class RepeatedOutputs(About, frozen=True, tag="repeated_outputs"):
    """It takes an output that is repeated to one that is not."""

    outcome = Outcome.REFUTED


# Functions that are called.


class RefutedByCalls(About, frozen=True, tag="refuted_by_calls"):
    """Calls at fresh points show a defect that is too large for the symmetry to be named."""

    outcome = Outcome.REFUTED
    defect: float
    """Relative root mean square."""
    most: float


class CallsAllow(About, frozen=True, tag="calls_allow"):
    """Calls at fresh points allow a defect that is too large."""

    defect: float
    upper: float
    most: float


class NoneKept(DiscoveryReason, frozen=True, tag="none_kept"):
    """The function changes under every signed permutation that was tried."""

    outcome = Outcome.REFUTED
    tried: int


class NoneSeemsKept(DiscoveryReason, frozen=True, tag="none_seems_kept"):
    """The function seems to change under every signed permutation that was tried, but its noise may do that."""

    outcome = Outcome.NOT_REFUTED
    tried: int
    noise: float
    """The root mean square of repeated calls about their mean, relative to the outputs' standard deviation."""


class NoisyFunction(DiscoveryReason, frozen=True, tag="noisy_function"):
    """Derivatives of a function whose repeated calls differ were not taken."""

    outcome = Outcome.NOT_EXAMINED


class NoPointsBeside(DiscoveryReason, frozen=True, tag="no_points_beside"):
    """The function does not take points beside its inputs, so that it has no derivatives."""

    outcome = Outcome.NOT_EXAMINED


class StepFunction(DiscoveryReason, frozen=True, tag="step_function"):
    """The derivatives are constant but the function is not affine: it changes in steps or at kinks."""

    outcome = Outcome.NOT_EXAMINED


AnyDiscoveryReason = (
    EveryDirectionChanges
    | NoDirectionTold
    | NoClearGap
    | BracketsLeave
    | NumberOfInvariants
    | SearchDidNotEnd
    | FewDirectionsTold
    | AffineFunction
    | SizesOutOfReach
    | DependentOutputs
    | TooManyInputs
    | NotForFamilies
    | RefutedByBeta
    | BetaUndetermined
    | LikelierWithout
    | FewRowsDiffer
    | RefutedByPolynomial
    | RefutedBySameTerms
    | ExplainedBetter
    | NearSymmetry
    | NotShownToBeNoise
    | NotAnAlgebra
    | HardlyMatters
    | InputsCarryTooLittle
    | FewValues
    | LeavesInputs
    | NotRotations
    | NeverComesBack
    | NotClosedAtWholeFrequencies
    | MovesNoOutput
    | EveryMoveRefuted
    | NoneLikely
    | GroupTooLarge
    | RepeatedOutputs
    | RefutedByCalls
    | CallsAllow
    | NoneKept
    | NoneSeemsKept
    | NoisyFunction
    | NoPointsBeside
    | StepFunction
    | TooFewExamples
    | TooFewTasks
    | MapTooLarge
    | ZerosUnclear
    | NoLinearPart
    | NoGapInTies
    | TiesNotClasses
    | NoPermutationOfTies
    | TiesDiffer
    | RefutedByTasks
    | MapsAllow
    | JudgesDiffer
    | InputsElsewhere
    | TasksAllow
    | CommonAllows
)
