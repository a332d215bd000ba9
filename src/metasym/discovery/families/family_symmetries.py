"""Symmetries that the functions of a family of tasks share, from beginning to end, and a model for new tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import FAMILIES
from metasym.discovery.discovered import Discovered, Scores
from metasym.discovery.families.family_group import (
    Judged,
    TaskModel,
    family_symmetry,
    group_elements,
    judge_functions,
    split_tasks_of,
    task_model,
)
from metasym.discovery.models.fitted_module import State, averaged_state, module_of, state_of
from metasym.discovery.models.gaussian_processes import Hyper, posterior, squares
from metasym.discovery.models.preprocessing import Scaled
from metasym.discovery.models.shared_units import Coordinates
from metasym.discovery.search_findings import Findings
from metasym.discovery.search_settings import Memory, Note, SearchSettings
from metasym.groups.signed_permutations import SignedPermutation
from metasym.tasks.dataset import Family
from metasym.types import MetasymError
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.discovery_reasons import NotForFamilies
from metasym.verdicts.discovery_verdict import DiscoveryVerdict


@dataclass(frozen=True, eq=False)
class FamilyModel:
    """Fits new tasks of a family, with its symmetry built in: ``adapt(x, y)`` gives an ordinary module."""

    state: State

    def adapt(self, x: Any, y: Any) -> nn.Module:
        """A module for the task with examples ``x [examples, n]`` and ``y [examples, m]``."""
        inputs, targets = (np.asarray(torch.as_tensor(value).double().cpu()) for value in (x, y))
        centre = self.state["centre"].numpy()
        if (
            inputs.ndim != 2
            or inputs.shape[1] != len(centre)
            or targets.ndim != 2
            or len(inputs) != len(targets)
        ):
            raise MetasymError(
                f"expected x [examples, {len(centre)}] and y [examples, outputs] of one task, "
                f"found {list(inputs.shape)} and {list(targets.shape)}",
                about="x, y",
                found=(tuple(inputs.shape), tuple(targets.shape)),
            )
        scale, unit = float(self.state["scale"]), float(self.state["unit"])
        n = len(centre)
        hyper = Hyper(squares(n, *self.state["kernel"]), float(self.state["noise"]), 0.0)
        hyper.kernel.k2.kernel.k2.kernel.sigma_0 = float(self.state["sigma_0"])
        fit = posterior(hyper, (inputs - centre) / scale, targets / unit)
        place = Coordinates(centre, np.full(n, scale))
        outputs = targets.shape[1]
        scaling = Scaled(place, tuple(range(n)), np.zeros(outputs), unit)
        inner = state_of(scaling, None, fit, (outputs,))
        elements = [
            SignedPermutation.of(outputs, inputs, output_signs, input_signs)
            for inputs, input_signs, outputs, output_signs in self.state["elements"]
        ]
        return module_of(averaged_state(inner, elements) if elements else inner)


def discover_family_in(
    data: Family, options: SearchSettings, *, note: Note = lambda _: None, memory: Memory
) -> Discovered:
    """Finite symmetries that all tasks of a family have."""
    x, y = data.x, data.y
    if len(x) < FAMILIES.least_tasks:
        raise MetasymError(
            f"expected at least {FAMILIES.least_tasks} tasks of a family, found {len(x)}",
            about="tasks",
            found=len(x),
        )
    note(f"fitting functions to {len(x)} tasks of {x.shape[1]} examples")
    model = task_model(x, y, options.seed)

    def look() -> dict[str, Any]:
        found = family_symmetry(x, y, model, options.seed, note, options.tolerance)
        if isinstance(found, Claim):
            return Findings((found,)).to_stage()
        return Findings.of("finite", "family", (), (found,)).to_stage()

    found = Findings.from_stage(memory("family", look))
    note(f"family: {found.words}")
    elements: tuple[SignedPermutation, ...] = ()
    used = model
    for claim in found.claims:
        elements, used = group_elements(claim.moves, options.seed), model.about(claim.moves)
    fresh = split_tasks_of(len(x), options.seed)[1]
    one = SignedPermutation.identity(y.shape[2], x.shape[2])
    judged = judge_functions(x[fresh], y[fresh], elements or (one,), used, options.seed)
    not_looked_for = CandidateVerdict("continuous", "continuous symmetries", (NotForFamilies(),))
    return Discovered(
        verdict=DiscoveryVerdict.of(found.claims, (*found.refused, not_looked_for), len(fresh)),
        plain=_scores(judged.plain, judged),
        symmetric=_scores(judged.averaged, judged) if found.claims else None,
        state=_state(used, elements),
        metric="mse",
        examples=len(x),
        held_out=len(fresh),
        notes=[] if data.sampled is None else [str(data.sampled)],
        family=True,
    )


def _scores(errors: Array, judged: Judged) -> Scores:
    reach = 1.96 * float(errors.std(ddof=1)) / len(errors) ** 0.5
    return Scores(float(errors.mean()), reach, float(errors.mean()) / judged.variance)


def _state(model: TaskModel, elements: Sequence[SignedPermutation]) -> State:
    smooth, quadratic = model.hyper.kernel.k1.kernel, model.hyper.kernel.k2.kernel
    return {
        "family": True,
        "kernel": [
            float(smooth.k1.constant_value),
            float(smooth.k2.length_scale),
            float(quadratic.k1.constant_value),
        ],
        "sigma_0": float(quadratic.k2.kernel.sigma_0),
        "noise": model.hyper.noise,
        "centre": torch.tensor(model.centre),
        "scale": model.scale,
        "unit": model.unit,
        "elements": [[torch.tensor(part) for part in g.as_dict().values()] for g in elements],
    }
