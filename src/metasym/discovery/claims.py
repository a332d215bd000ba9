"""From a candidate to a claim: certified on held-out data, bounded, named; or refused, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metasym.certification.beta import Beta, beta
from metasym.discovery.continuous import Candidate
from metasym.discovery.fields import Array, orthonormal, squared
from metasym.discovery.gaussian_processes import Hyper, Posterior, posterior
from metasym.discovery.hidden import hidden
from metasym.discovery.symmetric_fit import SymmetricFit
from metasym.groups.lie_algebra import LieAlgebra, ideals, radical
from metasym.types import MetasymError

TOLERANCE = 0.003
"""The largest violation, as a part of the variance that the moved inputs carry, with which a symmetry is named."""


@dataclass(frozen=True, eq=False)
class Claim:
    """A continuous symmetry that is claimed."""

    name: str
    fields: Array
    """``[dimension, n, n+1]`` in the coordinates of the data: columns of A, then a."""
    inputs: tuple[int, ...]
    """Which inputs it moves."""
    beta: Beta
    violation_upper: float
    """As a part of the variance of y."""

    @property
    def dimension(self) -> int:
        """Of the algebra."""
        return len(self.fields)

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for ``result.json``."""
        return {
            "kind": "continuous",
            "name": self.name,
            "dimension": self.dimension,
            "inputs": list(self.inputs),
            "generators": np.round(self.fields, 9).tolist(),
            "violation_upper": self.violation_upper,
            "beta": self.beta.value,
            "beta_ci": [self.beta.low, self.beta.high],
        }


@dataclass(frozen=True)
class Refusal:
    """Why a candidate is not claimed."""

    what: str
    reason: str


def certificate(
    candidate: Candidate, train: tuple[Array, Array], held_out: tuple[Array, Array]
) -> tuple[Beta, float]:
    """beta on held-out examples, and the largest violation that train and held-out data together allow."""
    fit, rest = candidate.fit, candidate.rest
    assert fit is not None
    assert rest is not None
    (x, y), (x_new, y_new) = train, held_out
    symmetric = fit.fit(x, y)
    # A part that breaks the symmetry has to be there to be judged: at least as strong as the noise.
    breaking = _breaking(fit, rest, x, y)
    a, a_new = breaking(x), breaking(x_new)
    own = fit.fit(x, a)  # what of it is symmetric after all
    variance = float(((y_new - y.mean(0)) ** 2).sum(1).mean())
    found = beta(y_new - symmetric(fit.inputs(x_new)), a_new - own(fit.inputs(x_new)), variance)
    every = np.concatenate([x_new, x]), np.concatenate([y_new, y])
    return found, max(found.violation_upper, hidden(fit, *every))


def _breaking(fit: SymmetricFit, rest: Hyper, x: Array, y: Array) -> Any:
    """The function that a flexible model adds to the symmetric one."""
    from metasym.discovery.gaussian_processes import squares

    n = x.shape[1]
    noise = max(rest.noise, fit.hyper.noise, 1e-6)
    size = float(np.mean((x**2).sum(1)))
    kernel = squares(n, noise, n**0.5, noise / size**2)
    whole: Posterior = posterior(Hyper(fit.hyper.kernel + kernel, noise, 0.0), fit.inputs(x), y)
    only = Posterior(kernel, whole.inputs, whole.weights, np.zeros(y.shape[1]))

    def breaking(points: Array) -> Array:
        return only(fit.inputs(points))

    return breaking


def ideal_fields(fields: Array) -> list[Array]:
    """The algebra as a list of ideals: the simple ones, and the radical; all of it where it is no such sum."""
    algebra = LieAlgebra(torch.from_numpy(squared(fields)))
    simple, _ = ideals(algebra)
    spaces = [*simple]
    outer = radical(algebra)
    if len(outer):
        spaces.append(outer)
    if sum(len(space) for space in spaces) != len(fields):
        return [fields]
    return [orthonormal(np.einsum("kd,dij->kij", space, fields)) for space in spaces]


def share(fields: Array, fit: SymmetricFit, x: Array, y: Array, generator: np.random.Generator) -> float:
    """The part of the model's variance that the inputs carry which the fields move (a total Sobol index)."""
    n = x.shape[1]
    directions = orthonormal(fields[:, :, :].transpose(0, 2, 1).reshape(-1, 1, n))[:, 0]
    model = fit.fit(x, y)
    other = x[generator.permutation(len(x))]
    mixed = x + (other - x) @ directions.T @ directions
    change = model(fit.inputs(mixed)) - model(fit.inputs(x))
    return float(0.5 * (change**2).sum(1).mean() / ((y - y.mean(0)) ** 2).sum(1).mean())


def name_of_fields(fields: Array) -> str:
    """The name of the algebra of affine fields."""
    try:
        return LieAlgebra(torch.from_numpy(squared(fields))).name
    except MetasymError:
        return f"an algebra of dimension {len(fields)}"


def moved_inputs(fields: Array, tolerance: float = 1e-6) -> tuple[int, ...]:
    """The inputs that some field changes."""
    return tuple(int(i) for i in np.flatnonzero(np.abs(fields).max(axis=(0, 2)) > tolerance))
