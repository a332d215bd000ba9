"""The inner problem solved exactly, where the loss is squared and the model linear in what adapts.

One task then is least squares: minimise ``mean((J d - r)^2) + ridge |d|^2`` over the change d of the inner
parameters, J being the prediction's derivative and r the residual before adaptation. Both solvers are
differentiable in everything, so that the outer loop can learn U through the solution.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.func import vjp, vmap

from metasym.functional import Adapted, Predict
from metasym.types import Batch, MetasymError, Params


def ridge(predict: Predict, inner: Params, support: Batch, *, penalty: Tensor) -> Adapted:
    """The exact minimiser, from the smaller of the two normal equations, in float64.

    With fewer residuals than parameters the dual ``d = J^T (J J^T + c I)^-1 r`` is smaller and better
    conditioned. float64 because a small penalty is the point: the tasks may be free of noise.
    """
    start = _flat(inner)
    residual, J = _linearised(predict, inner, support)
    J = J.double()
    rows, columns = J.shape
    r, shift = residual.double().unsqueeze(-1), penalty.double() * rows
    if rows < columns:
        d = J.mT @ _solve_positive(J @ J.mT, shift, r)
    else:
        d = _solve_positive(J.mT @ J, shift, J.mT @ r)
    change = d.squeeze(-1).to(residual.dtype)
    return Adapted(_unflat(inner, start + change), residual.detach().square().mean())


def conjugate_gradients(
    predict: Predict, inner: Params, support: Batch, *, penalty: Tensor, iterations: int
) -> Adapted:
    """``iterations`` of conjugate gradients on the normal equations: J is never formed.

    Exact after as many iterations as J has distinct singular values; the same number always runs, so
    that tasks can be mapped, and an iteration that has nothing left to do changes nothing.
    """

    def prediction(flat: Tensor) -> Tensor:
        return predict(_unflat(inner, flat), support.x).reshape(-1)

    start = _flat(inner)
    zero = torch.zeros_like(start)
    offset, transposed = vjp(prediction, zero)  # type: ignore[misc]
    residual = support.y.reshape(-1) - prediction(start)
    rows = residual.numel()

    def normal(direction: Tensor) -> Tensor:
        moved = prediction(direction) - offset  # affine: no derivative needed
        curved: Tensor = transposed(moved)[0] / rows + penalty.to(direction) * direction
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
    return Adapted(_unflat(inner, start + d), residual.detach().square().mean())


def check_linear(predict: Predict, inner: Params, x: Tensor) -> None:
    """Raise an error unless the prediction at ``x`` is affine in the inner parameters."""
    with torch.no_grad():
        flat = _flat(inner)
        step = torch.randn(flat.shape, generator=torch.Generator().manual_seed(0), dtype=flat.dtype).to(flat)
        at = [predict(_unflat(inner, flat + scale * step), x) for scale in (0.0, 1.0, 2.0)]
        bend = torch.linalg.vector_norm(at[2] - 2 * at[1] + at[0])
        size = torch.linalg.vector_norm(at[1] - at[0]) + torch.linalg.vector_norm(at[0])
    if not bend <= 1e-3 * size:
        raise MetasymError(
            "expected a model that is linear in what adapts for an exact inner solve, found one that bends by "
            f"{float(bend / size):.2g} of its change: adapt one layer only, or use solver='sgd'"
        )


def _solve_positive(A: Tensor, shift: Tensor, b: Tensor) -> Tensor:
    """``(A + shift I)^-1 b`` for a positive semidefinite A ``[n, n]``, scaled so that 1e-12 is a safe shift."""
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    floor = 1e-13 * A.detach().diagonal(dim1=-2, dim2=-1).sum()  # rounding of A itself: keeps Cholesky alive
    factor = torch.linalg.cholesky_ex(A + (shift + floor) * eye).L
    return torch.cholesky_solve(b, factor)


def _flat(inner: Params) -> Tensor:
    return torch.cat([p.reshape(-1) for p in inner.values()])


def _unflat(like: Params, flat: Tensor) -> Params:
    """The flat vector ``[entries]`` cut into tensors of the names and shapes of ``like``."""
    parts = flat.split([p.numel() for p in like.values()])
    return {name: c.reshape(p.shape) for (name, p), c in zip(like.items(), parts, strict=True)}


def _linearised(predict: Predict, inner: Params, support: Batch) -> tuple[Tensor, Tensor]:
    """The residual before adaptation ``[rows]`` and the derivative J ``[rows, entries]`` of the prediction.

    The prediction is affine in what adapts, so the columns of J are its values at the unit vectors less
    that at zero: exact where nothing else adds to the prediction, and no derivative is taken.
    """

    def prediction(flat: Tensor) -> Tensor:
        return predict(_unflat(inner, flat), support.x).reshape(-1)

    start = _flat(inner)
    units = torch.eye(start.numel(), dtype=start.dtype, device=start.device)
    J = (vmap(prediction)(units) - prediction(torch.zeros_like(start))).mT
    return support.y.reshape(-1) - prediction(start), J
