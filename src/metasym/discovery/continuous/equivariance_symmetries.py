"""Continuous symmetries of one function that move its outputs too: search, certificate, and the model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metasym.discovery.algebra.vector_fields import Array, conjugated, sides
from metasym.discovery.claim_thresholds import CONTINUOUS
from metasym.discovery.continuous.equivariance_claims import RotationAction, judge_pairs, rotation_action
from metasym.discovery.continuous.equivariance_search import pair_ambients, search_pairs
from metasym.discovery.continuous.invariance_search import plain_fit
from metasym.discovery.models.circle_averaged_kernels import MOST_JOINT, averaged_posterior, circle_posterior
from metasym.discovery.models.fitted_module import State, state_of
from metasym.discovery.models.function_models import ComparedBy
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior
from metasym.discovery.models.preprocessing import Prepared, Scaled, each_once
from metasym.discovery.models.shared_units import Coordinates, coordinates
from metasym.discovery.search_findings import Findings
from metasym.discovery.search_settings import Memory, Note, SearchSettings
from metasym.types import MetasymError
from metasym.verdicts.claims import CandidateVerdict, Claim
from metasym.verdicts.discovery_reasons import MovesNoOutput


@dataclass(frozen=True, eq=False)
class Outputs:
    """Outputs in comparable units, those that say something of their own; the others follow from them.

    About the data's own zero where their means are small: about the mean of a sample nothing turns exactly.
    """

    kept: tuple[int, ...]
    place: Coordinates
    lift: Array
    """``[kept, m]``: all outputs from those kept."""
    start: Array
    """``[m]``: what is added to that."""
    offset: Array
    unit: float

    def __call__(self, y: Array) -> Array:
        """Prepared outputs ``y [examples, m]`` in the coordinates of the search."""
        return self.place((y * self.unit + self.offset)[:, list(self.kept)])

    def data(self, y: Array) -> Array:
        """And back, all of them, in the units of the data."""
        return np.asarray((y * self.place.scale + self.place.centre) @ self.lift + self.start)


def outputs_of(prepared: Prepared) -> Outputs | None:
    """From the training outputs; None where fewer than two are left."""
    y = prepared.train[1] * prepared.unit + prepared.offset
    kept = independent_outputs(y)
    if len(kept) < 2:
        return None
    extended = np.c_[y[:, kept], np.ones(len(y))]
    lift: Array = np.linalg.lstsq(extended, y, rcond=None)[0].astype(np.float64)
    return Outputs(tuple(kept), coordinates(y[:, kept]), lift[:-1], lift[-1], prepared.offset, prepared.unit)


def independent_outputs(y: Array) -> list[int]:
    """Which columns of ``y [examples, m]`` vary and are no affine function of those before them."""
    kept: list[int] = []
    columns = each_once(y)
    known = np.ones((len(y), 1)) / len(y) ** 0.5
    for i in columns:
        column = y[:, i] - y[:, i].mean()
        left = column - known @ (known.T @ column)
        left = left - known @ (known.T @ left)  # once more, against rounding
        size = float(np.linalg.norm(left))
        if size > CONTINUOUS.dependent_output * float(np.linalg.norm(column)):
            kept.append(i)
            known = np.c_[known, left / size]
    return kept


@dataclass(frozen=True, eq=False)
class CircleModel:
    """Functions whose outputs turn with their inputs."""

    prepared: Prepared
    action: RotationAction
    hyper: Hyper
    outputs: Outputs
    symmetry: Claim
    compared_by: ComparedBy = ComparedBy.NOTHING
    evidence: float = math.nan

    def fit(self, x: Array, y: Array) -> Posterior:
        """In the coordinates where the algebra rotates; ``y`` in those of the search."""
        inputs, targets = self.action.inner(x), self.action.outer(self.outputs(y))
        if len(self.action.circles) == 1 and targets.size <= MOST_JOINT:
            return circle_posterior(self.hyper, self.action.circles[0], inputs, targets)
        return averaged_posterior(posterior(self.hyper, inputs, targets), self.action.circles)

    def predict(self, fit: Posterior, x: Array) -> Array:
        """``[points, m]``, in prepared units."""
        found = self.outputs.data(self._outside(fit(self.action.inner(x))))
        return np.asarray((found - self.outputs.offset) / self.outputs.unit)

    def _outside(self, y: Array) -> Array:
        outer = self.action.outer
        return np.asarray(y @ np.linalg.inv(outer.matrix) + outer.centre)

    def state(self, fit: Posterior, shape: tuple[int, ...]) -> State:
        """What defines the module."""
        inner, prepared = self.action.inner, self.prepared
        zero = self.outputs.data(self._outside(np.zeros((1, fit.weights.shape[1]))))[0]
        linear = (
            np.linalg.inv(self.action.outer.matrix) @ np.diag(self.outputs.place.scale) @ self.outputs.lift
        )
        whole = Posterior(fit.kernel, fit.inputs, fit.weights @ linear, fit.mean @ linear)
        place = Coordinates(prepared.place.centre + prepared.place.scale * inner.centre, prepared.place.scale)
        scaled = Scaled(place, prepared.inputs, zero, 1.0)
        return {**state_of(scaled, None, whole, shape), "turn": torch.tensor(inner.matrix)}


def pairs_in(
    prepared: Prepared, options: SearchSettings, note: Note, memory: Memory
) -> tuple[Findings, CircleModel | None]:
    """The largest algebra of inputs and outputs that is claimed, and what is not claimed; its model."""
    x, y = prepared.train
    n = x.shape[1]
    outputs = outputs_of(prepared)
    if outputs is None or n < 2:
        return Findings(), None
    targets = outputs(y)
    refused: list[CandidateVerdict] = []
    best: Claim | None = None
    model: CircleModel | None = None
    for index, (name, ambient) in enumerate(pair_ambients(n, targets.shape[1]).items()):
        note(f"searching for continuous symmetries among {name} ({len(ambient)} directions)")

        def look(index: int = index, name: str = name, ambient: Array = ambient) -> dict[str, Any]:
            draw = np.random.default_rng([options.seed, 5, index])
            plain = plain_fit(x, targets, draw)
            candidate = search_pairs(ambient, x, targets, plain, draw, note)
            held_out = prepared.held_out[0], outputs(prepared.held_out[1])
            certified, reason = judge_pairs(candidate, (x, targets), held_out, draw, options.tolerance)
            if certified is not None:
                inner, outer = sides(certified.fields, n)
                if np.abs(outer).max() > 1e-9:
                    there = _whole(inner, prepared), prepared.units
                    claim = certified.claim(*there, lifted(outer, outputs), prepared.output_units)
                    return Findings((claim,)).to_stage(pairs=certified.fields.tolist())
                reason = MovesNoOutput(certified.name)
            return Findings.of("continuous", name, (), () if reason is None else (reason,)).to_stage()

        stage = memory(name, look)
        found = Findings.from_stage(stage)
        note(f"{name}: {found.words}")
        refused += found.refused
        for claim in found.claims:
            if best is None or claim.size > best.size:
                best = claim
                model = _model(np.array(stage["pairs"]), claim, prepared, outputs, options.seed)
    return Findings(() if best is None else (best,), tuple(refused)), model


def _model(fields: Array, claim: Claim, prepared: Prepared, outputs: Outputs, seed: int) -> CircleModel:
    x, y = prepared.train
    action = rotation_action(fields, x.shape[1])
    if not isinstance(action, RotationAction):
        raise MetasymError(
            f"expected generators of rotations, found an algebra with {type(action).__name__}",
            about="generators",
            found=type(action).__name__,
        )
    hyper = plain_fit(action.inner(x), action.outer(outputs(y)), np.random.default_rng([seed, 6]))
    return CircleModel(prepared, action, hyper, outputs, claim)


def _whole(fields: Array, prepared: Prepared) -> Array:
    """Fields on the inputs of the search as fields on all inputs of the data."""
    return prepared.on_all(conjugated(fields, prepared.place.matrix))


def lifted(fields: Array, outputs: Outputs) -> Array:
    """Fields on the outputs of the search as fields on all outputs of the data."""
    m = outputs.lift.shape[1]
    back = conjugated(fields, outputs.place.matrix)
    found = np.zeros((len(back), m, m + 1))
    kept = list(outputs.kept)
    found[:, :, kept] = np.einsum("km,dkj->dmj", outputs.lift, back[:, :, :-1])
    found[:, :, -1] = np.einsum("km,dk->dm", outputs.lift, back[:, :, -1])
    return found
