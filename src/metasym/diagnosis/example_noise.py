"""How much noise each single example has, from what a fit of its task leaves; and what a fit leaves of other numbers.

A task's fit is a projection ``P = S S^T`` on few columns S, so that nothing here needs a matrix of examples by
examples where there are many of them: memory grows with the examples, not with their square.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from metasym.diagnosis.samples import Floats

_MIXED = 0.01
"""The smallest eigenvalue of a system for the noise of each example that is solved."""
_SQUARE = 2048
"""Examples up to which a task's matrix of them is made; longer tasks with large leverages tell no noise."""


def left_of(values: Floats, spanned: Floats) -> Floats:
    """``(1 - P) values``: what a fit on the columns ``spanned [tasks, examples, k]`` leaves of them."""
    found: Floats = values - spanned @ (spanned.transpose(0, 2, 1) @ values)
    return found


def hat_times_maker(noise: Floats, spanned: Floats) -> Floats:
    """``(P * (1 - P)) noise`` with the entries of the two matrices multiplied."""
    inner = np.einsum("tia,tim,tib->tmab", spanned, noise, spanned, optimize=True)
    squared = np.einsum("tia,tmab,tib->tim", spanned, inner, spanned, optimize=True)
    found: Floats = (spanned**2).sum(2, keepdims=True) * noise - squared
    return found


def example_noise(
    rest: Floats, spanned: Floats, there: npt.NDArray[np.bool_]
) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """``[tasks, examples, outputs]``, the variance of the noise of each number, and which tasks ``[tasks]`` tell it.

    What is left has squares that are those of the noise, mixed by ``M = (1 - P) * (1 - P)``: the entries' squares,
    ``diag(1 - 2 h) + (P * P)`` with the leverages h, the diagonal of P. ``P * P`` has rank ``k (k + 1) / 2`` at most,
    and no negative eigenvalue: where all leverages are small M can be solved by its parts. Other tasks take M itself.
    """
    noise, known = np.zeros_like(rest), np.zeros(len(rest), dtype=bool)
    diagonal = 1 - 2 * (spanned**2).sum(2)
    examples = there.shape[1]
    small: npt.NDArray[np.bool_] = np.zeros(len(rest), dtype=bool)
    if _products(spanned.shape[2]) < examples:
        small = np.asarray(diagonal.min(1) > _MIXED)
        noise[small], known[small] = _solved_by_parts(rest[small] ** 2, spanned[small], diagonal[small]), True
        others = [np.array([task]) for task in np.flatnonzero(~small)] if examples <= _SQUARE else []
    else:
        others = [np.flatnonzero(~small)]
    for tasks in others:
        inside = there[tasks, :, None] & there[tasks, None, :]
        maker = np.eye(examples) - spanned[tasks] @ spanned[tasks].transpose(0, 2, 1)
        mixing = np.where(inside, maker**2, np.eye(examples))
        told = np.linalg.eigvalsh(mixing)[:, 0] > _MIXED
        known[tasks] = told
        noise[tasks[told]] = np.linalg.solve(mixing[told], rest[tasks[told]] ** 2)
    return noise, known


def _products(columns: int) -> int:
    return columns * (columns + 1) // 2


def _solved_by_parts(squares: Floats, spanned: Floats, diagonal: Floats) -> Floats:
    """``M^-1 squares`` with ``M = diag + K K^T``: K has the products of two columns of S."""
    one, other = np.triu_indices(spanned.shape[2])
    K = spanned[:, :, one] * spanned[:, :, other] * np.where(one == other, 1.0, math.sqrt(2))
    over = 1 / diagonal[..., None]
    scaled = K * over
    inner = np.eye(len(one)) + K.transpose(0, 2, 1) @ scaled
    found: Floats = over * squares - scaled @ np.linalg.solve(inner, scaled.transpose(0, 2, 1) @ squares)
    return found
