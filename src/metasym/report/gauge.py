"""U in a gauge that can be read.

U is only defined up to ``U R`` with an orthogonal R: the weights and the inner steps are the same. Training gives
one of these U, mixed at random. Here the columns are turned so that the ones that matter come first and the
first block, pi(0), is as close to rows of the identity as it can be.
"""

from __future__ import annotations

import torch
from torch import Tensor

from metasym.inspection.spectrum import effective_size, singular_values


def effective_filter_size(U: Tensor) -> int:
    """How many entries of the filter matter: the singular values of U before their largest drop."""
    return effective_size(singular_values([U]))[0]


def readable(U: Tensor, block_rows: int, size: int | None = None) -> Tensor:
    """``U R`` for an orthogonal R, its ``size`` dominant columns only: ``[rows, size]``, float64.

    Blocks pi(i) are ``block_rows`` consecutive rows. R turns the dominant right-singular vectors so that the
    ``size`` strongest rows of pi(0), in their order, are nearest to a multiple of the identity. Where there are
    more columns than rows in a block, R turns them so that only the first ``block_rows`` columns of pi(0) are not
    zero.
    """
    U = U.detach().double()
    size = effective_filter_size(U) if size is None else size
    left, values, _ = torch.linalg.svd(U, full_matrices=False)
    dominant = left[:, :size] * values[:size]
    first = dominant[:block_rows]
    if size > block_rows:
        P, _, Q = torch.linalg.svd(first, full_matrices=True)
        # first = P S Q[:rows], and R = [Q[:rows].T P.T, the rest] gives pi(0) = [P S P.T, 0].
        rest: Tensor = dominant @ torch.cat([Q[:block_rows].T @ P.T, Q[block_rows:].T], dim=1)
        return rest
    rows = torch.linalg.vector_norm(first, dim=1).topk(size).indices.sort().values
    # Procrustes: of all orthogonal R, the one that brings first[rows] @ R nearest to the identity.
    P, _, Q = torch.linalg.svd(first[rows].T)
    turned: Tensor = dominant @ (P @ Q)
    return turned


def diagonal_spread(W: Tensor, width: int) -> float:
    """How far W ``[m, n]`` is from constant along its first ``width`` diagonals, relative to its norm; 0: equal.

    Entries off these diagonals count in full: 0 means a convolution of that width.
    """
    W = W.detach().double()
    nearest = torch.zeros_like(W)
    rows = torch.arange(W.shape[0])
    for offset in range(width):
        nearest[rows, rows + offset] = W[rows, rows + offset].mean()
    return float(torch.linalg.matrix_norm(W - nearest) / torch.linalg.matrix_norm(W))
