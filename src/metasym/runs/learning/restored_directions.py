"""What too few tasks did not show: directions that U lacks, given back where the validation tasks need them.

``U U^T`` is to an exact solve what a covariance of the weights is to a prior. Learned from 17 tasks it has at most
17 directions, however many the next task uses; under a nuclear norm it loses weak ones too. Comparing a pruned U with
the U before pruning does not show that: the first stage has set the same directions to zero there. Comparing with
the plain network does, and the remedy is the usual one of a covariance from few samples: shrink it towards a multiple
of the identity, by as much as the validation tasks say, and no more than that where a symmetry was found: it can
then still be read.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from metasym.inspection import inspect
from metasym.learners.gradient import MSR
from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.chosen_learners import choose_penalty, msr, score
from metasym.symmetry.matrices import DenseSymmetry
from metasym.symmetry.pruning import complete
from metasym.symmetry.reparam import symmetries
from metasym.tasks.stored import StoredTasks

STRENGTHS = (0.01, 0.03, 0.1, 0.3)
"""Of the directions that are given back, relative to the strongest; 1, the plain network, is always tried."""
LARGEST_COMPLETED = 1024
"""Weights of a network whose U may become square."""
_WORSE, _SLACK = 1.05, 0.01
"""More than 5 % and a hundredth of the targets' mean square is worse; less is what more training would mend."""
_ALIKE = 1e-3
"""Errors that differ by 5 % and so much of the targets' mean square are as good as each other."""
_FAR, _FAR_SLACK = 1.1, 0.05
"""How much worse than the plain network is not too much for a symmetry that can be read."""

Errors = tuple[float, float]
"""Mean squared errors on the validation tasks, from few examples and from many."""


@dataclass(frozen=True)
class Completed:
    """What was given back, and the errors on the validation tasks that asked for it, in the data's own units."""

    strength: float
    support: int
    before: float
    """From ``support`` examples, with the U that was found."""
    after: float
    train_support: int
    before_train: float
    """From ``train_support`` examples."""
    after_train: float

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``result.json``."""
        return asdict(self)


def missing(
    choices: Choices, learner: MSR, validation: StoredTasks, square: float
) -> tuple[MSR, Completed | None]:
    """The learner, with a completed U where the plain network does better on the validation tasks without one.

    Compared are errors at the best penalty of each, from as few examples as are scored and as many as in training;
    ``square`` is the targets' mean square in the data's own units.
    """
    if not can_complete(choices, learner.model):
        return learner, None
    unit = choices.layout.y_scale**2
    tasks = [validation.with_support(n) for n in (choices.support, choices.train_support)]

    def errors(strength: float) -> Errors:
        candidate = completed(choices, learner, strength)
        found = []
        for part in tasks:
            choose_penalty(choices, candidate, part)
            found.append(score(choices, candidate, part, "mse").mean)
        few, many = (value if math.isfinite(value) else math.inf for value in found)
        return few, many

    by_strength = {0.0: errors(0.0), 1.0: errors(1.0)}
    if not _worse(by_strength[0.0], by_strength[1.0], _WORSE, _SLACK * square / unit):
        return learner, None
    by_strength.update({strength: errors(strength) for strength in STRENGTHS})
    named = _named(learner.model)
    readable = (0.0, *STRENGTHS) if any(named) else ()
    same = [s for s in readable if _named(completed(choices, learner, s).model) == named]
    strength = choose_strength(by_strength, same, square / unit)
    if strength == 0:
        return learner, None
    before, after = ([value * unit for value in by_strength[s]] for s in (0.0, strength))
    return completed(choices, learner, strength), Completed(
        strength, choices.support, before[0], after[0], choices.train_support, before[1], after[1]
    )


def choose_strength(by_strength: Mapping[float, Errors], same: Sequence[float], square: float) -> float:
    """How strong the directions are that are given back; 0 is none, 1 the plain network.

    From few examples as good as the best, and of those the best from many: among the strengths ``same`` with which
    the same symmetry is read, if that is not far worse than the plain network, or else among all.
    """

    def best(among: Iterable[float]) -> float:
        chosen = list(among)
        least = min(by_strength[s][0] for s in chosen)
        good = [s for s in chosen if by_strength[s][0] <= _WORSE * least + _ALIKE * square]
        return min(good, key=lambda s: by_strength[s][1])

    if same:
        readable = best(same)
        if not _worse(by_strength[readable], by_strength[1.0], _FAR, _FAR_SLACK * square):
            return readable
    return best(by_strength)


def _worse(errors: Errors, plain: Errors, factor: float, slack: float) -> bool:
    return any(found > factor * other + slack for found, other in zip(errors, plain, strict=True))


def _named(model: nn.Module) -> list[object]:
    """What is read from each layer: the group and its order, or the shifts; None for nothing."""
    found: list[object] = []
    for layer in inspect(model):
        shifts = [partial.description for partial in layer.partial]
        if layer.group is not None:
            found.append((layer.group.name, layer.group.order))
        else:
            found.append(shifts or None)
    return found


def completed(choices: Choices, learner: MSR, strength: float) -> MSR:
    """A copy of the learner whose U has all directions, the weakest at ``strength``; 0 changes nothing."""
    model = copy.deepcopy(learner.model)
    if strength > 0:
        complete(model, strength)
    return msr(choices, model, learner.loss, learner.penalty)


def can_complete(choices: Choices, model: nn.Module) -> bool:
    """Whether U may become square: an exact solve, dense, not too large, no filter size that the user asked for."""
    found = symmetries(model).values()
    return (
        choices.solver == "ridge"
        and choices.filter_size is None
        and all(isinstance(s, DenseSymmetry) for s in found)
        and sum(math.prod(s.weight_shape) for s in found) <= LARGEST_COMPLETED
    )
