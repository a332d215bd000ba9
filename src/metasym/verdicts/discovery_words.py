"""What ``discover`` found, in words: the one place where they are made, for the terminal, JSON and page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from metasym.groups.signed_groups import SignedGroup
from metasym.verdicts.claims import CandidateVerdict, Claim, Kind
from metasym.verdicts.defect_words import measured, percent
from metasym.verdicts.discovery_reasons import (
    AffineFunction,
    AnyDiscoveryReason,
    BetaUndetermined,
    BracketsLeave,
    CallsAllow,
    DependentOutputs,
    EveryDirectionChanges,
    EveryMoveRefuted,
    ExplainedBetter,
    FewDirectionsTold,
    FewRowsDiffer,
    FewValues,
    GroupTooLarge,
    HardlyMatters,
    InputsCarryTooLittle,
    LeavesInputs,
    LikelierWithout,
    MovesNoOutput,
    NearSymmetry,
    NeverComesBack,
    NoClearGap,
    NoDirectionTold,
    NoisyFunction,
    NoneKept,
    NoneLikely,
    NoneSeemsKept,
    NoPointsBeside,
    NotAnAlgebra,
    NotClosedAtWholeFrequencies,
    NotForFamilies,
    NotRotations,
    NotShownToBeNoise,
    NumberOfInvariants,
    RefutedByBeta,
    RefutedByCalls,
    RefutedByPolynomial,
    RefutedBySameTerms,
    RepeatedOutputs,
    SearchDidNotEnd,
    SizesOutOfReach,
    StepFunction,
    TooManyInputs,
)
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
from metasym.verdicts.group_words import joined, moves_words
from metasym.verdicts.reports import order_words
from metasym.verdicts.status_thresholds import EXACT_CLAIM, WIDE_BETA

NOTHING = "no symmetry is claimed"
_MAPS = "the tasks' linear maps"
_NEAR = "may hold only nearly"
_TOO_MANY = 100
"""No sentence advises measuring this many times as many examples."""


def claims_words(claims: Sequence[Claim]) -> str:
    """What is claimed, in one line."""
    return "; ".join(claim_words(claim) for claim in claims) or NOTHING


def claim_words(claim: Claim) -> str:
    """``finite symmetry D_4, of order 8: inputs 0 to 3 behave like a ring that may be turned and reflected``."""
    near = claim.defect is not None and claim.defect > EXACT_CLAIM
    within = f", within {percent(claim.defect_upper)}" if near else ""
    return f"{claim.kind} symmetry {sized(claim.name, claim.kind, claim.size)}{_acting(claim)}{within}"


def _acting(claim: Claim) -> str:
    """What a claim does: the moves of a finite group, the inputs and outputs of an algebra."""
    if claim.kind == "finite":
        shape = claim.moves[0].shape
        group = SignedGroup(claim.moves, shape, known_order=claim.size)
        return f": {moves_words(group, claim.input_names, claim.output_names)}"
    sides = (("input", claim.inputs, claim.input_names), ("output", claim.outputs, claim.output_names))
    where = [
        joined(tuple(names[i] for i in points)) if names else f"{side}s {_runs(points)}"
        for side, points, names in sides
        if points
    ]
    return f", acting on {' and '.join(where)}"


def sized(name: str, kind: Kind, size: int) -> str:
    """``D_4, of order 8``; the size once where the name is ``a group of order 32``."""
    word = "dimension" if kind == "continuous" else "order"
    return name if name.endswith(f"of {word} {size}") else f"{name}, of {word} {order_words(size)}"


def kept_words(claims: Sequence[Claim], left_out: Sequence[CandidateVerdict] = ()) -> str:
    """Return the progress line of a search that ended with claims."""
    kept = "; ".join(f"{claim.name} is kept" for claim in claims)
    return "; ".join([kept, *(candidate_words(one) for one in left_out)])


def candidate_words(candidate: CandidateVerdict) -> str:
    """Why a candidate is not claimed."""
    return "; ".join(refusal_words(reason) for reason in candidate.reasons)


def refusal_words(reason: AnyDiscoveryReason) -> str:
    """One reason, with its numbers."""
    match reason:
        case EveryDirectionChanges(what):
            return f"every direction changes the {what}"
        case NoDirectionTold():
            return "the data distinguish no direction from any other"
        case NoClearGap(gap, least):
            return f"no clear gap between directions of symmetry and the others ({gap:.1f} < {least:g})"
        case BracketsLeave(quiet):
            return f"{quiet} quiet directions are not closed under brackets"
        case NumberOfInvariants(quiet, invariants):
            return f"{quiet} quiet directions have {invariants} invariants of degree 1 and 2"
        case SearchDidNotEnd():
            return "the search did not end"
        case FewDirectionsTold(told):
            return f"the data distinguish only {told} directions from the others"
        case AffineFunction():
            return "the function is affine: a move of its inputs matches any change of its outputs"
        case SizesOutOfReach(examples, inputs, outputs):
            return (
                f"the search does not fit {examples} examples, {inputs} inputs and {outputs} outputs: the examples "
                "are too few, or the inputs and outputs too many"
            )
        case DependentOutputs():
            return "outputs follow from one another up to noise, so pairs of moves are not unique"
        case TooManyInputs(most, inputs):
            return f"expected at most {most} inputs, found {inputs}"
        case NotForFamilies():
            return "the search supports single functions, not yet families"
        case EveryMoveRefuted(tried, unlike):
            return f"held-out data refute each of {tried} signed permutations{_unlike(unlike)}"
        case NoneLikely(0, unlike):
            return f"no signed permutation preserves the distribution of the inputs{_unlike(unlike)}"
        case NoneLikely(tried, unlike):
            return f"each of {tried} signed permutations makes the data less likely{_unlike(unlike)}"
        case NoneKept(tried):
            return f"the function changes under each of the {tried} signed permutations tried"
        case NoneSeemsKept(tried, noise):
            return (
                f"the function seems to change under each of the {tried} signed permutations tried, but repeated "
                f"calls differ by {measured(noise)}, which may hide one that it keeps"
            )
        case NoisyFunction():
            return "repeated calls give different results, so no derivatives were taken"
        case NoPointsBeside():
            return "the function does not take points next to its inputs, so no derivatives were taken"
        case StepFunction():
            return "the function changes in steps or at kinks, and its derivatives do not show how"
        case GroupTooLarge(moves, most):
            return f"{moves} moves generate a group of more than {most} elements"
        case (
            TooFewTasks() | TooFewExamples() | MapTooLarge() | ZerosUnclear() | NoLinearPart() | NoGapInTies()
        ):
            return _of_maps(reason)
        case TiesNotClasses():
            return f"ties between entries of {_MAPS} do not form classes"
        case NoPermutationOfTies():
            return f"no permutation preserves the ties between entries of {_MAPS}"
        case _:
            return f"{reason.name} {_about(reason)}"


def _of_maps(
    reason: TooFewTasks | TooFewExamples | MapTooLarge | ZerosUnclear | NoLinearPart | NoGapInTies,
) -> str:
    match reason:
        case TooFewTasks(least, tasks):
            return f"at least {least} tasks are needed to find a group on some and test it on others, found {tasks}"
        case TooFewExamples(least, inputs, examples):
            return f"expected at least {least} examples per task for {inputs} inputs, found {examples}"
        case MapTooLarge(most, outputs, inputs):
            return f"expected at most {most} entries of a linear map, found {outputs} x {inputs}"
        case ZerosUnclear():
            return f"it is unclear which entries of {_MAPS} are zero"
        case NoLinearPart():
            return "the tasks have no linear part to read"
        case NoGapInTies():
            return "no gap separates entries that are tied in all tasks from the others"


def _about(
    reason: RefutedByBeta
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
    | RepeatedOutputs
    | RefutedByCalls
    | CallsAllow
    | TiesDiffer
    | RefutedByTasks
    | MapsAllow
    | JudgesDiffer
    | InputsElsewhere
    | TasksAllow
    | CommonAllows,
) -> str:
    """What follows the name of the group or algebra."""
    match reason:
        case RefutedByBeta(_, beta, low, high, on):
            by = "by held-out data" if on == "examples" else "by functions fitted to held-out tasks"
            return f"is refuted {by}: {interval_words(beta, low, high)}"
        case BetaUndetermined(_, beta, low, high):
            said = interval_words(beta, low, high)
            return f"is neither claimed nor refuted: {said}; use more examples to decide it"
        case LikelierWithout(_, part):
            return (
                f"{_NEAR}: the data are more likely if {part:.2g} of the variance breaks it, but held-out data do "
                "not confirm that, and kinks of the function have the same effect; use more examples to decide it"
            )
        case FewRowsDiffer(_, rows, count, share, upper, tolerance):
            listed = ", ".join(map(str, rows)) + (", ..." if count > len(rows) else "")
            return (
                f"{_NEAR}: {count} examples ({listed}) are far from what it predicts; they hold {share:.2g} of the "
                f"variance, at most {upper:.2g} among further ones (tolerance {tolerance:g} of what its inputs "
                "carry); use more examples near them to decide it"
            )
        case RefutedByPolynomial(_, left, broken):
            return (
                f"is refuted by a polynomial that leaves at most {left:.2g} of the variance of held-out data "
                f"unexplained: the group does not preserve {broken:.2g} of it"
            )
        case RefutedBySameTerms(_, f):
            return f"is refuted: polynomials with the same terms and without it fit better (F = {f:.3g})"
        case ExplainedBetter():
            return "does not explain everything: a model with another symmetry explains the data better"
        case NearSymmetry(_, violation, tolerance, named_up_to):
            return (
                f"{_NEAR}: the data allow a violation of {violation:.2g} of the variance (tolerance "
                f"{named_up_to:.2g}, {tolerance:g} of what its inputs carry); {_needed_words(reason)}"
            )
        case NotShownToBeNoise(_, left_over, floor):
            return (
                f"{_NEAR}: its model leaves {left_over:.2g} of the variance unexplained, a model without symmetry "
                f"{floor:.2g}; neither shows that the rest is noise; use more examples to decide it"
            )
        case NotAnAlgebra():
            return "cannot be decided: its brackets leave it by more than rounding error"
        case HardlyMatters(_, None):
            return "moves only inputs that the function does not depend on"
        case HardlyMatters(_, share):
            return f"moves only inputs that the function hardly depends on: {share:.2g} of the variance"
        case InputsCarryTooLittle():
            return "moves inputs that carry too little of the variance for its bound to say anything"
        case FewValues(_, values):
            return f"moves an input that has only {values} values"
        case LeavesInputs():
            return "breaks an equation that the inputs satisfy"
        case NotRotations():
            return "is not made of rotations, so no average over it exists"
        case NeverComesBack():
            return "has turns that never return to their start"
        case NotClosedAtWholeFrequencies():
            return "is not closed under brackets at whole frequencies"
        case MovesNoOutput():
            return "moves no output"
        case RepeatedOutputs():
            return "moves an output that is repeated to one that is not"
        case RefutedByCalls(_, defect, most):
            return f"is refuted by calls: its defect is {measured(defect)} (tolerance {percent(most)})"
        case CallsAllow(_, defect, upper, most):
            return (
                f"{_NEAR}: its defect is {measured(defect)}, and the calls allow up to {percent(upper)} (tolerance "
                f"{percent(most)})"
            )
        case TiesDiffer(_, difference, upper, most):
            bound = "not bounded" if upper is None else f"at most {upper:.2g}"
            return (
                f"{_NEAR}: entries of {_MAPS} that it ties differ in the same way in all tasks, by {difference:.2g} "
                f"of their power, {bound} (tolerance {most:g})"
            )
        case RefutedByTasks(_, defect, upper):
            bound = "" if upper is None else f", at most {percent(upper)}"
            return f"is refuted by {_MAPS}: its defect is {measured(defect)}{bound}"
        case MapsAllow(_, defect, upper, most):
            bound = "any defect" if upper is None else f"up to {percent(upper)}"
            return f"{_NEAR}: its defect is {measured(defect)}, and {_MAPS} allow {bound} (tolerance {percent(most)})"
        case JudgesDiffer(_, beta, low, high, defect_upper):
            said = interval_words(beta, low, high)
            return (
                f"cannot be decided: functions fitted to held-out tasks contradict it ({said}), but {_MAPS} do not "
                f"(defect below {percent(defect_upper)}), and the tasks look linear"
            )
        case InputsElsewhere():
            return (
                "cannot be decided: it moves inputs to where there are no data: their means or sizes differ"
            )
        case TasksAllow(_, beta, low, high, violation, most):
            return (
                f"{_NEAR}: {interval_words(beta, low, high)} allows a violation of {violation:.2g} of the variance "
                f"(tolerance {most:g})"
            )
        case CommonAllows(_, violation, most):
            return (
                f"{_NEAR}: what all tasks share allows a violation of {violation:.2g} of the variance (tolerance "
                f"{most:g})"
            )


def _needed_words(reason: NearSymmetry) -> str:
    """Return how many examples would decide, if the number is not too large to be useful."""
    if reason.needed > _TOO_MANY * reason.examples:
        return f"{_TOO_MANY} times as many examples would not decide it"
    needed = math.ceil(float(f"{reason.needed:.1e}"))
    more = needed > reason.examples
    count = f"about {needed} examples instead of" if more else "a few examples more than"
    return f"{count} {reason.examples} would decide it, if the bound falls like that of noise"


def interval_words(beta: float | None, low: float | None, high: float | None) -> str:
    """``beta 0.1 (-0.2 to 0.4; a true symmetry has 0)``; of a wide interval no number is worth reading."""
    if beta is None or low is None or high is None:
        return "beta not finite"
    if high - low > WIDE_BETA:
        return "beta is undetermined: almost nothing in the model breaks the symmetry"
    return f"beta {beta:.2g} ({low:.2g} to {high:.2g}; a true symmetry has 0)"


def _unlike(count: int) -> str:
    return (
        f"; {count} that the shape suggests would exchange inputs of different distributions" if count else ""
    )


def _runs(numbers: Sequence[int]) -> str:
    """``0-4, 7``: numbers in runs."""
    runs: list[list[int]] = []
    for i in numbers:
        if runs and i == runs[-1][-1] + 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
