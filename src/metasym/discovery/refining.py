"""Where exactly an algebra sits: its invariants, moved so that a function of them fits the data best."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import torch
from torch import Tensor

from metasym.discovery.fields import Array

MOST = 400
_STRAY = 0.5
"""Prior standard deviation of a coefficient of the move."""


def refine(
    polynomials: Array, ambient: Array, x: Array, y: Array, scales: Array, amplitude: float, noise: float
) -> Array:
    """The matrix ``[n+1, n+1]`` of the group of ``ambient`` that moves ``polynomials`` to where they fit best.

    It maximises the marginal likelihood of a Gaussian process on the invariants, together with its hyperparameters
    (``scales [k]``, ``amplitude``, ``noise`` are where these start).
    """
    d, n, width = ambient.shape
    x, y = x[:MOST], y[:MOST]
    k, outputs = len(polynomials), y.shape[1]
    fields = torch.tensor(ambient)
    Q, c = torch.tensor(polynomials[:, :, :n]), torch.tensor(polynomials[:, :, n])
    points, targets = torch.tensor(np.c_[x, np.ones(len(x))]), torch.tensor(y - y.mean(0))
    one = torch.eye(len(x), dtype=torch.float64)

    def features(matrix: Tensor) -> Tensor:
        moved = (points @ matrix.T)[:, :n]
        return torch.einsum("pi,kij,pj->pk", moved, Q, moved) + moved @ c.T

    def matrix_of(move: Tensor) -> Tensor:
        field = torch.einsum("d,dij->ij", move, fields)
        found: Tensor = torch.linalg.matrix_exp(torch.cat([field, field.new_zeros(1, width)]))
        return found

    start = features(torch.eye(width, dtype=torch.float64))
    middle, spread = start.mean(0), start.std(0)

    def negative(theta: Tensor) -> Tensor:
        move, hyper = theta[:d], theta[d:]
        z = (features(matrix_of(move)) - middle) / spread / hyper[:k].exp()
        near = (-0.5 * torch.cdist(z, z).square()).exp()
        matrix = hyper[k].exp() * near + (hyper[k + 1].exp() + 1e-8) * one
        factor = torch.linalg.cholesky(matrix)
        solved = torch.cholesky_solve(targets, factor)
        likelihood = -0.5 * (targets * solved).sum() - outputs * factor.diagonal().log().sum()
        found: Tensor = -likelihood + 0.5 * (move**2).sum() / _STRAY**2
        return found

    def value(theta: Array) -> tuple[float, Array]:
        variables = torch.tensor(theta, requires_grad=True)
        try:
            loss = negative(variables)
        except RuntimeError:  # not positive definite up to rounding
            return 1e12, np.zeros_like(theta)
        loss.backward()
        assert variables.grad is not None
        return float(loss.detach()), np.nan_to_num(variables.grad.numpy())

    begin = np.concatenate([np.zeros(d), np.log(scales), [np.log(amplitude), np.log(noise)]])
    bounds = [(-2.0, 2.0)] * d + [(-3.0, 8.0)] * k + [(-8.0, 14.0), (-16.0, 3.0)]
    found = scipy.optimize.minimize(
        value, begin, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60}
    )
    return np.asarray(matrix_of(torch.tensor(found.x[:d])).numpy())
