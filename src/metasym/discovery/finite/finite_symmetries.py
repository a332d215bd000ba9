"""Finite symmetries of one function: search, certificate, and the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.finite.group_certificate import generated
from metasym.discovery.finite.group_search import finite_symmetries
from metasym.discovery.finite.known_function import known_function
from metasym.discovery.finite.movable_inputs import MovableInputs, kernel_on_movable_inputs, movable_inputs
from metasym.discovery.finite.symmetric_products import sorted_model
from metasym.discovery.models.fitted_module import State, averaged_state, state_of
from metasym.discovery.models.function_models import ComparedBy, FunctionModel
from metasym.discovery.models.gaussian_processes import Hyper, Posterior
from metasym.discovery.models.group_averaged_kernels import Equivariant, equivariant
from metasym.discovery.models.preprocessing import Prepared, Scaled, each_once
from metasym.discovery.search_findings import Findings
from metasym.discovery.search_settings import Memory, Note, SearchSettings
from metasym.tasks.dataset import CONSTANT, DataSet
from metasym.types import MetasymError
from metasym.verdicts.claims import Claim


@dataclass(frozen=True, eq=False)
class FiniteModel:
    """Functions that a finite group keeps."""

    sites: MovableInputs
    model: Equivariant
    symmetry: Claim
    compared_by: ComparedBy = ComparedBy.ERRORS
    evidence: float = math.nan

    def fit(self, x: Array, y: Array) -> Posterior:
        """A function whose average over the group is the posterior mean, from prepared examples."""
        scaled = self.sites.units(self.model.group)
        return self.model.fit(scaled.place(self.sites.raw(x)), self.sites.targets(y, scaled))

    def predict(self, fit: Posterior, x: Array) -> Array:
        """``[points, m]``, in prepared units."""
        scaled = self.sites.units(self.model.group)
        found = self.model.averaged(fit, scaled.place(self.sites.raw(x)))
        prepared = self.sites.prepared
        back = found + (scaled.offset - prepared.offset[list(self.sites.outputs)]) / prepared.unit
        return np.asarray(back @ self.sites.lift)

    def state(self, fit: Posterior, shape: tuple[int, ...]) -> State:
        """What defines the module."""
        scaled = self.sites.units(self.model.group)
        lift, prepared = self.sites.lift, self.sites.prepared
        follows = lift.any(axis=0)
        offset = np.where(follows, scaled.offset @ lift, prepared.offset)
        whole = Posterior(fit.kernel, fit.inputs, fit.weights @ lift, fit.mean @ lift)
        inner = state_of(Scaled(scaled.place, self.sites.inputs, offset, scaled.unit), None, whole, shape)
        moves = [self.sites.on_all(g) for g in self.model.group.elements]
        return averaged_state(inner, [g for g in moves if g is not None])


def finite_in(
    data: DataSet,
    prepared: Prepared,
    plain: Hyper,
    options: SearchSettings,
    note: Note,
    memory: Memory,
    model: FunctionModel | None = None,
) -> tuple[Findings, FunctionModel | None]:
    """What is claimed and what is not, and the model with the largest group that is claimed.

    ``model`` is that of a continuous symmetry that is claimed.
    """
    note("searching for finite symmetries")
    sites = movable_inputs(prepared, constant_inputs(data, prepared))

    def look() -> dict[str, Any]:
        claims, reasons = finite_symmetries(
            sites,
            (data.x_shape, data.y_shape),
            plain,
            labels=bool(data.classes),
            seed=options.seed,
            tolerance=options.tolerance,
            known=None if model is None else known_function(sites, model, options.tolerance),
            note=note,
        )
        return Findings.of("finite", "signed permutations", tuple(claims), reasons).to_stage()

    found = Findings.from_stage(memory("finite", look))
    note(f"finite: {found.words}")
    if not found.claims:
        return found, None
    largest = max(found.claims, key=lambda claim: claim.size)
    return found, _model(sites, largest, plain, options.seed)


def constant_inputs(data: DataSet, prepared: Prepared) -> dict[int, float]:
    """Inputs that are not used because they are constant, not because they repeat others; with their values."""
    once = set(each_once(data.x))
    left_out = set(range(prepared.total)) - set(prepared.inputs)
    constant = data.x.std(0) <= CONSTANT * np.abs(data.x).max(0)
    return {i: float(np.median(data.x[:, i])) for i in left_out if constant[i] or i in once}


def _model(sites: MovableInputs, claim: Claim, plain: Hyper, seed: int) -> FunctionModel:
    group = generated([sites.restricted(g) for g in claim.moves])
    kernel = kernel_on_movable_inputs(plain, len(sites.inputs))
    if group is None:
        found = sorted_model(sites, claim, kernel, seed)
        if found is None:
            raise MetasymError(
                "expected generators of a small group, found those of a large one", about="generators"
            )
        return found
    _, x, y, _, _ = sites.placed(group)
    return FiniteModel(sites, equivariant(group, kernel, x, y), claim)
