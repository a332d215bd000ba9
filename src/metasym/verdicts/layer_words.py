"""The verdict on a layer in words: the one place where they are made, for the terminal, JSON, page and notebook."""

from __future__ import annotations

import math

from metasym.verdicts.defect_words import breaking_words, differing_words, negatable_words, percent
from metasym.verdicts.reports import (
    PLAIN,
    FoundGroup,
    LayerReport,
    SharingPattern,
)
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
_NOISY = 0.5
"""Residuals of a pattern from which the words say that part of U is noise."""
_ALSO = 2
"""Larger groups that hold only nearly, beside a certified one."""
_NOT_LOOKED_FOR = "symmetries of other kinds, such as rotations that mix inputs, were not looked for"
_REMEDIES = {
    "one-hot targets": "one-hot targets (y of floats, [tasks, examples, classes]) with --model fc, which are solved "
    "exactly",
    "a linear layer": "--model fc, one linear layer, which is solved exactly and held against the test tasks",
    "more data": "more tasks or more examples a task",
}


def verdict_words(layer: LayerReport) -> str:
    """Return what is known of a layer, with its evidence, without a full stop. Weaker evidence gets weaker words.

    Args:
        layer: The report on the layer.
    """
    return f"{_known(layer)}; {_used(layer)}"


def shortest_reason(layer: LayerReport) -> str:
    """Why nothing more is known of a layer, or what was found."""
    reasons = layer.verdict.reasons
    return reason_words(reasons[-1], layer) if reasons else summary_words(layer)


def sentence(layer: LayerReport) -> str:
    """The verdict as a sentence."""
    words = verdict_words(layer)
    return f"{words[:1].upper()}{words[1:]}."


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
        seen = "; ".join(reason_words(one, layer, none="nothing was read") for one in rest)
        return f"{reason_words(first, layer)}; off U: {seen or 'nothing was read'}"
    return "; ".join(reason_words(one, layer) for one in verdict.reasons)


def _used(layer: LayerReport) -> str:
    """How much of the filter matters, and how strong the rest is where it is not small."""
    if layer.verdict.directions is not None:
        return f"{layer.verdict.directions} of {math.prod(layer.weight_shape)} directions in use"
    size, values = layer.effective_filter_size, layer.singular_values
    used = f"uses {size} of {layer.filter_size} filter entries"
    if 0 < size < len(values) and values[size] > WEAKER * values[0]:
        used += f" most, the others up to {values[size] / values[0]:.0%} as strongly"
    return used


def _certified(layer: LayerReport) -> str:
    """``equivariant to Z_8, order 8 (defect below 0.1 %, 95 %, over all 100 tasks)``, and more."""
    named = next(rung for rung in layer.ladder if rung.certified)
    above = [r for r in layer.ladder if r.refuted and r.order > named.order]
    claim = claim_words(named.bound(above), layer.verdict.tasks or 0)
    broken = [
        f"; what breaks {r.name}: {breaking_words(r.breaking, layer)}" for r in above[-_ALSO:] if r.breaking
    ]
    return f"{claim}{''.join(broken)}{_differing(layer)}"


def _differing(layer: LayerReport) -> str:
    return "" if layer.differing is None else f"; {differing_words(layer.differing, layer)}"


def claim_words(bound: Bound, tasks: int) -> str:
    """That a group is certified, how nearly, and on how many tasks."""
    weak = ""
    if bound.class_defect_upper > max(2 * bound.defect_upper, 0.01):
        weak = f"; of each class of tied weights by its own size below {percent(bound.class_defect_upper)}"
    if bound.faint_weights:
        weak += f"; {bound.faint_weights} weights are too faint to be known by their own size"
    exact = max(bound.defect_upper, bound.class_defect_upper) <= PLAIN
    within = "" if exact else f"within {percent(bound.defect_upper)} "
    above = "".join(
        f"; to {called(name, order)} only within {percent(defect)}, refuted"
        for name, order, defect in bound.refuted_above[-_ALSO:]
    )
    return (
        f"{within}equivariant to {called(bound.name, bound.order)} (defect below {percent(bound.defect_upper)}, "
        f"95 %, over all {tasks} tasks{weak}){above}"
    )


def _read(layer: LayerReport) -> str:
    """What U shows, without a certificate."""
    group, pattern, shifts = layer.group, layer.pattern, _shifts(layer)
    if group is None:
        if layer.verdict.tasks is not None:
            return f"translation structure, {shifts}: read off U, without a certificate"
        assert pattern is not None
        return (
            f"translation structure, {shifts}: no permutation of all outputs and inputs keeps the classes; "
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
    """One reason in words, about this layer; ``none`` is what is said where reading U found nothing."""
    match reason:
        case NothingLearned():
            return f"{none}: U is zero, nothing was learned"
        case WeightTooLarge():
            return "not read: the weight is too large for its sharing pattern"
        case NoTiesInFactors():
            return f"{none} in the Kronecker factors: {'; '.join(layer.notes)}"
        case NoGap(margin):
            return f"{none}: no gap separates tied weights from others (margin {margin:.2f})"
        case TooFewTies():
            return f"{none}: too few weights are tied to tell ties from chance"
        case SmallMargin(margin, least):
            return f"pattern unclear: margin {margin:.2f}, below {least:g}; no group is named"
        case Unexplained(residual, dominant):
            return (
                f"pattern unclear: it leaves {residual:.0%} of U unexplained, {dominant:.0%} of its dominant "
                "directions; no group is named"
            )
        case WideClasses(width):
            return (
                f"pattern unclear: classes are {width:.2f} wide, relative to the length of a row of U; no group is "
                "named"
            )
        case TransformsAlone(names):
            return (
                f"rotations and flips unclear: {', '.join(names)} fit, but what must fit with them does not; no "
                f"group is named{_clear_ties(layer)}"
            )
        case TransformsByChance(names):
            return (
                f"rotations and flips unclear: {', '.join(names)} may fit, but U has too few directions, or filters "
                f"that are too smooth, to tell that from chance; no group is named{_clear_ties(layer)}"
            )
        case InputsNeverVary():
            return (
                "cannot be decided this way: in some direction the inputs of all tasks never vary (constant or equal "
                "columns, or sums that stay the same), so that the weights along it can be anything; leave such "
                "columns out"
            )
        case WeightsOpen(examples):
            return (
                f"cannot be decided this way: {examples} examples a task leave the weights of every task open, and "
                "what tasks share does not suggest a symmetry; more examples a task would tell"
            )
        case NoiseHides(defect):
            return (
                f"cannot be decided: the noise hides defects up to {percent(defect)}; more tasks, more examples or "
                "less noise would tell"
            )
        case NearestRefuted():
            return _nearest(reason, layer)
        case TasksDiffer(name, order, defect_upper, tolerance):
            return (
                f"no symmetry of all tasks: most have {called(name, order)}, but over all tasks its defect may be "
                f"{percent(defect_upper)} (tolerance {percent(tolerance)}){_differing(layer)}; {_NOT_LOOKED_FOR}"
            )
        case NoiseUnlikeModel(name, order, deviations):
            return (
                f"cannot be decided: the weights of the tasks show less noise than what is left of y suggests (the "
                f"square of the defect of {called(name, order)} without its noise is {-deviations:.2g} standard "
                "errors below zero), so that no bound can be given; noise that is larger where inputs are small "
                "does this"
            )
        case ExamplesDependent(correlation):
            return (
                "cannot be decided: the noise of an example goes on in the next (their correlation is "
                f"{correlation:.2g}), so that examples are not independent; fewer examples further apart, or "
                "differences of successive ones, would tell"
            )
        case NothingNear(blocks):
            return (
                "no symmetry: no permutation of outputs and inputs, with signs or without, comes near what tasks "
                f"share{negatable_words(blocks)}; {_NOT_LOOKED_FOR}"
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
    broken = "" if rung is None or rung.breaking is None else f"; {breaking_words(rung.breaking, layer)}"
    return (
        f"no exact symmetry: the nearest, {called(reason.name, reason.order)}, has a defect of "
        f"{percent(reason.defect)}{upper}, refuted{broken}; {_NOT_LOOKED_FOR}"
    )


def _no_transform(reason: NoTransform, layer: LayerReport, none: str) -> str:
    return (
        f"{none} among rotations and flips: the nearest, {reason.nearest}, has error {reason.error:.2g} "
        f"and margin {reason.margin:.2f} (at most {reason.most_error:g}, at least {reason.least_margin:g})"
        f"{_clear_ties(layer)}"
    )


def _no_permutation(reason: NoPermutation, layer: LayerReport, none: str) -> str:
    assert layer.pattern is not None
    return (
        f"{none}: {_ties(layer.pattern)}, but no permutation keeps all classes"
        f"{negatable_words(reason.negatable_blocks)}"
        f"{_evidence(layer.pattern)}"
    )


def _not_linear(reason: NotLinear, tasks: int) -> str:
    share = percent(reason.share)
    if reason.linear_part is not None:
        part = claim_words(reason.linear_part, tasks)
        return (
            f"cannot be decided by a linear layer: {share} of y is not linear in the inputs; the linear part alone "
            f"is {part}"
        )
    near = (
        ""
        if reason.nearest is None
        else f"; the nearest symmetry of the linear part would be {called(*reason.nearest)}"
    )
    return (
        f"cannot be decided by a linear layer: it leaves {share} of y unexplained, which is not linear in the inputs "
        f"and no noise{near}"
    )


def _not_contradicted(reason: NotContradicted) -> str:
    group = called(reason.name, reason.order)
    if reason.bound is None:
        return (
            f"cannot be decided this way: the tasks do not contradict {group}, but with {reason.examples} examples a "
            "task they could not contradict anything; more examples a task would"
        )
    return (
        f"cannot be decided: the tasks do not contradict {group}, but their noise allows nothing tighter than a "
        f"defect of {percent(reason.bound)} (tolerance {percent(reason.tolerance)}); more tasks, more examples or "
        "less noise would"
    )


def _learned_by_steps(reason: LearnedBySteps) -> str:
    how = "steps of SGD" if reason.inner_steps else "outer steps"
    return (
        f"cannot be decided this way: a U learned by {how} may show no pattern where tasks have a symmetry; what "
        f"could decide it: {_REMEDIES[reason.remedy]}"
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
        f"; approximately only, error {group.error:.2g} (0 exact, 1.41 unrelated): the tasks nearly have this "
        "symmetry, or were too few, or training was too short"
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
        found += f"; {pattern.residual**2:.0%} of the power of U is noise, or was never trained"
    return f" ({found})"
