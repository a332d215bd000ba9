"""Linear layers too large for outer steps: U from the tasks' own weights, where each has examples enough for them.

With more examples than inputs a task's weights are determined by least squares. What all tasks share is then the
space that these weights span: U has their principal directions, as many as stand out of the noise of least squares.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from metasym.learners.gradient import MSR
from metasym.runs.files.learn_options import Choices
from metasym.runs.learning.chosen_learners import loss_of, msr
from metasym.runs.learning.networks import LARGEST_DENSE, symmetric_network
from metasym.symmetry.matrices import DenseSymmetry
from metasym.symmetry.reparam import symmetries
from metasym.tasks.stored import StoredTasks
from metasym.verdicts.symmetry_report import SymmetryReport

MOST_WEIGHTS = 65_536
MOST_DIRECTIONS = 512
"""Tasks whose weights are held at once, and so directions of U."""
_ROUNDING = 1e-10
"""Of the largest power: directions below are rounding of the data."""
EXACT_ENOUGH = 0.05
"""The residual of a pattern in whose favour U is completed."""
_ABOVE = 1.2
"""How far above the noise of least squares a direction has to stand."""


def fits(inputs: int, outputs: int, examples: int) -> bool:
    """Whether a linear layer of this size, with so many examples per task, is learned from the tasks' own weights."""
    return LARGEST_DENSE < inputs * outputs <= MOST_WEIGHTS and examples >= inputs + 2


def is_large(choices: Choices) -> bool:
    """Whether the run of these choices is one: what :func:`fits` decided when they were made."""
    entries = math.prod(choices.layout.input_shape) * math.prod(choices.layout.output_shape)
    return (
        choices.model == "fc"
        and choices.solver == "ridge"
        and choices.symmetry == "dense"
        and choices.find_steps == 0
        and LARGEST_DENSE < entries <= MOST_WEIGHTS
    )


def learned_from_weights(choices: Choices, train: StoredTasks) -> MSR:
    """The learner whose U spans the training tasks' weights."""
    weights, noise = own_weights(train, offset=choices.bias)
    return _learner(choices, directions(weights, noise))


def with_allowed(choices: Choices, learner: MSR, report: SymmetryReport) -> MSR | None:
    """The learner with every direction that the pattern found in U allows; None where U has them all, or no pattern.

    Too few tasks show too few directions, but rows that are tied are tied in the others too. These come in with the
    mean strength of those that the tasks showed.
    """
    (layer,), (symmetry,) = report, symmetries(learner.model).values()
    pattern = layer.pattern
    if pattern is None or not pattern.clear or pattern.residual > EXACT_ENOUGH:
        return None
    U = symmetry.matrix().detach()
    if not U.shape[1] < pattern.count <= MOST_DIRECTIONS:
        return None
    classes = torch.tensor(pattern.classes).flatten()
    basis = torch.zeros(len(U), pattern.count + 1)
    basis[torch.arange(len(U)), classes.abs()] = classes.sign().float()
    basis = basis[:, 1:] / basis[:, 1:].norm(dim=0)
    left, values, _ = torch.linalg.svd(basis.mT @ U)
    strengths = torch.full((pattern.count,), float(values.mean()))
    strengths[: len(values)] = values
    return _learner(choices, basis @ (left * strengths))


def _learner(choices: Choices, U: Tensor) -> MSR:
    """Filters start at zero."""
    model = symmetric_network(choices, {"": U.shape[1]})
    (symmetry,) = symmetries(model).values()
    assert isinstance(symmetry, DenseSymmetry)
    with torch.no_grad():
        symmetry.U.copy_(U)
        for _, parameter in model.named_parameters():
            if parameter is not symmetry.U:
                parameter.zero_()  # the tasks' filters are about 0 on average, and their offsets
    return msr(choices, model, loss_of(0))


def own_weights(train: StoredTasks, *, offset: bool) -> tuple[Tensor, float]:
    """Least squares weights ``[tasks, m n]``, of ``MOST_DIRECTIONS`` tasks at most; their noise's variance."""
    count = min(len(train.given), MOST_DIRECTIONS)
    found, variances = [], []
    for t in range(count):
        one = train.only(t)
        x, y = one.x.flatten(1), one.y.flatten(1)
        if offset:
            x, y = x - x.mean(0), y - y.mean(0)
        q, r = torch.linalg.qr(x)
        inverse = torch.linalg.pinv(r, rtol=1e-8)
        W = inverse @ (q.mT @ y)  # [n, m]
        spare = len(x) - x.shape[1] - int(offset)
        squares = float((y - x @ W).square().sum()) / max(1, spare * y.shape[1])
        variances.append(squares * float(inverse.square().sum()) / x.shape[1])
        found.append(W.T.flatten().float())
    return torch.stack(found), sum(variances) / count


def directions(weights: Tensor, noise: float) -> Tensor:
    """``U [m n, k]``: principal directions of ``weights [tasks, m n]``, each as long as tasks are spread along it."""
    tasks, rows = weights.shape
    exact = weights.double()
    gram = exact @ exact.T / tasks
    del exact
    powers, vectors = torch.linalg.eigh(gram)
    edge = noise * (1 + math.sqrt(rows / tasks)) ** 2
    keep = powers > max(_ABOVE * edge, _ROUNDING * float(powers[-1]))
    keep[-1] = True
    powers, vectors = powers[keep].flip(0), vectors[:, keep].flip(1)
    # Without noise the powers are what they are; with it, least squares adds its own to every direction.
    kept = (powers - edge).clamp_min(0.01 * powers) / powers
    U: Tensor = weights.T @ (vectors * (kept / tasks).sqrt()).float()
    return U
