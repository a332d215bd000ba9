"""A function that a continuous symmetry has made known: moves that change it need no further look.

With an algebra built in a model may leave almost nothing of held-out examples. It then stands for the function and
can be asked at ``g x``, which the data do not hold. A move that it keeps to less than three times what it
leaves may be a symmetry; one that it breaks by more is none, by the triangle inequality.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import FINITE
from metasym.discovery.finite.movable_inputs import MovableInputs
from metasym.discovery.models.function_models import FunctionModel
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation


@dataclass(frozen=True, eq=False)
class KnownFunction:
    """A fitted model on the sites that a finite group may move."""

    sites: MovableInputs
    model: FunctionModel
    fit: Any
    most: float
    """The part of the variance of y from which on a change is none of the model's errors."""

    def breaks(self, g: SignedPermutation) -> bool:
        """Whether the function is changed by the move."""
        group = SignedGroup((g,), g.shape)
        scaled = self.sites.units(group)
        outputs = list(self.sites.outputs)
        here = self._at(scaled.place(self.sites.train), scaled.place.scale, scaled.place.centre)[:, outputs]
        moved = g.on_inputs(scaled.place(self.sites.train))
        there = self._at(moved, scaled.place.scale, scaled.place.centre)[:, outputs]
        # Outputs that move do so about the offset that the group keeps.
        about = (scaled.offset - self.sites.prepared.offset[outputs]) / self.sites.prepared.unit
        change = there - about - g.on_outputs(here - about)
        spread = float(((here - here.mean(0)) ** 2).sum(1).mean())
        return float((change**2).sum(1).mean()) > self.most * spread

    def _at(self, placed: Array, scale: Array, centre: Array) -> Array:
        raw = placed * scale + centre
        used = [self.sites.inputs.index(i) for i in self.sites.prepared.inputs]
        return self.model.predict(self.fit, self.sites.prepared.place(raw[:, used]))


def known_function(sites: MovableInputs, model: FunctionModel, tolerance: float) -> KnownFunction | None:
    """From a model whose symmetry is claimed; None where it leaves more of held-out examples than is tolerated."""
    prepared = sites.prepared
    fit = model.fit(*prepared.train)
    x, y = prepared.held_out
    left = float(((model.predict(fit, x) - y) ** 2).sum(1).mean() / ((y - y.mean(0)) ** 2).sum(1).mean())
    if not np.isfinite(left) or left > tolerance:
        return None
    return KnownFunction(sites, model, fit, FINITE.certain * max(left, tolerance))
