"""Learning by evidence where tasks are linear: the prior, the ladder of groups, the learner, the report."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from metasym.certification.all_tasks import AllTasks
from metasym.certification.candidates import candidates, given
from metasym.certification.ladder import Ladder, Rung, climb, hold
from metasym.certification.naming import Circumstances, rung_report, with_answer, with_ladder
from metasym.certification.resolution import resolution
from metasym.diagnosis.findings import Diagnosis
from metasym.errors import asked
from metasym.evidence import Prior, TaskStatistics
from metasym.evidence.completion import completed
from metasym.evidence.fitting import robust_prior
from metasym.evidence.outliers import unlike
from metasym.groups.signed_groups import SignedGroup, WeightOrbits, weight_orbits
from metasym.inspection import inspect
from metasym.learners.evidence_msr import EvidenceMSR
from metasym.runs.files.learn_options import Choices, Options
from metasym.runs.learning.task_statistics import all_tasks, statistics
from metasym.tasks.stored import StoredTasks
from metasym.tasks.task_file import TaskFile
from metasym.types import MetasymError
from metasym.verdicts.defect_words import percent
from metasym.verdicts.layer_words import claim_words
from metasym.verdicts.symmetry_report import SymmetryReport

LARGEST_INPUTS = 227
"""Inputs beyond which a round of evidence would have room for fewer than eight directions."""
LARGEST_WEIGHTS = 16384


@dataclass(frozen=True, eq=False)
class ByEvidence:
    """What was learned."""

    learner: EvidenceMSR
    """With the symmetry built in, where one was certified."""
    without: EvidenceMSR | None
    """The same without it."""
    report: SymmetryReport
    rounds: int


def by_evidence(file: TaskFile, options: Options, choices: Choices) -> bool:
    """Whether the prior of the tasks' weights is learned by its evidence: one linear layer, squared errors."""
    layout = choices.layout
    inputs, outputs = math.prod(layout.input_shape), math.prod(layout.output_shape)
    others = {
        asked("symmetry", "kronecker"): options.symmetry == "kronecker",
        asked("filter_size"): options.filter_size is not None,
        asked("penalty"): options.penalty is not None,
        asked("find_steps"): options.find_steps is not None,
        "labels": bool(file.classes),
        asked("model", choices.model): choices.model != "fc",
        f"{inputs} inputs and {outputs} outputs": inputs > LARGEST_INPUTS
        or inputs * outputs > LARGEST_WEIGHTS,
    }
    against = [what for what, there in others.items() if there]
    if options.solver == "evidence" and against:
        raise MetasymError(
            f"expected one fully connected layer, not too large, and targets y of floats for "
            f"{asked('solver', 'evidence')}, found {', '.join(against)}",
            about="solver",
            found=tuple(against),
        )
    return options.solver in (None, "evidence") and not against


def learn_by_evidence(
    choices: Choices,
    parts: tuple[StoredTasks, StoredTasks, StoredTasks],
    diagnosis: Diagnosis,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    note: Callable[[str], None],
) -> ByEvidence:
    """Learn from the tasks that train and validate, certify on those that test; ``names`` of inputs and outputs."""
    train, validation, test = (statistics(part, choices.bias) for part in parts)
    for part, does in ((train, "train"), (validation, "validate"), (test, "test")):
        if part.mean_square == 0:
            raise MetasymError(
                f"expected outputs y that vary in the tasks that {does}, found none that do among {len(part)}: "
                "nothing can be learned from them or tested on them; remove such tasks, or use another "
                f"{asked('seed')}",
                about="y",
                found=len(part),
            )
    note("MSR by evidence: learning the prior of the tasks' weights")
    fitted = robust_prior(train, validation)
    prior = fitted.prior
    note(f"{prior.directions} directions after {fitted.rounds} rounds; testing candidates on the test tasks")
    held = (prior, train[fitted.weights > 0], test)
    before, unexplained = _dependence(diagnosis)
    if (
        before
    ):  # the noise of successive examples goes together: candidates and certificates rest on what is new
        new = [statistics(part, choices.bias, before) for part in parts]
        again = robust_prior(new[0], new[1])
        held = (again.prior, new[0][again.weights > 0], new[2])
    finding, learned, fresh = held
    outside = torch.isin(parts[2].given, torch.tensor(choices.left_out, dtype=torch.int64))
    fresh = fresh[~(unlike(finding, fresh) | outside)]
    everyone = all_tasks(parts[2], choices.bias, before)
    ladder = climb(finding, learned, fresh, everyone=everyone, tolerance=choices.tolerance)
    m, n = prior.mean.shape
    rung: Rung | None = None
    if choices.asked is not None:
        group = SignedGroup(choices.asked.generators, (m, n), up_to_sign=True)
        rung = hold(given(group), finding, learned, fresh, everyone=everyone, tolerance=choices.tolerance)
        ladder = ladder.asked(rung)
    deviations = _deviations(finding, learned, fresh, everyone, ladder)
    seen = Circumstances(
        resolution(fresh, finding.power, finding.noise),
        parts[2].file.tasks,
        int(fresh.counts.double().median()),
        prior.directions,
        _unlinear(diagnosis),
        unexplained,
        task_names=tuple(
            parts[2].file.name_of_task(t).removeprefix("task ") for t in range(parts[2].file.tasks)
        ),
        blocks=len(set(parts[2].file.blocks or ())) or None,
    )
    everything = torch.eye(prior.U.shape[0], dtype=torch.float64)
    plain = completed(prior, everything, validation)
    best, without = plain, None
    if ladder.certified is not None:
        orbits = weight_orbits(ladder.certified.group.generators, (m, n))
        best, without = completed(symmetrised(prior, orbits), orbits.basis(), validation), plain
    learner = _learner(best, choices.bias)
    (layer,) = inspect(learner.model)
    layer = with_ladder(layer, ladder, seen)
    notes = [
        *layer.notes,
        *_notes(int((fitted.weights == 0).sum()), len(train)),
    ]
    if deviations is not None and deviations.certified is not None:
        defect = max((r.certificate.defect for r in ladder.rungs), default=math.inf)
        whole = f", which misses it by {percent(defect)}" if math.isfinite(defect) and defect > 0 else ""
        found = claim_words(rung_report(deviations.certified).bound(), seen.tasks)
        notes.append(f"the tasks' deviations from their mean map are {found}; the mean map is not{whole}")
    layer = dataclasses.replace(layer, notes=tuple(notes), input_names=names[0], output_names=names[1])
    if choices.asked is not None and rung is not None:
        layer = with_answer(layer, choices.asked, rung, seen, choices.tolerance)
    bare = None if without is None else _learner(without, choices.bias)
    return ByEvidence(learner, bare, SymmetryReport((layer,)), fitted.rounds)


def symmetrised(prior: Prior, group: WeightOrbits) -> Prior:
    """The prior averaged over a group: what it forbids is gone."""
    U: Tensor = group.average(prior.U.T).T
    mean = group.average(prior.mean.reshape(1, -1)).reshape(prior.mean.shape)
    left, values, _ = torch.linalg.svd(U, full_matrices=False)
    kept = values > 1e-10 * float(values[0])
    kept[0] = True  # where all tasks are the same map, a direction of length 0 stands for none
    return Prior(mean, left[:, kept] * values[kept], prior.noise)


def _learner(prior: Prior, bias: bool) -> EvidenceMSR:
    m, n = prior.mean.shape
    learner = EvidenceMSR(n, m, bias=bias, directions=prior.directions)
    learner.set_prior(prior)
    return learner


def _deviations(
    prior: Prior,
    learned: TaskStatistics,
    fresh: TaskStatistics,
    everyone: AllTasks | TaskStatistics,
    ladder: Ladder,
) -> Ladder | None:
    """The ladder of the tasks' deviations from their mean map, if that may have more symmetry than the whole."""
    found = 1 if ladder.certified is None else ladder.certified.group.order
    if not any(group.order > found for group in candidates(prior, with_mean=False)):
        return None
    other = climb(
        prior,
        learned,
        fresh,
        everyone=everyone,
        tolerance=ladder.tolerance,
        with_mean=False,
        beyond=found,
    )
    return other if other.certified is not None else None


def _dependence(diagnosis: Diagnosis) -> tuple[float, float]:
    """The factor with which the previous example is subtracted; and the correlation, if that is not enough."""
    for finding in diagnosis.findings:
        if finding.kind == "dependent_examples":
            correlation = float(finding.numbers["correlation"])
            return correlation, 0.0 if finding.numbers["explained"] else correlation
    return 0.0, 0.0


def _unlinear(diagnosis: Diagnosis) -> float:
    for finding in diagnosis.findings:
        if finding.kind == "not_linear":
            return min(1.0, float(finding.numbers["unexplained"]))
    return 0.0


def _notes(in_training: int, train: int) -> list[str]:
    if not in_training:
        return []
    return [
        f"{in_training} of {train} training tasks differ from the others. U was learned without them; bounds hold "
        "for all tasks"
    ]
