"""The inner problem solved exactly, where the loss is squared and the model linear in what adapts.

One task then is least squares: minimise ``mean((J d - r)^2) + ridge |d|^2`` over the change d of the inner
parameters, J being the prediction's derivative and r the residual before adaptation. Both solvers are
differentiable in everything, so that the outer loop can learn U through the solution.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vjp

from metasym.adaptation.functional import Adapted, Predictor, check_shapes, flatten, full_precision, unflatten
from metasym.types import Batch, MetasymError, Params


def ridge(predict: Predictor, inner: Params, support: Batch, *, penalty: float) -> Adapted:
    """The exact minimiser, from the smaller of the two normal equations, in float64.

    With fewer residuals than parameters the dual ``d = J^T (J J^T + c I)^-1 r`` is smaller and better
    conditioned. float64 because a small penalty is the point: the tasks may be free of noise.
    """
    start = flatten(inner)
    gram, right, dual, rows, square = predict.normal_equations(inner, support)
    d = _solve_positive(gram, penalty * rows, right.unsqueeze(-1)).squeeze(-1)
    if dual is not None:
        after_square = torch.linalg.vector_norm(right - gram @ d) ** 2
        d = dual @ d
    else:
        after_square = square - 2 * (right @ d) + d @ (gram @ d)

    def after() -> Tensor:
        mean: Tensor = after_square.detach().clamp_min(0) / rows
        return mean.to(start.dtype)

    moved = start + d.to(start.dtype)
    return Adapted(unflatten(inner, moved), (square.detach() / rows).to(start.dtype), after)


def conjugate_gradients(
    predict: Predictor, inner: Params, support: Batch, *, penalty: float, iterations: int
) -> Adapted:
    """``iterations`` of conjugate gradients on the normal equations: J is never formed.

    Exact after as many iterations as J has distinct singular values; the same number always runs, so
    that tasks can be mapped, and an iteration that has nothing left to do changes nothing.
    """

    def prediction(flat: Tensor) -> Tensor:
        return at_support(unflatten(inner, flat)).reshape(-1)

    at_support = predict.at(support.x, evaluations=2 * iterations + 2)
    start = flatten(inner)
    zero = torch.zeros_like(start)
    offset, transposed = vjp(prediction, zero)  # type: ignore[misc]
    predicted = at_support(inner)
    check_shapes(predicted.shape, support.y)
    residual = (support.y - predicted).reshape(-1)
    rows = residual.numel()

    def normal(direction: Tensor) -> Tensor:
        moved = prediction(direction) - offset  # affine: no derivative needed
        curved: Tensor = transposed(moved)[0] / rows + penalty * direction
        return curved

    d = zero
    g: Tensor = transposed(residual)[0] / rows
    p, gg = g, g @ g
    tiny = torch.finfo(residual.dtype).tiny
    for _ in range(iterations):
        Ap = normal(p)
        alpha = gg / (p @ Ap + tiny)
        d = d + alpha * p
        g = g - alpha * Ap
        new = g @ g
        p, gg = g + (new / (gg + tiny)) * p, new

    def after() -> Tensor:
        with full_precision(start):  # evaluated later, when the solve's own precision is over
            left = support.y.reshape(-1) - prediction((start + d).detach())
        return left.detach().square().mean()

    return Adapted(unflatten(inner, start + d), residual.detach().square().mean(), after)


def check_linear(predict: Predictor, inner: Params, x: Tensor) -> None:
    """Raise an error unless the prediction at ``x`` is affine in the inner parameters."""
    with torch.no_grad():
        flat = flatten(inner)
        step = torch.randn(flat.shape, generator=torch.Generator().manual_seed(0), dtype=flat.dtype).to(flat)
        at = [predict(unflatten(inner, flat + scale * step), x) for scale in (0.0, 1.0, 2.0)]
        bend = torch.linalg.vector_norm(at[2] - 2 * at[1] + at[0])
        size = torch.linalg.vector_norm(at[1] - at[0]) + torch.linalg.vector_norm(at[0])
    if not bend <= 1e-3 * size:
        raise MetasymError(
            "expected a model that is linear in what adapts for an exact inner solve, found one that deviates "
            f"from it by {float(bend / size):.2g} of its change: adapt one layer only, or use solver='sgd'",
            about="model",
            found=float(bend / size),
        )


def _solve_positive(A: Tensor, shift: float, b: Tensor) -> Tensor:
    """``(A + shift I)^-1 b`` for a positive semidefinite A ``[n, n]``, scaled so that 1e-12 is a safe shift."""
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    floor = 1e-13 * A.detach().diagonal(dim1=-2, dim2=-1).sum()  # rounding of A itself: keeps Cholesky alive
    factor = torch.linalg.cholesky_ex(A + (shift + floor) * eye).L
    return torch.cholesky_solve(b, factor)
