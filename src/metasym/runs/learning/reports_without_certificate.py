"""Reports on what was read from U alone: what could not be read that way is undecided, not absent."""

from __future__ import annotations

import dataclasses

from metasym.runs.files.learn_options import Choices
from metasym.verdicts.reports import LayerReport
from metasym.verdicts.symmetry_report import SymmetryReport
from metasym.verdicts.verdict import LearnedBySteps, Status, Verdict

NOT_CERTIFIED = (
    "read from U alone and not tested on held-out tasks: only one fully connected layer with targets of floats, "
    "learned by evidence, is tested"
)


def uncertified(report: SymmetryReport, choices: Choices, classes: int) -> SymmetryReport:
    """The report of a run whose U was learned by outer steps, with a verdict that claims no more than that."""
    return dataclasses.replace(
        report, layers=tuple(_layer(layer, choices, classes) for layer in report.layers)
    )


def _layer(layer: LayerReport, choices: Choices, classes: int) -> LayerReport:
    if layer.verdict.status is Status.READ:
        return dataclasses.replace(layer, notes=(*layer.notes, NOT_CERTIFIED))
    remedy = "one-hot targets" if classes else "a linear layer" if choices.model != "fc" else "more data"
    why = LearnedBySteps(choices.solver == "sgd", remedy)
    return dataclasses.replace(layer, verdict=Verdict(Status.UNDECIDED, (why, *layer.verdict.reasons)))
