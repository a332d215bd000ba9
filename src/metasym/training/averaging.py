"""An exponential average of the outer parameters: what a run with ``average=`` is validated and ends with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from metasym.storage.serialization import CheckpointError
from metasym.types import MetasymError, Params


class Average:
    """``average <- d average + (1 - d) parameters`` after every step, with ``d = min(decay, (1 + t) / (10 + t))``.

    It begins with the parameters after the first step; a smaller ``d`` in early steps soon forgets these.
    """

    def __init__(self, parameters: Params, decay: float) -> None:
        if not 0 < decay < 1:
            raise MetasymError(
                f"expected average between 0 and 1, found {decay}", about="average", found=decay
            )
        self.decay = decay
        self._parameters = parameters
        self.values: Params = {}
        """The averages by name; empty before the first step."""

    @torch.no_grad()
    def update(self, step: int) -> None:
        """Take in the parameters that step ``step`` (from 1) has left."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for name, parameter in self._parameters.items():
            if name in self.values:
                self.values[name].lerp_(parameter, 1 - decay)
            else:
                self.values[name] = parameter.detach().clone()

    @torch.no_grad()
    def put(self) -> None:
        """Put the average into the parameters."""
        for name, value in self.values.items():
            self._parameters[name].copy_(value)

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """The average takes the parameters' place inside the block."""
        own = {name: p.detach().clone() for name, p in self._parameters.items()}
        self.put()
        try:
            yield
        finally:
            with torch.no_grad():
                for name, parameter in self._parameters.items():
                    parameter.copy_(own[name])

    def restore(self, stored: Mapping[str, Any] | None, name: str) -> None:
        """Go on from the average in the checkpoint ``name``."""
        if stored is None:
            raise CheckpointError(
                f"{name}: expected an average of the parameters, found none", about=f"{name}: average"
            )
        for key in [*self._parameters, *stored] if stored else []:
            own, other = self._parameters.get(key), stored.get(key)
            if own is None or not isinstance(other, Tensor) or other.shape != own.shape:
                raise CheckpointError(
                    f"{name}: expected an average of this learner's parameters, found another {key}",
                    about=f"{name}: average: {key}",
                )
            self.values[key] = other.to(own).clone()
