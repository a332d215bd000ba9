"""The singular values of U: how much of the filter is used, and the dominant eigenspace of U U^T."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

from metasym.inspection.reading_thresholds import SPECTRUM
from metasym.symmetry.field_symmetry import FieldSymmetry
from metasym.symmetry.matrices import KroneckerSymmetry, Symmetry

_TALL = 6000
"""With more rows than this the values come from U^T U, with errors up to a hundred-millionth of the largest."""
_WIDE = 1000
"""Of more columns than this all directions take long: where few are wanted, these alone are computed."""


def singular_values(factors: list[Tensor]) -> Tensor:
    """The singular values, largest first, of the Kronecker product of ``factors`` (one: a dense U)."""
    values = torch.ones(1, dtype=torch.float64)
    for factor in factors:
        own = _of_matrix(factor.detach().cpu().double())
        values = (values[:, None] * own).flatten()
    return values.sort(descending=True).values


def _of_matrix(matrix: Tensor) -> Tensor:
    """A tall matrix is read from its small product with itself: decomposing all rows gives the same."""
    found: Tensor
    if len(matrix) <= _TALL or len(matrix) < 4 * matrix.shape[1]:
        found = torch.linalg.svdvals(matrix)
    else:
        found = torch.linalg.eigvalsh(matrix.mT @ matrix).clamp_min(0).sqrt().flip(0)
    return found


def symmetry_values(symmetry: Symmetry) -> Tensor:
    """The singular values of the U of any symmetry, largest first; a U stored in parts is not formed for it."""
    if isinstance(symmetry, KroneckerSymmetry):
        return singular_values(symmetry.factors)
    if isinstance(symmetry, FieldSymmetry):  # the same block for every pair of fields
        pairs = math.prod(symmetry.filter_shape[:2])
        return singular_values([symmetry.block.flatten(0, 3)]).repeat_interleave(pairs)
    return singular_values([symmetry.matrix()])


def effective_size(values: Tensor) -> tuple[int, bool]:
    """How many of the singular values ``[k]`` matter, and whether a drop shows it: those before the largest drop.

    Where no value is more than twice the next one, all that are not zero matter. Drops among values below a tenth
    of the largest are noise.
    """
    if not float(values[0]) > 0:
        return 0, False
    strong = int((values > SPECTRUM.weak * values[0]).sum())
    following = torch.cat([values[1:], values[-1:]])[:strong]  # the last value has nothing to drop to
    ratios = values[:strong] / following.clamp_min(1e-12 * float(values[0]))
    # The last one or two values of a random square matrix drop by themselves: there a drop must be larger.
    ratios[max(0, len(values) - 3) :] /= SPECTRUM.tail
    if float(ratios.max()) > SPECTRUM.drop:
        return int(ratios.argmax()) + 1, True
    return int((values > 1e-6 * values[0]).sum()), False


def dominant(U: Tensor, size: int) -> Tensor:
    """U turned to its principal directions, the ``size`` strongest kept: ``[rows, size]``, float64."""
    rows = U.detach().cpu().double()
    if _few(rows.shape, size):
        return torch.from_numpy(rows.numpy() @ principal_directions(rows.numpy(), size))
    left, values, _ = torch.linalg.svd(rows, full_matrices=False)
    kept: Tensor = left[:, :size] * values[:size]
    return kept


def principal_directions(U: npt.NDArray[np.float64], size: int) -> npt.NDArray[np.float64]:
    """The ``size`` strongest principal directions of the rows of ``U``, strongest first: ``[k, size]``."""
    k = U.shape[1]
    if not _few(U.shape, size):
        # The eigenvectors of the small U^T U: no decomposition of all rows.
        return np.asarray(np.linalg.eigh(U.T @ U)[1][:, ::-1][:, :size])
    squared = LinearOperator((k, k), matvec=lambda v: U.T @ (U @ v), dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(k)
    return np.asarray(eigsh(squared, size, v0=start)[1][:, ::-1])  # to the last digit: its tolerance is 0


def _few(shape: Sequence[int], size: int) -> bool:
    """Whether ``size`` directions of a U of this shape are found sooner alone than with all others."""
    return min(shape) > _WIDE and 0 < size < min(shape) // 8
