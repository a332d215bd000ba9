"""Reports on what was read off U alone: what could not be read that way is undecided, not absent."""

from __future__ import annotations

import dataclasses

from metasym.experiments.own_tasks.options import Choices
from metasym.inspection import LayerReport, SymmetryReport

NOT_CERTIFIED = (
    "read off U alone and not held against fresh tasks: only one fully connected layer with targets of floats, "
    "learned by evidence, is"
)


def uncertified(report: SymmetryReport, choices: Choices, classes: int) -> SymmetryReport:
    """The report of a run whose U was learned by outer steps, with words that claim no more than that."""
    return dataclasses.replace(
        report, layers=tuple(_layer(layer, choices, classes) for layer in report.layers)
    )


def _layer(layer: LayerReport, choices: Choices, classes: int) -> LayerReport:
    if layer.group is not None or layer.partial:
        return dataclasses.replace(layer, notes=(*layer.notes, NOT_CERTIFIED))
    how = "steps of SGD" if choices.solver == "sgd" else "outer steps"
    could = (
        "one-hot targets (y of floats, [tasks, examples, classes]) with --model fc, which are solved exactly"
        if classes
        else "--model fc, one linear layer, which is solved exactly and held against the test tasks"
        if choices.model != "fc"
        else "more tasks or more examples a task"
    )
    read = layer.verdict.replace("no symmetry found", "nothing was read")
    return dataclasses.replace(
        layer,
        verdict=(
            f"cannot be decided this way: a U learned by {how} may show no pattern where tasks have a symmetry; "
            f"what could decide it: {could}; off U: {read}"
        ),
    )
