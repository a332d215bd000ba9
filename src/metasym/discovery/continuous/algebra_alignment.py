"""Where exactly an algebra sits: its invariants, moved so that a function of them fits the data best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.optimize
import torch
from scipy.linalg import LinAlgError
from scipy.spatial.distance import cdist
from torch import Tensor

from metasym.discovery.algebra.vector_fields import Array
from metasym.discovery.models.marginal_likelihood import likelihood_of

MOST = 800
"""Examples that a move is fitted to: the cost grows with their cube."""
_STEPS = 150
"""Of the optimizer, at most."""
_STRAY = 0.5
"""Prior standard deviation of a coefficient of the move."""


def refine(
    polynomials: Array,
    ambient: Array,
    x: Array,
    y: Array,
    scales: Array,
    amplitude: float,
    noise: float,
    *,
    roots: Sequence[int] = (),
    cosines: Mapping[int, tuple[int, int]] | None = None,
) -> Array:
    """The matrix ``[n+1, n+1]`` of the group of ``ambient`` that moves ``polynomials`` to where they fit best.

    It maximises the marginal likelihood of a Gaussian process on the invariants, together with its hyperparameters
    (``scales [k]``, ``amplitude``, ``noise`` are where these start). ``roots``: the invariants of which the process
    sees the root; ``cosines``: those that it sees divided by two roots.
    """
    d, n, width = ambient.shape
    x, y = x[:MOST], y[:MOST]
    k = len(polynomials)
    fields = torch.tensor(ambient)
    Q, c = torch.tensor(polynomials[:, :, :n]), torch.tensor(polynomials[:, :, n])
    points, targets = torch.tensor(np.c_[x, np.ones(len(x))]), y - y.mean(0)

    def features(matrix: Tensor) -> Tensor:
        moved = (points @ matrix.T)[:, :n]
        columns = list((torch.einsum("pi,kij,pj->pk", moved, Q, moved) + moved @ c.T).unbind(1))
        for i in roots:
            columns[i] = columns[i].abs().sqrt()
        for i, (a, b) in (cosines or {}).items():
            columns[i] = columns[i] / (columns[a] * columns[b]).clamp_min(1e-12)
        return torch.stack(columns, 1)

    def matrix_of(move: Tensor) -> Tensor:
        field = torch.einsum("d,dij->ij", move, fields)
        found: Tensor = torch.linalg.matrix_exp(torch.cat([field, field.new_zeros(1, width)]))
        return found

    start = features(torch.eye(width, dtype=torch.float64))
    middle, spread = start.mean(0), start.std(0)

    def value(theta: Array) -> tuple[float, Array]:
        move = torch.tensor(theta[:d], requires_grad=True)
        placed = (features(matrix_of(move)) - middle) / spread
        hyper = theta[d:]
        scaled = placed.detach().numpy() / np.exp(hyper[:k])
        found = _negative(scaled, targets, float(np.exp(hyper[k])), float(np.exp(hyper[k + 1])))
        if found is None:  # not positive definite up to rounding
            return 1e12, np.zeros_like(theta)
        loss, by_scaled, by_amplitude, by_noise = found
        placed.backward(torch.tensor(by_scaled / np.exp(hyper[:k])))
        assert move.grad is not None
        by_move = np.nan_to_num(move.grad.numpy()) + theta[:d] / _STRAY**2
        by_hyper = [*(-(by_scaled * scaled).sum(0)), by_amplitude, by_noise]
        return loss + 0.5 * float((theta[:d] ** 2).sum()) / _STRAY**2, np.concatenate([by_move, by_hyper])

    begin = np.concatenate([np.zeros(d), np.log(scales), [np.log(amplitude), np.log(noise)]])
    bounds = [(-2.0, 2.0)] * d + [(-3.0, 8.0)] * k + [(-8.0, 14.0), (-16.0, 3.0)]
    found = scipy.optimize.minimize(
        value, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": _STEPS}
    )
    return np.asarray(matrix_of(torch.tensor(found.x[:d])).numpy())


def _negative(z: Array, y: Array, amplitude: float, noise: float) -> tuple[float, Array, float, float] | None:
    """Minus the logarithm of a Gaussian process's likelihood; its slopes by ``z``, log amplitude and log noise."""
    near = amplitude * np.exp(-0.5 * cdist(z, z, "sqeuclidean"))
    try:
        value, weights = likelihood_of(near + noise * np.eye(len(z)), y)
    except LinAlgError:
        return None
    pulled = weights * near
    by_z = 2 * (pulled.sum(1)[:, None] * z - pulled @ z)
    return value, by_z, -float(pulled.sum()), -noise * float(np.trace(weights))
