"""What ``learn`` reports about a network of several layers: what the tasks share, and what the network learned of it.

No layer of a deep network has to show the symmetry that the whole has. So the tasks are asked by functions that are
fitted to them without the network, as ``discover`` does for families, and the network by its answers after adapting.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from metasym.certification.candidates import candidates, named
from metasym.discovery.claim_thresholds import FAMILIES
from metasym.discovery.families.family_group import MOST_ENTRIES, judged_group, task_model
from metasym.evidence import Prior
from metasym.evidence.completion import completed
from metasym.evidence.fitting import robust_prior
from metasym.groups.signed_groups import SignedGroup
from metasym.learners.base import Learner
from metasym.learners.evidence_msr import EvidenceMSR
from metasym.runs.adapted_functions import LearnerOnTasks, adapted_functions
from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.support_scores import scores_by_support
from metasym.runs.learning.task_statistics import statistics
from metasym.tasks.stored import StoredTasks
from metasym.types import MetasymError
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.discovery_verdict import DiscoveryVerdict
from metasym.verdicts.family_reasons import MapTooLarge, NoGapInTies, TooFewExamples, TooFewTasks
from metasym.verdicts.function_reports import AdaptedFunctions

MOST_EXAMPLES = 200
"""Of a task, that functions are fitted to: the time grows with the third power."""
MOST_CANDIDATES = 8
"""Groups that are tested on the tasks, the largest first."""

Parts = tuple[StoredTasks, StoredTasks, StoredTasks]


def about_network(
    choices: Choices, parts: Parts, learner: Learner, *, labels: bool, note: Callable[[str], None]
) -> dict[str, Any]:
    """What ``result.json`` says in addition to the scores of a network of several layers.

    ``tasks_share``, what the tasks have; ``function``, how far the adapted networks are from it; ``linear``, the
    scores of one linear layer. What cannot be asked is left out.
    """
    found: dict[str, Any] = {}
    verdict = None
    if not labels:
        verdict, linear = tasks_share(choices, parts, note)
        found["tasks_share"] = verdict.to_json()
        if linear is not None:
            found["linear"] = linear
    function = network_of_tasks(learner, parts[2], verdict, choices.seed)
    return found if function is None else {**found, "function": function.to_json()}


def about_baseline(
    choices: Choices, test: StoredTasks, learner: Learner, beside: Mapping[str, Any]
) -> dict[str, Any]:
    """``function`` of the baseline, about the group that the network ``beside`` it was asked about."""
    verdict = DiscoveryVerdict.from_json(beside["tasks_share"]) if "tasks_share" in beside else None
    function = network_of_tasks(learner, test, verdict, choices.seed)
    return {} if function is None else {"function": function.to_json()}


def tasks_share(
    choices: Choices, parts: Parts, note: Callable[[str], None] = lambda _: None
) -> tuple[DiscoveryVerdict, dict[str, Any] | None]:
    """Ask the tasks that a deep network learns from (targets of floats) for a symmetry that all of them have.

    The prior of the tasks' linear parts, from those that train and validate, proposes groups; functions fitted to the
    tasks that test judge them. Beside the verdict: the scores of one linear layer, where it has a reasonable size.
    """
    layout = choices.layout
    n, m = math.prod(layout.input_shape), math.prod(layout.output_shape)
    flat = dataclasses.replace(
        choices, layout=dataclasses.replace(layout, input_shape=(n,), output_shape=(m,))
    )
    train, validation, test = (
        StoredTasks(part.file, part.given, support=part.support, layout=flat.layout) for part in parts
    )
    whole = (train, validation, test)
    if m * n > MOST_ENTRIES:
        return _refused(MapTooLarge(MOST_ENTRIES, m, n)), None
    count = min(MOST_EXAMPLES, *(int(part.file.counts[part.given.numpy()].min()) for part in whole))
    tasks = sum(len(part.given) for part in whole)
    if tasks < FAMILIES.least_tasks:
        return _refused(TooFewTasks(FAMILIES.least_tasks, tasks)), None
    note("what the tasks share: fitting functions to them, without the network")
    known = [statistics(part, offset=True) for part in (train, validation)]
    prior = robust_prior(known[0], known[1]).prior
    best = completed(prior, torch.eye(prior.U.shape[0], dtype=torch.float64), known[1])
    linear = EvidenceMSR(n, m, bias=True, directions=best.directions)
    linear.set_prior(best)
    scores = scores_by_support(flat, linear, validation, test, "mse")
    if count < n + 4:
        return _refused(TooFewExamples(n + 4, n, count)), scores
    return _judged(prior, whole, count, choices.seed, note), scores


def _judged(
    prior: Prior, parts: Parts, count: int, seed: int, note: Callable[[str], None]
) -> DiscoveryVerdict:
    examples = [part.examples() for part in parts]
    x, y = (
        np.concatenate([getattr(one, key).flatten(2).numpy()[:, :count] for one in examples])
        for key in ("x", "y")
    )
    fresh = np.arange(len(x) - len(examples[2].x), len(x))
    model = task_model(x, y, seed)
    refused: list[CandidateVerdict] = []
    for group in candidates(prior)[:MOST_CANDIDATES]:
        found = judged_group(x, y, named(group, prior), model, seed, fresh)
        if isinstance(found, Claim):
            note(f"the tasks share {found.name}")
            names = parts[0].file
            return DiscoveryVerdict.of(
                (found,),
                tuple(refused),
                len(fresh),
                inputs=names.input_names,
                outputs=names.output_names,
            )
        refused.append(CandidateVerdict("finite", "family", (found,)))
    if not refused:
        refused = [CandidateVerdict("finite", "family", (NoGapInTies(),))]
    return DiscoveryVerdict.of((), tuple(refused), len(fresh))


def _refused(why: AnyDiscoveryReason) -> DiscoveryVerdict:
    return DiscoveryVerdict.of((), (CandidateVerdict("finite", "family", (why,)),))


def network_of_tasks(
    learner: Learner, test: StoredTasks, verdict: DiscoveryVerdict | None, seed: int
) -> AdaptedFunctions | None:
    """How far the networks that ``learner`` adapts to the test tasks are from what the tasks share.

    Without a symmetry of the tasks, square images are asked about turns and flips; None where there is no group to
    ask about.
    """
    opened = LearnerOnTasks(learner, test, seed)
    group: SignedGroup | str = "rotations-flips:4"
    if verdict is not None and verdict.claims:
        claim = verdict.claims[0]
        group = SignedGroup(claim.moves, claim.moves[0].shape)
    elif not (len(opened.input_shape) == 3 and opened.input_shape[1] == opened.input_shape[2]):
        return None
    try:
        return adapted_functions(opened, group)
    except MetasymError:  # one test task, or a network that answers every query alike
        return None
