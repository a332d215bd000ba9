"""Inner step sizes: fixed or learned, one for each tensor, entry, or tensor and step."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from metasym.adaptation.choices import STEP_SIZES
from metasym.types import MetasymError, Params


class StepSizes(nn.Module):
    """The inner step size of every adapted tensor.

    ``"layer"`` (the paper's) learns one for each tensor, ``"parameter"`` one for each of its entries,
    ``"layer-step"`` one for each tensor and inner step, of which the last serves all later steps;
    ``"fixed"`` learns none.
    """

    def __init__(self, inner: Params, mode: str, start: float, steps: int) -> None:
        super().__init__()
        if mode not in STEP_SIZES:
            raise MetasymError(
                f"expected step_sizes to be one of {', '.join(STEP_SIZES)}, found {mode!r}",
                about="step_sizes",
                found=mode,
            )
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

    def stacked(self, name: str, steps: int) -> Tensor:
        """The step sizes of the adapted tensor ``name`` at each of ``steps`` inner steps, ``[steps, ...]``."""
        rate: Tensor = getattr(self, self._names[name])
        if self.mode == "layer-step":
            return rate[[min(step, rate.numel() - 1) for step in range(steps)]]
        return rate.expand(steps, *rate.shape)

    def pull_back(self, gradients: Params) -> Params:
        """Turns gradients by what :meth:`stacked` gave into gradients by this module's parameters, by their names."""
        found = {}
        for name, by in gradients.items():
            key, rate = self._names[name], getattr(self, self._names[name])
            if self.mode == "layer-step":
                where = torch.arange(len(by), device=by.device).clamp_max(rate.numel() - 1)
                found[key] = torch.zeros_like(rate).index_add_(0, where, by)
            elif self.mode != "fixed":
                found[key] = by.sum(0)
        return found

    def pull_back_entries(self, by_step: Sequence[Params]) -> Params:
        """The same, from each step's gradients, given for every entry as if it had its own step size."""
        found: Params = {}
        for name, key in self._names.items():
            rate: Tensor = getattr(self, key)
            if self.mode == "fixed":
                continue
            whole = self.mode == "parameter"
            parts = [by[name] if whole else by[name].sum() for by in by_step]
            found[name] = torch.stack(parts) if parts else rate.new_zeros(0, *(rate.shape if whole else ()))
        return self.pull_back(found)

    def summary(self) -> dict[str, float]:
        """One number for each adapted tensor, the mean where it has many."""
        found: dict[str, Tensor] = {name: getattr(self, key).detach() for name, key in self._names.items()}
        return {name: float(rate if rate.ndim == 0 else rate.mean()) for name, rate in found.items()}
