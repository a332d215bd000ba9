"""A user's function, checked once: numbers ``[points, n]`` in, numbers ``[points, m]`` out."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import nn

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import CALLS
from metasym.errors import in_one_line
from metasym.types import MetasymError

_AT_ONCE = 2**21
"""Numbers in one call at most."""
_PROBES = 64
"""Points that are called several times, to see whether f is random."""
_REPEATS = 8
"""Times that each of them is called where the first two differ."""
_SINGLE, _DOUBLE = 1e-6, 1e-11
"""Relative differences that rounding in single and in double precision may leave."""


@dataclass(eq=False)
class CalledFunction:
    """``f`` with its shapes; every call is checked and counted."""

    f: Callable[[Any], Any]
    input_shape: tuple[int, ...]
    as_tensor: torch.dtype | None
    """What f is called with: tensors of this type, or arrays of numpy."""
    output_shape: tuple[int, ...] = ()
    noise: Array = field(default_factory=lambda: np.zeros(0))
    """``[m]``: the variance of repeated calls at one point; zeros where f gives the same number every time."""
    noise_known: float = 0.0
    """The relative standard error of that variance."""
    rounding: float = _DOUBLE
    """The relative size of numbers that rounding may change."""
    points: int = 0
    """How many points f was called at."""
    repeats: int = 1
    """Calls at every point, of which the mean is taken; ``noise`` is that of the mean."""

    @property
    def inputs(self) -> int:
        """How many."""
        return math.prod(self.input_shape)

    @property
    def outputs(self) -> int:
        """How many."""
        return math.prod(self.output_shape)

    @property
    def name(self) -> str:
        """What to call it."""
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    def __call__(self, x: Array, /) -> Array:
        """``[points, m]`` at ``x [points, n]``."""
        step = max(1, _AT_ONCE // max(1, self.inputs, self.outputs))
        parts = [self._mean(x[i : i + step]) for i in range(0, len(x), step)]
        return np.concatenate(parts) if parts else np.zeros((0, self.outputs))

    def repeat(self, times: int) -> None:
        """Call so many times at every point from here on, which divides the noise."""
        self.noise = self.noise * self.repeats / times
        self.repeats = times

    def noise_beside(self, y: Array) -> float:
        """The root mean square of the noise of one call, relative to the deviation of ``y``: of the worst output."""
        spread = np.maximum(y.var(0), CALLS.small_output**2 * y.var(0).max())
        return math.sqrt(float((self.noise / spread).max()) * self.repeats)

    def _mean(self, x: Array) -> Array:
        total = self._call(x)
        for _ in range(self.repeats - 1):
            total += self._call(x)
        return total / self.repeats

    def _call(self, x: Array) -> Array:
        given = self._given(x)
        kept = given.clone() if isinstance(given, torch.Tensor) else given.copy()
        self.points += len(x)
        try:
            with torch.no_grad(), _evaluating(self.f):
                found = self.f(given)
        except (Exception, SystemExit) as error:  # report in one line whatever a user's function raises
            said = in_one_line(error)
            raise MetasymError(
                f"expected f to take inputs of shape {tuple(given.shape)}, found {type(error).__name__}: {said}",
                about="f",
                found=type(error).__name__,
            ) from error
        if not _same(given, kept):
            raise MetasymError(
                "expected f to leave its inputs as they are, found that it changes them in place", about="f"
            )
        return self._numbers(found, len(x))

    def _given(self, x: Array) -> Any:
        shaped = x.reshape(len(x), *self.input_shape)
        if self.as_tensor is None:
            return np.array(shaped, dtype=np.float64)
        return torch.tensor(shaped, dtype=self.as_tensor)

    def _numbers(self, found: Any, points: int) -> Array:
        if isinstance(found, torch.Tensor):
            found = found.detach().cpu().numpy()
        if not isinstance(found, np.ndarray):
            with contextlib.suppress(ValueError, TypeError):
                found = np.asarray(found)
        if not isinstance(found, np.ndarray) or found.dtype.kind not in "fiub":
            kind = found.dtype if isinstance(found, np.ndarray) else type(found).__name__
            raise MetasymError(f"expected f to give real numbers, found {kind}", about="f", found=str(kind))
        if found.ndim == 0 or len(found) != points:
            raise MetasymError(
                f"expected f to give {points} outputs for {points} points, found shape {found.shape}",
                about="f",
                found=found.shape,
            )
        if self.output_shape and (found.shape[1:] or (1,)) != self.output_shape:
            raise MetasymError(
                f"expected f to give outputs of one shape {self.output_shape}, found {found.shape[1:]}",
                about="f",
                found=found.shape,
            )
        self.output_shape = tuple(int(size) for size in found.shape[1:]) or (1,)
        if found.dtype.kind == "f" and found.dtype.itemsize < 8:
            self.rounding = _SINGLE
        numbers = found.reshape(points, -1).astype(np.float64)
        if not numbers.shape[1]:
            raise MetasymError("expected f to give at least one output, found none", about="f", found=0)
        bad = int((~np.isfinite(numbers)).any(1).sum())
        if bad:
            raise MetasymError(
                f"expected f to give finite numbers, found NaN or infinity at {bad} of {points} points",
                about="f",
                found=bad,
            )
        return numbers

    def jacobian(self, x: Array, /) -> Array:
        """``[points, m, n]``: by autograd where f computes with torch, else by central differences."""
        if self.as_tensor is not None and not self.noise.any():
            with contextlib.suppress(RuntimeError, NotImplementedError, AttributeError, TypeError):
                return self._exact_jacobian(x)
        step = max(self.rounding, 1e-13) ** (1 / 3) * np.maximum(x.std(0), 1e-6)
        found = np.empty((len(x), self.outputs, self.inputs))
        for i in range(self.inputs):
            there = np.zeros(self.inputs)
            there[i] = step[i]
            found[:, :, i] = (self(x + there) - self(x - there)) / (2 * step[i])
        return found

    def _exact_jacobian(self, x: Array) -> Array:
        given = torch.tensor(x.reshape(len(x), *self.input_shape), dtype=self.as_tensor, requires_grad=True)
        with _evaluating(self.f):
            y = self.f(given).reshape(len(x), -1)
            rows = [
                torch.autograd.grad(y[:, k].sum(), given, retain_graph=True)[0] for k in range(y.shape[1])
            ]
        self.points += len(x)
        found = torch.stack(rows, 1).reshape(len(x), y.shape[1], -1).double().numpy()
        if not np.isfinite(found).all():
            raise RuntimeError("derivatives are not finite")
        return np.asarray(found, dtype=np.float64)


def called_function(
    f: Any, probes: Array, input_shape: tuple[int, ...], tensors: torch.dtype | None
) -> CalledFunction:
    """``f`` looked at with ``probes [points, n]``: its outputs, its noise, and whether it is a function at all."""
    if isinstance(f, torch.export.ExportedProgram):
        f = f.module()
    if isinstance(f, nn.Module):
        tensors = next((p.dtype for p in f.parameters() if p.is_floating_point()), tensors or torch.float32)
    called = CalledFunction(f, input_shape, tensors)
    first = called._call(probes)
    again = [called._call(probes) for _ in range(2)]
    scale = float(np.sqrt((first**2).mean())) or 1.0
    rounding, some = called.rounding, probes[: max(1, min(_PROBES, len(probes) // 2))]
    if max(float(np.abs(one - first).max()) for one in again) > rounding * scale:
        values = np.stack([called._call(some) for _ in range(_REPEATS)])
        called.noise = values.var(0, ddof=1).mean(0)
        called.noise_known = float(np.sqrt(2 / (len(some) * (_REPEATS - 1))))
    else:
        called.noise = np.zeros(first.shape[1])
        apart = called._call(some)
        if float(np.abs(apart - first[: len(some)]).max()) > CALLS.mixes * scale:
            raise MetasymError(
                "expected each output of f to depend on its own point alone, found outputs that change with the "
                "other points of the batch",
                about="f",
            )
    spread = first.var(0)
    if not spread.sum() > (rounding * scale) ** 2:
        raise MetasymError(
            "expected f to depend on its inputs, found the same output at all points", about="f"
        )
    share = float(called.noise.sum() / max(spread.sum(), np.finfo(float).tiny))
    if share > CALLS.mostly_noise:
        raise MetasymError(
            f"expected f to give the same outputs for the same inputs, found that repeated calls differ by "
            f"{share:.0%} of the variance: seed it",
            about="f",
            found=share,
        )
    return called


def _same(given: Any, kept: Any) -> bool:
    if isinstance(given, torch.Tensor):
        return bool(given.shape == kept.shape and torch.equal(given, kept))
    return bool(np.array_equal(given, kept))


@contextlib.contextmanager
def _evaluating(f: Any) -> Iterator[None]:
    """A module as it is used: without dropout and without the statistics of a batch."""
    if not isinstance(f, nn.Module) or not f.training:
        yield
        return
    modes = [(module, module.training) for module in f.modules()]
    try:
        f.eval()
    except NotImplementedError:  # an exported program has one mode
        yield
        return
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
