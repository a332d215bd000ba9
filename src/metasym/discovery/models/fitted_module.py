"""Fitted functions as ordinary modules: to use, to store, to export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from sklearn.gaussian_process.kernels import RBF, Exponentiation, Sum
from torch import Tensor, nn

from metasym.discovery.models.column_kernels import OnColumns
from metasym.discovery.models.gaussian_processes import Array, Posterior
from metasym.discovery.models.invariant_features import Features, definite, products
from metasym.discovery.models.preprocessing import Scaling
from metasym.discovery.models.shared_units import Coordinates
from metasym.groups.signed_permutations import SignedPermutation

State = dict[str, Any]
"""Nested plain types and tensors, as the sealed files of this project hold them."""


class InvariantFeatures(nn.Module):
    """The features that a continuous symmetry keeps: ``[points, n]`` to ``[points, k]``."""

    quadratic: Tensor
    linear: Tensor
    middle: Tensor
    spread: Tensor

    def __init__(self, state: State) -> None:
        super().__init__()
        for name in ("quadratic", "linear", "middle", "spread"):
            self.register_buffer(name, state[name])
        self.lengths: list[int] = list(state["lengths"])
        self.cosines: list[list[int]] = [list(row) for row in state["cosines"]]

    def forward(self, x: Tensor) -> Tensor:
        """Scaled features."""
        found = ((x @ self.quadratic) * x).sum(-1).T + x @ self.linear.T
        columns = list(found.unbind(1))
        for i in self.lengths:
            columns[i] = found[:, i].abs().sqrt()
        for i, a, b in self.cosines:
            columns[i] = found[:, i] / (columns[a] * columns[b]).clamp_min(1e-12)
        return (torch.stack(columns, 1) - self.middle) / self.spread


class FittedFunction(nn.Module):
    """``x [points, ...]`` to ``y [points, ...]`` in the data's own units; for labels, scores of the classes.

    A Gaussian process's mean: computed in float64, given in the type of x.
    """

    centre: Tensor
    scale: Tensor
    inputs: Tensor
    weights: Tensor
    mean: Tensor
    offset: Tensor
    unit: Tensor
    used: Tensor
    turn: Tensor | None
    logarithms: Tensor | None
    """Which of the used inputs are seen by the logarithms of their sizes."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        features = state["features"]
        self.features = None if features is None else InvariantFeatures(features)
        for name in ("centre", "scale", "inputs", "weights", "mean", "offset", "unit", "used"):
            self.register_buffer(name, state[name])
        for index, widths in enumerate(state["widths"]):
            self.register_buffer(f"widths_{index}", widths)
        for name in ("turn", "logarithms"):
            if state.get(name) is None:
                setattr(self, name, None)  # not a buffer: torch.export counts those that are None
            else:
                self.register_buffer(name, state[name])
        self.kernel = [(str(k), int(a), int(b)) for k, a, b, _, _ in state["kernel"]]
        for index, (*_, amplitude, offset) in enumerate(state["kernel"]):
            # Tensors, since exporters round numbers to float32, which large weights show.
            numbers = torch.tensor([float(amplitude), float(offset)], dtype=torch.float64)
            self.register_buffer(f"numbers_{index}", numbers)
        self.shape = tuple(state["shape"])

    def forward(self, x: Tensor) -> Tensor:
        """Predictions."""
        points = x.reshape(x.shape[0], -1)[:, self.used].to(torch.float64)
        if self.logarithms is not None:
            sizes = points.abs().clamp_min(torch.finfo(torch.float64).tiny)
            taken = (torch.arange(points.shape[1], device=x.device)[:, None] == self.logarithms).any(1)
            points = torch.where(taken, sizes.log(), points)
        points = (points - self.centre) / self.scale
        if self.turn is not None:
            points = points @ self.turn
        z = points if self.features is None else torch.cat([points, self.features(points)], dim=1)
        total = torch.zeros(z.shape[0], len(self.inputs), dtype=torch.float64, device=z.device)
        for index, (kind, start, stop) in enumerate(self.kernel):
            amplitude, offset = getattr(self, f"numbers_{index}")
            a, b = z[:, start:stop], self.inputs[:, start:stop]
            if kind == "rbf":
                widths = getattr(self, f"widths_{index}")
                a, b = a / widths, b / widths
                distance = (a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2 * a @ b.T
                total = total + amplitude * torch.exp(-0.5 * distance.clamp_min(0))
            else:
                total = total + amplitude * (a @ b.T + offset) ** (3 if kind == "cube" else 2)
        found = (total @ self.weights + self.mean) * self.unit + self.offset
        return found.reshape(x.shape[0], *self.shape).to(x.dtype)


class Averaged(nn.Module):
    """A function averaged over a finite group of signed permutations: ``mean_g g_out^-1 f(g_in x)``."""

    sources: Tensor
    signs: Tensor
    targets: Tensor
    target_signs: Tensor

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        self.inner = FittedFunction(state["inner"])
        for name in ("sources", "signs", "targets", "target_signs"):
            self.register_buffer(name, state[name])

    def forward(self, x: Tensor) -> Tensor:
        """Predictions that the group keeps exactly, averaged in float64: parts that cancel may be large."""
        flat = x.reshape(x.shape[0], -1).to(torch.float64)
        total: Tensor | None = None
        for source, sign, target, target_sign in zip(
            self.sources, self.signs, self.targets, self.target_signs, strict=True
        ):
            found = self.inner(flat[:, source] * sign).reshape(x.shape[0], -1)
            back = found[:, target] * target_sign
            total = back if total is None else total + back
        assert total is not None
        return (total / len(self.sources)).reshape(x.shape[0], *self.inner.shape).to(x.dtype)


class Sorted(nn.Module):
    """A function of inputs of which some may be interchanged: it sees these in ascending order."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        self.inner = FittedFunction(state["inner"])
        self.orbits: list[list[int]] = [list(orbit) for orbit in state["orbits"]]

    def forward(self, x: Tensor) -> Tensor:
        """Predictions that every permutation within an orbit keeps exactly."""
        columns = list(x.reshape(x.shape[0], -1).unbind(1))
        for orbit in self.orbits:
            ordered = torch.stack([columns[i] for i in orbit], 1).sort(1).values
            for place, i in enumerate(orbit):
                columns[i] = ordered[:, place]
        found: Tensor = self.inner(torch.stack(columns, 1))
        return found


class Polynomial(nn.Module):
    """``x [points, ...]`` to ``y [points, ...]`` in the data's own units: sums of monomials.

    Computed in float64, given in the type of x.
    """

    centre: Tensor
    scale: Tensor
    used: Tensor
    factors: Tensor
    weights: Tensor
    offset: Tensor

    def __init__(self, state: State) -> None:
        super().__init__()
        self.state = state
        for name in ("centre", "scale", "used", "factors", "weights", "offset"):
            self.register_buffer(name, state[name])
        self.shape = tuple(state["shape"])

    def forward(self, x: Tensor) -> Tensor:
        """Predictions."""
        points = (x.reshape(x.shape[0], -1)[:, self.used].to(torch.float64) - self.centre) / self.scale
        with_one = torch.cat([points, torch.ones_like(points[:, :1])], dim=1)
        found = with_one[:, self.factors].prod(-1) @ self.weights + self.offset
        return found.reshape(x.shape[0], *self.shape).to(x.dtype)


def module_of(state: State) -> nn.Module:
    """The module that a stored state describes."""
    if "factors" in state:
        return Polynomial(state).eval()
    if "orbits" in state:
        return Sorted(state).eval()
    return (Averaged(state) if "inner" in state else FittedFunction(state)).eval()


def sorted_state(inner: State, orbits: Sequence[Sequence[int]]) -> State:
    """What defines a function that sees the inputs of each orbit in ascending order."""
    return {"inner": inner, "orbits": [list(orbit) for orbit in orbits]}


def averaged_state(inner: State, elements: Sequence[SignedPermutation]) -> State:
    """What defines a function averaged over the elements of a group."""
    back = [g.inverse for g in elements]
    rows = {
        "sources": [g.inputs for g in back],
        "signs": [g.input_signs for g in back],
        "targets": [g.outputs for g in elements],
        "target_signs": [g.output_signs for g in elements],
    }
    return {"inner": inner, **{name: torch.tensor(value) for name, value in rows.items()}}


def state_of(prepared: Scaling, features: Features | None, fit: Posterior, shape: tuple[int, ...]) -> State:
    """What defines the module of a fit."""
    kernel, widths = [], []
    for part in _parts(fit.kernel):
        inner = part.kernel
        amplitude = float(inner.k1.constant_value)
        if isinstance(inner.k2, RBF):
            widths.append(_double(np.broadcast_to(inner.k2.length_scale, part.stop - part.start)))
            kernel.append(["rbf", part.start, part.stop, amplitude, 0.0])
        else:
            assert isinstance(inner.k2, Exponentiation)
            widths.append(_double(np.ones(part.stop - part.start)))
            offset = float(inner.k2.kernel.sigma_0) ** 2
            kind = "cube" if inner.k2.exponent == 3 else "square"
            kernel.append([kind, part.start, part.stop, amplitude, offset])
    return {
        "centre": _double(prepared.place.centre),
        "scale": _double(prepared.place.scale),
        "used": torch.tensor(prepared.inputs),
        "inputs": _double(fit.inputs),
        "weights": _double(fit.weights),
        "mean": _double(fit.mean),
        "offset": _double(prepared.offset),
        "unit": torch.tensor(prepared.unit, dtype=torch.float64),
        "features": None if features is None else _features(features),
        "kernel": kernel,
        "widths": widths,
        "shape": list(shape),
    }


def polynomial_state(
    place: Coordinates,
    used: Sequence[int],
    monomials: Sequence[tuple[int, ...]],
    weights: Array,
    offset: Array,
    shape: tuple[int, ...],
) -> State:
    """What defines the module of ``weights [monomials, m]``, in the units of the data."""
    n = len(used)
    degree = max(1, *(len(one) for one in monomials))
    factors = [[*one, *[n] * (degree - len(one))] for one in monomials]  # input n stands for 1
    return {
        "centre": _double(place.centre),
        "scale": _double(place.scale),
        "used": torch.tensor(used),
        "factors": torch.tensor(factors),
        "weights": _double(weights),
        "offset": _double(offset),
        "shape": list(shape),
    }


def _features(features: Features) -> State:
    n = features.polynomials.shape[1]
    lengths = definite(features.polynomials) if features.kind != "plain" else []
    cosines = products(features.polynomials, lengths) if features.kind == "cosines" else {}
    return {
        "quadratic": _double(features.polynomials[:, :, :n]),
        "linear": _double(features.polynomials[:, :, n]),
        "middle": _double(features.middle),
        "spread": _double(features.spread),
        "lengths": lengths,
        "cosines": [[i, a, b] for i, (a, b) in cosines.items()],
    }


def _double(value: Array) -> Tensor:
    return torch.tensor(np.ascontiguousarray(value), dtype=torch.float64)


def _parts(kernel: Any) -> list[Any]:
    """The parts of a sum of kernels."""
    if isinstance(kernel, Sum):
        return [*_parts(kernel.k1), *_parts(kernel.k2)]
    assert isinstance(kernel, OnColumns)
    return [kernel]
