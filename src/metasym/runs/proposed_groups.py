"""Groups that are worth asking about when none is given: from calls of a function, or from a learner's networks."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from metasym.certification.candidates import candidates, named
from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.callables.callable_symmetries import MOST_INPUTS, FiniteSearch
from metasym.discovery.callables.called_function import CalledFunction
from metasym.discovery.callables.input_draws import InputDraws
from metasym.evidence.prior import Prior
from metasym.groups.signed_groups import SignedGroup
from metasym.types import MetasymError
from metasym.verdicts.reports import FoundGroup
from metasym.verdicts.status_thresholds import NEARLY_FUNCTION

MOST_CANDIDATES = 8
MOST_ENTRIES = 4096
"""Of a network's linear part, outputs times inputs."""


def proposed_by_calls(called: CalledFunction, draws: InputDraws, seed: int) -> tuple[SignedGroup, Array]:
    """The largest group that ``called`` keeps within 20 % by a search's own points, and the centre of its signs."""
    if called.inputs > MOST_INPUTS:
        raise MetasymError(
            f"expected a group to ask about a function of {called.inputs} inputs, found none (proposed up to "
            f"{MOST_INPUTS})",
            about="group",
        )
    found = FiniteSearch(called, draws, tolerance=NEARLY_FUNCTION**2, seed=seed).run()
    group = found.near or found.exact
    if group is None:
        raise MetasymError(
            "expected a group to ask about, found none: calls of f suggest no signed permutation",
            about="group",
        )
    return group.group, found.centre


def linear_part(network: nn.Module, x: Tensor) -> Tensor:
    """The mean derivative of a network's outputs over examples ``x [examples, ...]``, ``[m, n]``."""
    given = x.detach().requires_grad_()
    y = network(given).flatten(1)
    rows = [
        torch.autograd.grad(y[:, k].sum(), given, retain_graph=True)[0].flatten(1).mean(0)
        for k in range(y.shape[1])
    ]
    return torch.stack(rows).double()


def proposed_by_linear_parts(parts: Tensor) -> list[SignedGroup]:
    """Groups that the linear parts ``[tasks, m, n]`` of adapted networks may share, largest first: guesses."""
    mean = parts.mean(0)
    U = (parts - mean).flatten(1).T / np.sqrt(len(parts))
    prior = Prior(mean, U, 1.0)
    found: list[FoundGroup] = candidates(prior)[:MOST_CANDIDATES]
    return [SignedGroup(named(group, prior).generators, (mean.shape[0], mean.shape[1])) for group in found]
