"""What the engines with a closed form of one layer share: reasons to refuse, scoring, the names of gradients."""

from __future__ import annotations

from abc import ABC
from typing import ClassVar

import torch
from torch import Tensor

from metasym.adaptation.functional import is_squared
from metasym.engines.description import MODEL, RATES, Adapting, Description, Setting
from metasym.engines.engine import Engine, Ways
from metasym.engines.reference import Reference
from metasym.types import Batch, Episode, Loss, Params


class ClosedEngine(Engine, ABC):
    """The meta-gradient of one layer with the squared loss, in closed form; scoring is left to the reference."""

    way: ClassVar[str] = "closed"

    def __init__(self, reference: Reference) -> None:
        self._reference = reference

    def scores(
        self, description: Description, ways: Ways, episodes: Episode, metric: Loss, steps: int
    ) -> Tensor:
        """By the reference: any metric is allowed, and no gradient is needed."""
        return self._reference.scores(description, ways, episodes, metric, steps)

    def adapt(self, description: Description, support: Batch, steps: int) -> Params:
        """By the reference."""
        return self._reference.adapt(description, support, steps)


def refuses_step(description: Description, setting: Setting) -> str | None:
    """Why there is no closed form of any layer's step; None where the layer decides."""
    if not isinstance(description, Adapting):
        return "no closed form with prototypes or with parameters that differ between tasks"
    if description.solver != "sgd":
        return f"solver {description.solver}"
    if not is_squared(description.loss):
        return "not the squared loss"
    if description.map_given:
        return f"map {description.map} was asked for"
    if setting.autocast:
        return "mixed precision"
    if setting.learned_data:
        return "gradients by the data are asked for"
    return None


def refuses_types(setting: Setting, own: torch.dtype) -> str | None:
    """Why data of these types do not fit a layer of the type ``own``; None where they do."""
    fits = setting.dtype == own and setting.targets in (None, own)
    return None if fits else "data of another type than the layer's"


def by_outer_names(d: Adapting, by_model: Params, by_rates: Params) -> Params:
    """Gradients by the outer names, from those by the model's parameters and by the learned step sizes."""
    fixed = () if d.learn_start else d.inner
    found = {f"{MODEL}{name}": g for name, g in by_model.items() if name not in fixed}
    return {**found, **{f"{RATES}{name}": g for name, g in by_rates.items()}}
