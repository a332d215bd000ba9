"""Inner step sizes: fixed or learned, one for each tensor, entry, or tensor and step."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from metasym.types import MetasymError, Params

MODES = ("fixed", "layer", "parameter", "layer-step")


class StepSizes(nn.Module):
    """The inner step size of every adapted tensor.

    ``"layer"`` (the paper's) learns one for each tensor, ``"parameter"`` one for each of its entries,
    ``"layer-step"`` one for each tensor and inner step, of which the last serves all later steps;
    ``"fixed"`` learns none.
    """

    def __init__(self, inner: Params, mode: str, start: float, steps: int) -> None:
        super().__init__()
        if mode not in MODES:
            raise MetasymError(f"expected step_sizes to be one of {', '.join(MODES)}, found {mode!r}")
        self.mode = mode
        self._names = {name: name.replace(".", "/") for name in inner}  # torch forbids dots in names
        for name, tensor in inner.items():
            shape = {"parameter": tensor.shape, "layer-step": (max(steps, 1),)}.get(mode, ())
            value = torch.full(shape, start, dtype=tensor.dtype, device=tensor.device)
            if mode == "fixed":
                self.register_buffer(self._names[name], value)
            else:
                self.register_parameter(self._names[name], nn.Parameter(value))

    def at(self, step: int) -> Params:
        """The step size of each adapted tensor at inner step ``step``."""
        found: dict[str, Tensor] = {name: getattr(self, key) for name, key in self._names.items()}
        if self.mode == "layer-step":
            return {name: rate[min(step, rate.numel() - 1)] for name, rate in found.items()}
        return found

    def summary(self) -> dict[str, float]:
        """One number for each adapted tensor, the mean where it has many."""
        return {name: float(getattr(self, key).detach().mean()) for name, key in self._names.items()}
