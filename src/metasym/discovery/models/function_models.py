"""What every model of one function can do, plain or with a symmetry built in; and the two of one Gaussian process.

Examples are prepared ones: in the units of :class:`~metasym.discovery.models.preprocessing.Prepared`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.models.fitted_module import State, state_of
from metasym.discovery.models.gaussian_processes import Hyper, Posterior, posterior
from metasym.discovery.models.invariant_features import SymmetricFit
from metasym.discovery.models.logarithms import Logarithms
from metasym.discovery.models.preprocessing import Prepared
from metasym.verdicts.claims import Claim


class DifferentiableFunction(Protocol):
    """A fitted function whose change along a vector field is known: what searches for generators look at."""

    def __call__(self, x: Array, /) -> Array:
        """``[points, m]`` at ``x [points, n]``."""
        ...

    def jacobian(self, x: Array, /) -> Array:
        """``[points, m, n]``."""
        ...


class ComparedBy(enum.Enum):
    """How a model with a symmetry is compared with the plain one, before it is the one to use."""

    EVIDENCE = enum.auto()
    ERRORS = enum.auto()
    """On the last quarter of the training examples."""
    NOTHING = enum.auto()
    """It is used wherever its symmetry is claimed."""


class FunctionModel(Protocol):
    """A way to fit a function to prepared examples."""

    @property
    def symmetry(self) -> Claim | None:
        """What is built in; None for a plain model."""
        ...

    @property
    def compared_by(self) -> ComparedBy:
        """With the plain model."""
        ...

    @property
    def evidence(self) -> float:
        """The logarithm of the marginal likelihood; NaN where models are not compared by it."""
        ...

    def fit(self, x: Array, y: Array) -> Any:
        """Fitted to ``x [examples, n]`` and ``y [examples, m]``: for the two methods below."""
        ...

    def predict(self, fit: Any, x: Array) -> Array:
        """``[points, m]`` at ``x [points, n]``."""
        ...

    def state(self, fit: Any, shape: tuple[int, ...]) -> State:
        """What defines the module, whose outputs have this shape."""
        ...


@dataclass(frozen=True, eq=False)
class PlainProcess:
    """A Gaussian process without symmetry."""

    prepared: Prepared
    hyper: Hyper
    symmetry: None = None
    compared_by: ComparedBy = ComparedBy.EVIDENCE

    @property
    def evidence(self) -> float:
        """Of the kernel."""
        return self.hyper.evidence

    def fit(self, x: Array, y: Array) -> Posterior:
        """The posterior mean."""
        return posterior(self.hyper, x, y)

    def predict(self, fit: Posterior, x: Array) -> Array:
        """``[points, m]``."""
        return fit(x)

    def state(self, fit: Posterior, shape: tuple[int, ...]) -> State:
        """What defines the module."""
        return state_of(self.prepared, None, fit, shape)


@dataclass(frozen=True, eq=False)
class InvariantProcess:
    """A Gaussian process on the invariants of an algebra."""

    prepared: Prepared
    process: SymmetricFit
    symmetry: Claim
    taken: Logarithms | None = None
    """Where the invariants are those of logarithms."""
    compared_by: ComparedBy = ComparedBy.EVIDENCE

    @property
    def evidence(self) -> float:
        """Of the kernel."""
        return self.process.hyper.evidence

    def fit(self, x: Array, y: Array) -> Posterior:
        """The posterior mean."""
        return self.process.fit(self._placed(x), y)

    def predict(self, fit: Posterior, x: Array) -> Array:
        """``[points, m]``."""
        return fit(self.process.inputs(self._placed(x)))

    def state(self, fit: Posterior, shape: tuple[int, ...]) -> State:
        """What defines the module."""
        if self.taken is None:
            return state_of(self.prepared, self.process.features, fit, shape)
        found = state_of(self.taken.taken, self.process.features, fit, shape)
        return {**found, "logarithms": torch.tensor(self.taken.which)}

    def _placed(self, x: Array) -> Array:
        return x if self.taken is None else self.taken(x)
