"""The verdict on a layer in words: the one place where they are made, for the terminal, JSON, page and notebook."""

from __future__ import annotations

import math

from metasym.verdicts.defect_words import (
    breaking_words,
    capital,
    differing_words,
    faint_words,
    measured,
    negatable_words,
    percent,
    sentences,
)
from metasym.verdicts.reports import (
    FoundGroup,
    LayerReport,
    SharingPattern,
)
from metasym.verdicts.status_thresholds import PLAIN
from metasym.verdicts.verdict import (
    AnyReason,
    Bound,
    ExamplesDependent,
    InputsNeverVary,
    LearnedBySteps,
    NearestRefuted,
    NoGap,
    NoiseHides,
    NoiseUnlikeModel,
    NoPermutation,
    NotContradicted,
    NothingLearned,
    NothingNear,
    NoTiesInFactors,
    NotLinear,
    NoTransform,
    SmallMargin,
    Status,
    TasksDiffer,
    TooFewTies,
    TransformsAlone,
    TransformsByChance,
    Unexplained,
    WeightsOpen,
    WeightTooLarge,
    WideClasses,
)

WEAKER = 0.05
"""Singular values of U beyond those that are used are mentioned above this part of the largest."""
_OWN_SIZE = 0.01
"""Bounds of classes of tied weights by their own size are given above this, where twice as large as the bound."""
_NOISY = 0.5
"""Residuals of a pattern from which the words say that part of U is noise."""
_ALSO = 2
"""So many larger groups that hold only nearly are listed with a certified one."""
NOT_TESTED = "Not tested: other kinds of symmetry, such as rotations that mix inputs"
_MORE = "Use more tasks, more examples or less noisy data"
_REMEDIES = {
    "one-hot targets": "one-hot targets (y of floats, [tasks, examples, classes]) with --model fc, which is solved "
    "exactly",
    "a linear layer": "--model fc: one linear layer, solved exactly and tested on the test tasks",
    "more data": "more tasks or more examples per task",
}


def verdict_words(layer: LayerReport) -> str:
    """Return what is known of a layer, with its evidence, without a full stop. Weaker evidence gets weaker words.

    Args:
        layer: The report on the layer.
    """
    return f"{_known(layer)}. {_used(layer)}"


def shortest_reason(layer: LayerReport) -> str:
    """Why nothing more is known of a layer, or what was found."""
    reasons = layer.verdict.reasons
    return reason_words(reasons[-1], layer) if reasons else summary_words(layer)


def sentence(layer: LayerReport) -> str:
    """The verdict as a sentence."""
    return f"{capital(verdict_words(layer))}."


def extra_notes(layer: LayerReport) -> tuple[str, ...]:
    """The notes that the verdict's words do not hold: about Kronecker factors they are what was found."""
    return () if layer.pattern is None and layer.kind == "kronecker" else layer.notes


def summary_words(layer: LayerReport) -> str:
    """The verdict without its evidence: ``nearly Z_8``, ``shift by 1 on 67 of 68 rows``, ``undecided``."""
    if layer.group is not None:
        return ("nearly " if layer.group.approximate else "") + layer.group.name
    return _shifts(layer) or nothing_words(layer)


def nothing_words(layer: LayerReport) -> str:
    """What tables say where no group is named."""
    return "undecided" if layer.undecided else "none found"


def _known(layer: LayerReport) -> str:
    verdict = layer.verdict
    if verdict.status in (Status.CERTIFIED, Status.APPROXIMATE):
        return _certified(layer)
    if verdict.status is Status.READ:
        return _read(layer)
    if layer.verdict.reasons and isinstance(layer.verdict.reasons[0], LearnedBySteps):
        first, *rest = verdict.reasons
        seen = sentences(*(reason_words(one, layer, none="nothing was read") for one in rest))
        return f"{reason_words(first, layer)}. From U alone: {seen or 'nothing was read'}"
    shifts = [_translation(layer)] if layer.partial else []
    return sentences(*(reason_words(one, layer) for one in verdict.reasons), *shifts)


def _translation(layer: LayerReport) -> str:
    return f"translation structure, {_shifts(layer)}: read from U, not certified"


def _used(layer: LayerReport) -> str:
    """How much of the filter matters, and how strong the rest is where it is not small."""
    if layer.verdict.directions is not None:
        return f"U uses {layer.verdict.directions} of {math.prod(layer.weight_shape)} directions"
    size, values = layer.effective_filter_size, layer.singular_values
    if 0 < size < len(values) and values[size] > WEAKER * values[0]:
        weaker = f"; the others contribute up to {values[size] / values[0]:.0%} as much"
        return f"U mainly uses {size} of {layer.filter_size} filter entries{weaker}"
    return f"U uses {size} of {layer.filter_size} filter entries"


def _certified(layer: LayerReport) -> str:
    """``equivariant to Z_8, order 8 (defect below 0.1 %, 95 %, over all 100 tasks)``, and more."""
    named = next(rung for rung in layer.ladder if rung.certified)
    above = [r for r in layer.ladder if r.refuted and r.order > named.order]
    claim = claim_words(named.bound(above), layer.verdict.tasks or 0)
    carriers: dict[str, list[str]] = {}
    for rung in above[-_ALSO:]:
        if rung.breaking and rung.breaking.alone:
            carriers.setdefault(breaking_words(rung.breaking, layer), []).append(rung.name)
    broken = [f". What breaks {' and '.join(names)}: {words}" for words, names in carriers.items()]
    faint = f". {capital(faint_words(named.faint, layer))}" if named.faint else ""
    return f"{claim}{faint}{''.join(broken)}{_differing(layer)}"


def _differing(layer: LayerReport) -> str:
    return "" if layer.differing is None else f". {capital(differing_words(layer.differing, layer))}"


def claim_words(bound: Bound, tasks: int) -> str:
    """That a group is certified, how nearly, and on how many tasks."""
    weak = ""
    if bound.class_defect_upper > max(2 * bound.defect_upper, _OWN_SIZE):
        weak = f"; below {percent(bound.class_defect_upper)} for every class of tied weights by its own size"
    if bound.faint_weights:
        weak += f"; {bound.faint_weights} weights are too faint to be measured by their own size"
    exact = max(bound.defect_upper, bound.class_defect_upper) <= PLAIN
    within = "" if exact else f"within {percent(bound.defect_upper)} "
    above = "".join(
        f". {capital(called(name, order))} is refuted: it holds only within {percent(defect)}"
        for name, order, defect in bound.refuted_above[-_ALSO:]
    )
    return (
        f"{within}equivariant to {called(bound.name, bound.order)} (defect below {percent(bound.defect_upper)} at "
        f"95 % confidence, over all {tasks} tasks{weak}){above}"
    )


def _read(layer: LayerReport) -> str:
    """What U shows, without a certificate."""
    group, pattern, shifts = layer.group, layer.pattern, _shifts(layer)
    if group is None:
        if layer.verdict.tasks is not None:
            return _translation(layer)
        assert pattern is not None
        return (
            f"translation structure, {shifts}: no permutation of all outputs and inputs preserves the classes; "
            f"{_ties(pattern)}{_evidence(pattern)}"
        )
    if pattern is None:
        return (
            f"{_claim(group)} {group.name}, of order {group.order_in_words}: exchanges of equal rows of the "
            f"Kronecker factors; {'; '.join(layer.notes)}{_nearly(group)}"
        )
    if layer.spatial:
        names = [generator.transform for generator in group.generators]
        margin = min(one.margin for one in layer.spatial if one.name in names)
        return (
            f"{_claim(group)} {group.name}, of order {group.order_in_words}, generated by {' and '.join(names)}: "
            f"each maps filters to filters, permuting the output channels (error {group.error:.2g}, margin "
            f"{margin:.3g}){_nearly(group)}"
        )
    also = f"; also, up to borders, {shifts}" if shifts else ""
    return f"{_group(group)}{also}; {_ties(pattern)}{_evidence(pattern)}{_nearly(group)}"


def reason_words(reason: AnyReason, layer: LayerReport, *, none: str = "no symmetry found") -> str:
    """One reason in words, about this layer; ``none`` is the text if reading U found nothing."""
    match reason:
        case NothingLearned():
            return f"{none}: U is zero, so nothing was learned"
        case WeightTooLarge():
            return "not read: the weight is too large to compute its sharing pattern"
        case NoTiesInFactors():
            return f"{none} in the Kronecker factors: {'; '.join(layer.notes)}"
        case NoGap(margin):
            return f"{none}: no gap separates tied weights from the others (margin {margin:.2f})"
        case TooFewTies():
            return f"{none}: too few weights are tied to rule out chance"
        case SmallMargin(margin, least):
            return f"pattern unclear: its margin is {margin:.2f}, below {least:g}. No group is named"
        case Unexplained(residual, dominant):
            return (
                f"pattern unclear: it leaves {residual:.0%} of U unexplained, and {dominant:.0%} of the dominant "
                "directions of U. No group is named"
            )
        case WideClasses(width):
            return (
                f"pattern unclear: its classes are {width:.2f} wide, relative to the length of a row of U. No group "
                "is named"
            )
        case TransformsAlone(names):
            return (
                f"rotations and flips unclear: {', '.join(names)} fit, but transforms that follow from them do not. "
                f"No group is named{_clear_ties(layer)}"
            )
        case TransformsByChance(names):
            return (
                f"rotations and flips unclear: {', '.join(names)} may fit by chance, because U has too few "
                f"directions or its filters are too smooth. No group is named{_clear_ties(layer)}"
            )
        case InputsNeverVary():
            return (
                "undecided: in some direction the inputs of all tasks never vary (constant or equal columns, or "
                "columns with a constant sum). The weights along it can be anything. Remove such columns"
            )
        case WeightsOpen(examples):
            return (
                f"undecided: {examples} examples per task do not determine the weights of any task, and what the "
                "tasks share does not suggest a symmetry. Use more examples per task"
            )
        case NoiseHides(defect):
            return f"undecided: the noise hides defects up to {percent(defect)}. {_MORE}"
        case NearestRefuted():
            return _nearest(reason, layer)
        case TasksDiffer(name, order, defect_upper, tolerance):
            return (
                f"no symmetry of all tasks: most have {called(name, order)}, but over all tasks its defect may be up "
                f"to {percent(defect_upper)} (tolerance {percent(tolerance)}){_differing(layer)}. {NOT_TESTED}"
            )
        case NoiseUnlikeModel(name, order, deviations):
            return (
                "undecided: no bound can be given, because the weights of the tasks are less noisy than the "
                f"residuals of y suggest (the squared defect of {called(name, order)}, with the expected noise "
                f"subtracted, is {-deviations:.2g} standard errors below zero). Noise that is larger where inputs "
                "are small has this effect"
            )
        case ExamplesDependent(correlation):
            return (
                "undecided: the examples are not independent; the noise of successive examples is correlated "
                f"({correlation:.2g}). Use fewer examples further apart, or differences of successive examples"
            )
        case NothingNear(blocks):
            return (
                "no symmetry: no permutation of outputs and inputs, with or without signs, comes near what the tasks "
                f"share{negatable_words(blocks)}. {NOT_TESTED}"
            )
        case NoPermutation():
            return _no_permutation(reason, layer, none)
        case NoTransform():
            return _no_transform(reason, layer, none)
        case LearnedBySteps():
            return _learned_by_steps(reason)
        case NotLinear():
            return _not_linear(reason, layer.verdict.tasks or 0)
        case NotContradicted():
            return _not_contradicted(reason)


def _nearest(reason: NearestRefuted, layer: LayerReport) -> str:
    upper = "" if reason.defect_upper is None else f", at most {percent(reason.defect_upper)}"
    rung = next((r for r in layer.ladder if (r.name, r.order) == (reason.name, reason.order)), None)
    breaking = None if rung is None else rung.breaking
    broken = "" if breaking is None else f". What breaks it: {breaking_words(breaking, layer)}"
    name, defect = called(reason.name, reason.order), f"{measured(reason.defect)}{upper}{broken}"
    said = f"the largest that nearly holds is {name}" if reason.within else f"the nearest, {name}, is refuted"
    return f"no exact symmetry: {said}; its defect is {defect}. {NOT_TESTED}"


def _no_transform(reason: NoTransform, layer: LayerReport, none: str) -> str:
    return (
        f"{none} among rotations and flips: the nearest, {reason.nearest}, has error {reason.error:.2g} "
        f"and margin {reason.margin:.2f} (required: at most {reason.most_error:g}, at least {reason.least_margin:g})"
        f"{_clear_ties(layer)}"
    )


def _no_permutation(reason: NoPermutation, layer: LayerReport, none: str) -> str:
    assert layer.pattern is not None
    return (
        f"{none}: {_ties(layer.pattern)}, but no permutation preserves all classes"
        f"{negatable_words(reason.negatable_blocks)}"
        f"{_evidence(layer.pattern)}"
    )


def _not_linear(reason: NotLinear, tasks: int) -> str:
    share = measured(reason.share)
    if reason.linear_part is not None:
        part = claim_words(reason.linear_part, tasks)
        return f"undecided by a linear layer: {share} of y is not linear in the inputs. Its linear part is {part}"
    near = (
        ""
        if reason.nearest is None
        else f". The nearest symmetry of the linear part would be {called(*reason.nearest)}"
    )
    return (
        f"undecided by a linear layer: it leaves {share} of y unexplained, which is neither linear in the inputs nor "
        f"noise{near}"
    )


def _not_contradicted(reason: NotContradicted) -> str:
    group = called(reason.name, reason.order)
    if reason.bound is None:
        return (
            f"undecided: the tasks do not contradict {group}, but {reason.examples} examples per task are too few to "
            "contradict anything. Use more examples per task"
        )
    return (
        f"undecided: the tasks do not contradict {group}, but their noise allows no bound on its defect below "
        f"{percent(reason.bound)} (tolerance {percent(reason.tolerance)}). {_MORE}"
    )


def _learned_by_steps(reason: LearnedBySteps) -> str:
    how = "steps of SGD" if reason.inner_steps else "outer steps"
    return (
        f"undecided: a U learned by {how} may show no pattern even if the tasks have a symmetry. To decide it, use "
        f"{_REMEDIES[reason.remedy]}"
    )


def called(name: str, order: int) -> str:
    """``Z_8, order 8``; a group without a name is called by its order already."""
    return name if name == unnamed(order) else f"{name}, order {order}"


def unnamed(order: int) -> str:
    """What a group is called that has no name."""
    return f"a group of order {order}"


def _shifts(layer: LayerReport) -> str:
    return " and ".join(shift.description for shift in layer.partial)


def _claim(group: FoundGroup) -> str:
    return "approximately equivariant to" if group.approximate else "equivariant to"


def _group(group: FoundGroup) -> str:
    order = f"of order {group.order_in_words}"
    named = f"a group {order}" if group.name == unnamed(group.order) else f"{group.name}, {order}"
    kind = "signed permutations (modulo -1)" if group.signed else "permutations"
    acts = "transitive" if group.transitive else "not transitive"
    return f"{_claim(group)} {named}: the largest group of {kind} with this sharing pattern, {acts}"


def _nearly(group: FoundGroup) -> str:
    if not group.approximate:
        return ""
    return (
        f". It holds only approximately, with error {group.error:.2g} (0 is exact, 1.41 unrelated): the symmetry of "
        "the tasks is itself approximate, there were too few tasks, or training was too short"
    )


def _ties(pattern: SharingPattern) -> str:
    entries = len(pattern.classes) * len(pattern.classes[0])
    zeros = f", {pattern.zeros} zero" if pattern.zeros else ""
    up_to = " up to sign" if pattern.signed else ""
    classes = "1 class" if pattern.count == 1 else f"{pattern.count} classes"
    return f"{entries} weights in {classes}{up_to}{zeros}"


def _clear_ties(layer: LayerReport) -> str:
    return f"; {_ties(layer.pattern)}" if layer.pattern is not None and layer.pattern.clear else ""


def _evidence(pattern: SharingPattern) -> str:
    found = f"residual {pattern.residual:.2g}, margin {pattern.margin:.3g}"
    if pattern.residual > _NOISY:
        found += f"; {pattern.residual**2:.0%} of the power of U is noise or was never trained"
    return f" ({found})"
