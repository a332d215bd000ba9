"""Where the points come from at which a function is called: a sample of inputs, or a function that draws them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.claim_thresholds import CALLS
from metasym.errors import in_one_line
from metasym.tasks.frames import names_in
from metasym.types import MetasymError

_FIRST = 512
"""Points that are drawn for the search, where a function draws them."""


@dataclass(eq=False)
class InputDraws:
    """Points for the search, and fresh ones that the search has not seen."""

    search: Array
    """``[points, n]``"""
    shape: tuple[int, ...]
    """Of one input."""
    tensors: torch.dtype | None
    """The type of tensors that the inputs were given as; None for arrays."""
    names: tuple[str, ...] = ()
    """What the user calls the inputs: the columns of a frame; empty where they have no names."""
    _rest: Array | None = None
    _draw: Callable[[int, np.random.Generator], Any] | None = None
    _generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def fresh(self, count: int) -> Array:
        """At most ``count`` held-out points ``[points, n]``."""
        if self._draw is None:
            assert self._rest is not None
            return self._rest[:count]
        return _checked(_drawn(self._draw, count, self._generator), count, self.shape)[0]

    @property
    def centre(self) -> Array:
        """The mean of the inputs, ``[n]``."""
        return np.asarray(self.search.mean(0))

    @property
    def spread(self) -> Array:
        """Their standard deviations, ``[n]``."""
        return np.asarray(self.search.std(0))


def input_draws(x: Any, seed: int, names: tuple[str, ...] = ()) -> InputDraws:
    """``x`` is a sample ``[points, ...]``, or a function ``x(count, generator)`` that draws one.

    Of a sample, a random half is for the search and the other half is fresh. ``generator`` is numpy's. ``names``
    are those of the inputs where ``x`` is no frame.
    """
    generator = np.random.default_rng([seed, 31])
    if callable(x) and not hasattr(x, "__array__"):
        drawn = _drawn(x, _FIRST, generator)
        first, shape, tensors = _checked(drawn, _FIRST)
        return InputDraws(first, shape, tensors, _named(drawn, first, names), None, x, generator)
    points, shape, tensors = _checked(x)
    if len(points) < CALLS.least_points:
        raise MetasymError(
            f"expected at least {CALLS.least_points} points in x, found {len(points)}",
            about="x",
            found=len(points),
        )
    shuffled = points[generator.permutation(len(points))]
    half = len(points) // 2
    return InputDraws(
        shuffled[:half], shape, tensors, _named(x, points, names), shuffled[half:], None, generator
    )


def _named(x: Any, points: Array, names: tuple[str, ...]) -> tuple[str, ...]:
    found = names or names_in(x)
    if found and len(found) != points.shape[1]:
        raise MetasymError(
            f"expected a name for each of the {points.shape[1]} inputs in x, found {len(found)}",
            about="x: names",
            found=len(found),
        )
    return found


def _drawn(x: Callable[[int, np.random.Generator], Any], count: int, generator: np.random.Generator) -> Any:
    """What ``x(count, generator)`` gives; whatever it raises becomes one line about ``x``."""
    try:
        return x(count, generator)
    except (Exception, SystemExit) as error:  # report in one line whatever a user's function raises
        raise MetasymError(
            f"expected a sample x, or x(count, generator) that draws one, found {type(error).__name__}: "
            f"{in_one_line(error)}",
            about="x",
            found=type(error).__name__,
        ) from error


def _checked(
    x: Any, count: int | None = None, shape: tuple[int, ...] | None = None
) -> tuple[Array, tuple[int, ...], torch.dtype | None]:
    tensors = x.dtype if isinstance(x, torch.Tensor) else None
    found = x.detach().cpu().numpy() if isinstance(x, torch.Tensor) else np.asarray(x)
    if found.dtype.kind not in "fiub" or found.ndim < 2:
        raise MetasymError(
            f"expected x to hold real numbers [points, ...], found {found.dtype} of shape {found.shape}",
            about="x",
            found=found.shape,
        )
    if count is not None and len(found) != count:
        raise MetasymError(
            f"expected x(count, generator) to draw {count} points, found {len(found)}",
            about="x",
            found=len(found),
        )
    here = tuple(int(size) for size in found.shape[1:])
    if shape is not None and here != shape:
        raise MetasymError(f"expected x to draw inputs of shape {shape}, found {here}", about="x", found=here)
    numbers = found.reshape(len(found), math.prod(here)).astype(np.float64)
    if not np.isfinite(numbers).all():
        raise MetasymError("expected finite numbers in x, found NaN or infinity", about="x")
    if not numbers.shape[1]:
        raise MetasymError("expected inputs in x, found none", about="x", found=here)
    if tensors is not None and not tensors.is_floating_point:
        tensors = torch.float32
    return numbers, here, tensors


def input_kinds(spread: Array) -> npt.NDArray[np.int64]:
    """Equal numbers for inputs whose spreads are alike, by gaps in their order."""
    order = np.argsort(spread, kind="stable")
    kinds = np.zeros(len(spread), dtype=np.int64)
    for before, here in itertools.pairwise(order):
        apart = spread[here] > CALLS.other_kind * spread[before] + 1e-300
        kinds[here] = kinds[before] + apart
    return kinds


def likely_centre(draws: InputDraws, kinds: npt.NDArray[np.int64]) -> Array:
    """0 where the inputs are about 0, else their mean, kind by kind."""
    middle, spread = draws.centre, draws.spread
    found = np.zeros_like(middle)
    for kind in set(kinds.tolist()):
        of = kinds == kind
        if abs(middle[of].mean()) > 0.5 * spread[of].mean():
            found[of] = middle[of].mean()
    return found
