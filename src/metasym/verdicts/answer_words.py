"""The answer to a user's own question, whether tasks have a group, in words."""

from __future__ import annotations

from metasym.verdicts.defect_words import (
    LARGEST_DEFECT,
    breaking_words,
    capital,
    differing_words,
    measured,
    percent,
    sentences,
)
from metasym.verdicts.layer_words import called, reason_words
from metasym.verdicts.reports import LadderRung, LayerReport
from metasym.verdicts.verdict import NearestRefuted, Status, TasksDiffer


def answer_words(layer: LayerReport) -> str:
    """``Do the tasks have the symmetry dihedral (D_6, order 12)? Yes: ...``, without a full stop."""
    answer = layer.answer
    assert answer is not None
    rung, status = answer.rung, answer.verdict.status
    moved = ", of the inputs alone" if answer.asked.invariance else ""
    known = called(rung.name, rung.order)
    name = known if answer.asked.text == rung.name else f"{answer.asked.text} ({known}{moved})"
    question = f"Do the tasks have the symmetry {name}?"
    over = f"95 %, over all {answer.verdict.tasks} tasks"
    refuted = any(isinstance(reason, NearestRefuted) for reason in answer.verdict.reasons)
    if status in (Status.CERTIFIED, Status.APPROXIMATE):
        assert rung.defect_upper is not None
        bound = percent(max(rung.defect_upper, rung.class_defect_upper or 0.0))
        if refuted:
            said = f"Nearly, but not exactly: its defect is {measured(rung.defect)}, below {bound} ({over})"
        elif status is Status.CERTIFIED:
            said = f"Yes: its defect is below {bound} ({over})"
        else:
            said = (
                f"Within {bound}: the tasks do not contradict it, but rule out only larger defects ({over})"
            )
    elif status is Status.NONE and refuted:
        most = rung.defect_upper
        upper = "" if most is None or most >= LARGEST_DEFECT else f", at most {percent(most)}"
        said = f"No: its defect is {measured(rung.defect)}{upper} ({over})"
    elif reason := next((one for one in answer.verdict.reasons if isinstance(one, TasksDiffer)), None):
        said = (
            "Not in all tasks: most have it, but over all tasks its defect may be up to "
            f"{percent(reason.defect_upper)} (tolerance {percent(reason.tolerance)})"
        )
    else:
        reasons = sentences(*(reason_words(reason, layer) for reason in answer.verdict.reasons))
        said = f"No: {reasons}" if status is Status.NONE else capital(reasons or "undecided")
    nearly = refuted and status is Status.APPROXIMATE
    return f"{question} {said}{_broken(rung, layer, spread=nearly)}{_differing(layer)}"


def _broken(rung: LadderRung, layer: LayerReport, *, spread: bool) -> str:
    """What breaks it; that its defect is spread only where it nearly holds."""
    if rung.breaking is None or not (rung.breaking.alone or spread):
        return ""
    return f". What breaks it: {breaking_words(rung.breaking, layer)}"


def _differing(layer: LayerReport) -> str:
    assert layer.answer is not None
    differing = layer.answer.differing
    return "" if differing is None else f". {capital(differing_words(differing, layer))}"
