"""From a candidate to a claim: certified on held-out data, bounded, named; or refused, with the reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from metasym.certification.beta import Beta, beta
from metasym.discovery.algebra.vector_fields import Array, moved_inputs, orthonormal, squared, written
from metasym.discovery.continuous.input_constraints import leads_away
from metasym.discovery.continuous.invariance_search import Candidate
from metasym.discovery.continuous.violation_bound import hidden
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior, squares
from metasym.discovery.models.invariant_features import SymmetricFit
from metasym.discovery.models.preprocessing import Prepared
from metasym.groups.lie_algebra import LieAlgebra, ideals, radical
from metasym.groups.lie_names import name_of_algebra
from metasym.types import MetasymError

TOLERANCE = 0.003
"""The largest violation, as a part of the variance that the moved inputs carry, with which a symmetry is named."""
SURELY = 0.1
"""What the symmetric model leaves, as a part of the tolerance, that may be a violation without any harm."""
HARDLY = 1e-3
"""A part of the variance that is too little to be spoken of: fields that move nothing else are no near symmetry."""
FLOOR = 3.0
"""A model that knows nothing leaves at most this many times what the symmetric one leaves, where that is noise."""


@dataclass(frozen=True, eq=False)
class Claim:
    """A continuous symmetry that is claimed."""

    name: str
    fields: Array
    """``[dimension, n, n+1]`` in the coordinates of the data: columns of A, then a."""
    inputs: tuple[int, ...]
    """Which inputs it moves."""
    units: Array
    """``[n]``: of the inputs."""
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
            "generators": written(self.fields, self.units),
            "violation_upper": self.violation_upper,
            "beta": self.beta.value,
            "beta_ci": [self.beta.low, self.beta.high],
        }


NOT_CLOSED = "{} cannot be decided: its brackets leave it by more than rounding does"


@dataclass(frozen=True)
class Refusal:
    """Why a candidate is not claimed."""

    what: str
    reason: str


def certificate(
    candidate: Candidate, train: tuple[Array, Array], held_out: tuple[Array, Array]
) -> tuple[Beta, float]:
    """Beta on held-out examples, and the largest violation that train and held-out data together allow."""
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
    n = x.shape[1]
    noise = max(rest.noise, fit.hyper.noise, 1e-6)
    size = float(np.mean((x**2).sum(1)))
    kernel = squares(n, noise, n**0.5, noise / size**2)
    whole: Posterior = posterior(Hyper(fit.hyper.kernel + kernel, noise, 0.0), fit.inputs(x), y)
    only = Posterior(kernel, whole.inputs, whole.weights, np.zeros(y.shape[1]))

    def breaking(points: Array) -> Array:
        return only(fit.inputs(points))

    return breaking


def _left_over(fit: SymmetricFit, plain: Hyper, prepared: Prepared) -> tuple[float, float]:
    """What the symmetric model, and one that knows nothing, leave of the variance of held-out examples."""
    (x, y), (x_new, y_new) = prepared.train, prepared.held_out
    variance = float(((y_new - y.mean(0)) ** 2).mean())
    found = fit.fit(x, y)(fit.inputs(x_new)), posterior(plain, x, y)(x_new)
    each = [float(((one - y_new) ** 2).mean()) / variance for one in found]
    return each[0], each[1]


def unexplained(left_over: float, floor: float) -> float:
    """What a symmetric model leaves of held-out examples, 0 where one that knows nothing comes to that floor too."""
    return 0.0 if floor <= FLOOR * left_over else left_over


def near_symmetry(name: str, left_over: float, floor: float) -> str:
    """Why so much that is unexplained does not support a claim."""
    return (
        f"{name} cannot be told from a near symmetry: its model leaves {left_over:.2g} of the variance, and one "
        f"that knows nothing {floor:.2g}, so that nothing shows it to be noise"
    )


def ideal_fields(fields: Array) -> list[Array]:
    """The algebra as a list of ideals: the simple ones, and the radical; all of it where it is no such sum.

    None where brackets leave the fields farther than rounding takes them: the search ends near an algebra, and what
    is moved to where functions fit best may be a little off it.
    """
    try:
        algebra = LieAlgebra(torch.from_numpy(squared(fields)))
    except MetasymError:
        return []
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
    return min(1.0, float(0.5 * (change**2).sum(1).mean() / ((y - y.mean(0)) ** 2).sum(1).mean()))


def name_of_fields(fields: Array) -> str:
    """The name of the algebra of affine fields."""
    try:
        return name_of_algebra(LieAlgebra(torch.from_numpy(squared(fields))))
    except MetasymError:
        return f"an algebra of dimension {len(fields)}"


def judge(
    candidate: Candidate,
    prepared: Prepared,
    plain: Hyper,
    generator: np.random.Generator,
    tolerance: float = TOLERANCE,
) -> tuple[Claim | None, str]:
    """The claim that a candidate supports, or None; and the reason in words.

    Ideals whose inputs carry too little of the variance for the bound to say anything about them are not claimed.
    The bound knows smooth functions. What the symmetric model leaves may be a rougher violation, unless it is next to
    nothing or a model that knows nothing comes to the same floor: then it is noise.
    """
    if candidate.fit is None or not len(candidate.fields):
        return None, candidate.reason
    name = name_of_fields(candidate.fields)
    away = leads_away(candidate.fields, prepared.train[0])
    if away:
        return None, f"{name} {away}"
    found, violation = certificate(candidate, prepared.train, prepared.held_out)
    if found.refutes:
        return (
            None,
            f"{name} is refuted on held-out data: beta {found.value:.2g} ({found.low:.2g} to {found.high:.2g})",
        )
    left_over, floor = _left_over(candidate.fit, plain, prepared)
    left_over = unexplained(left_over, floor)
    unknown = left_over / SURELY
    if unknown > tolerance:
        return None, near_symmetry(name, left_over, floor)
    violation = max(violation, left_over)
    kept: list[Array] = []
    weak: list[Array] = []
    most = 0.0
    parts = ideal_fields(candidate.fields)
    if not parts:
        return None, NOT_CLOSED.format(name)
    for ideal in parts:
        carried = share(ideal, candidate.fit, *prepared.train, generator)
        most = max(most, carried)
        (kept if max(violation, unknown) <= tolerance * carried else weak).append(ideal)
    if not kept and most < HARDLY:
        return None, f"{name} moves only what the function hardly depends on: {most:.2g} of the variance"
    if not kept:
        return None, (
            f"{name} cannot be told from a near symmetry: the data allow a violation of {violation:.2g} of the "
            f"variance, more than {tolerance:g} of what its inputs carry"
        )
    fields, units = prepared.whole(np.concatenate(kept)), prepared.units
    left = (
        f"; not claimed, its inputs carry too little: {', '.join(map(name_of_fields, weak))}" if weak else ""
    )
    # Named in these coordinates: in the data's units, which may differ by a million, entries would pass for 0.
    name = name_of_fields(orthonormal(np.concatenate(kept)))
    claim = Claim(name, fields, moved_inputs(fields, units), units, found, violation)
    return claim, f"{claim.name} is kept{left}"
