"""Finite symmetries of one function: search, certificate, and the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.finite.group_search import finite_symmetries, generated
from metasym.discovery.finite.movable_inputs import Sites, on_sites, sites_of
from metasym.discovery.models.fitted_module import State, averaged_state, state_of
from metasym.discovery.models.gaussian_processes import Hyper, Posterior
from metasym.discovery.models.group_averaged_kernels import Equivariant, equivariant
from metasym.discovery.models.preprocessing import Prepared, Scaled, each_once
from metasym.discovery.search_settings import Memory, Note, SearchSettings
from metasym.groups.signed_permutations import Points, SignedPermutation
from metasym.tasks.dataset import CONSTANT, DataSet
from metasym.types import MetasymError


@dataclass(frozen=True, eq=False)
class FiniteModel:
    """Functions that a finite group keeps."""

    sites: Sites
    model: Equivariant

    def predictions(self, rows: Points, *, held_out: bool, points: Points | None = None) -> Array:
        """``[points, m]`` in prepared units, fitted to the training examples ``rows``: of held-out or of others."""
        scaled, x, y, x_new, _ = self.sites.placed(self.model.group)
        fit = self.model.fit(x[rows], y[rows])
        found = self.model.averaged(fit, x_new if held_out else x[points])
        prepared = self.sites.prepared
        back = found + (scaled.offset - prepared.offset[list(self.sites.outputs)]) / prepared.unit
        return np.asarray(back @ self.sites.lift)

    def state(self, shape: tuple[int, ...]) -> State:
        """What defines the module, fitted to all examples."""
        scaled, x, y, x_new, y_new = self.sites.placed(self.model.group)
        fit = self.model.fit(np.concatenate([x, x_new]), np.concatenate([y, y_new]))
        lift, prepared = self.sites.lift, self.sites.prepared
        follows = lift.any(axis=0)
        offset = np.where(follows, scaled.offset @ lift, prepared.offset)
        whole = Posterior(fit.kernel, fit.inputs, fit.weights @ lift, fit.mean @ lift)
        inner = state_of(Scaled(scaled.place, self.sites.inputs, offset, scaled.unit), None, whole, shape)
        moves = [self.sites.on_all(g) for g in self.model.group.elements]
        return averaged_state(inner, [g for g in moves if g is not None])


def finite_in(
    data: DataSet, prepared: Prepared, plain: Hyper, options: SearchSettings, note: Note, memory: Memory
) -> tuple[list[dict[str, Any]], FiniteModel | None, list[dict[str, str]]]:
    """What is claimed, the model with the largest group of it, and what is not claimed."""
    note("looking for finite symmetries")
    sites = sites_of(prepared, _constant(data, prepared))

    def look() -> dict[str, Any]:
        claims, reason = finite_symmetries(
            sites,
            (data.x_shape, data.y_shape),
            plain,
            labels=bool(data.classes),
            seed=options.seed,
            tolerance=options.tolerance,
            note=note,
        )
        plain_claims = [claim.as_dict() for claim in claims]
        return {"claim": plain_claims[0] if claims else None, "more": plain_claims[1:], "reason": reason}

    found = memory("finite", look)
    note(f"finite: {found['reason']}")
    if found["claim"] is None:
        return [], None, [{"kind": "finite", "what": "signed permutations", "reason": found["reason"]}]
    claims = [found["claim"], *found.get("more", [])]
    largest = max(claims, key=lambda claim: int(claim["order"]))
    return claims, _model(sites, [SignedPermutation.of(**g) for g in largest["generators"]], plain), []


def _constant(data: DataSet, prepared: Prepared) -> dict[int, float]:
    """Inputs that are not used because they are constant, not because they repeat others; with their values."""
    once = set(each_once(data.x))
    left_out = set(range(prepared.total)) - set(prepared.inputs)
    constant = data.x.std(0) <= CONSTANT * np.abs(data.x).max(0)
    return {i: float(np.median(data.x[:, i])) for i in left_out if constant[i] or i in once}


def _model(sites: Sites, moves: list[SignedPermutation], plain: Hyper) -> FiniteModel:
    group = generated([sites.restricted(g) for g in moves])
    if group is None:
        raise MetasymError("expected generators of a small group, found those of a large one")
    _, x, y, _, _ = sites.placed(group)
    return FiniteModel(sites, equivariant(group, on_sites(plain, len(sites.inputs)), x, y))
