"""Kernels that look at some columns of their inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.gaussian_process.kernels import Hyperparameter, Kernel

Array = npt.NDArray[np.float64]


class OnColumns(Kernel):  # type: ignore[misc]
    """A kernel that looks at the columns ``start .. stop-1`` of its inputs alone."""

    def __init__(self, kernel: Any, start: int, stop: int) -> None:
        self.kernel, self.start, self.stop = kernel, start, stop

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """As scikit-learn wants it: own parameters, and those of the kernel inside."""
        own = {"kernel": self.kernel, "start": self.start, "stop": self.stop}
        inner = {f"kernel__{name}": value for name, value in self.kernel.get_params().items()} if deep else {}
        return {**own, **inner}

    @property
    def hyperparameters(self) -> list[Any]:
        """Those of the kernel inside."""
        return [
            Hyperparameter(f"kernel__{h.name}", h.value_type, h.bounds, h.n_elements)
            for h in self.kernel.hyperparameters
        ]

    @property
    def theta(self) -> Array:
        """The logarithms of the free hyperparameters."""
        return np.asarray(self.kernel.theta)

    @theta.setter
    def theta(self, value: Array) -> None:
        self.kernel.theta = value

    @property
    def bounds(self) -> Array:
        """Of ``theta``."""
        return np.asarray(self.kernel.bounds)

    def __call__(self, X: Array, Y: Array | None = None, eval_gradient: bool = False) -> Any:
        """The kernel matrix, as scikit-learn's kernels give it."""
        other = None if Y is None else Y[:, self.start : self.stop]
        return self.kernel(X[:, self.start : self.stop], other, eval_gradient)

    def diag(self, X: Array) -> Array:
        """The diagonal of the kernel matrix."""
        return np.asarray(self.kernel.diag(X[:, self.start : self.stop]))

    def is_stationary(self) -> bool:
        """No: the other columns do not count."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OnColumns) and self.get_params(False) == other.get_params(False)

    __hash__ = None  # type: ignore[assignment]
