"""The nearest Lie algebra to a space of fields that nearly is one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from metasym.discovery.algebra.polynomial_invariants import moments
from metasym.discovery.algebra.vector_fields import Array, angle, orthonormal, squared
from metasym.discovery.claim_thresholds import CONTINUOUS


@dataclass(frozen=True, eq=False)
class Closed:
    """A space of fields that is closed under brackets, and how far away it was found."""

    fields: Array
    defect: float
    """Root mean square of what brackets of unit fields leave of it: 0 up to rounding, or there is no algebra near."""
    degrees: float
    """The largest angle between the two spaces."""

    @property
    def is_algebra(self) -> bool:
        """Whether the search ended at an algebra."""
        return self.defect < CONTINUOUS.closed


def nearest_algebra(fields: Array, steps: int = 300, within: Array | None = None) -> Closed:
    """Move the space of ``fields [d, n, n+1]`` as little as is needed to close it under brackets.

    It stays in the span of ``within [D, n, n+1]``, by default all affine fields. Polynomials that the fields nearly
    keep have to be kept: without that a large algebra that is not semisimple can drift into another of the same
    dimension.
    """
    start = orthonormal(fields)
    d, n, width = start.shape
    sizes, vectors, basis = moments(start)
    nearly = [i for i in range(len(sizes) - 1) if sizes[i] < CONTINUOUS.part_closed * d**0.5]
    ratios = [(sizes[i + 1] + 1e-9) / (sizes[i] + 1e-9) for i in nearly]
    count = nearly[int(np.argmax(ratios))] + 1 if ratios and max(ratios) > CONTINUOUS.part_gap else 0
    whole = _completed(start.reshape(d, -1).T, within)
    dimension = whole.shape[1]
    inside, outside = torch.tensor(whole[:, :d]), torch.tensor(whole[:, d:])
    kept, others = torch.tensor(vectors[:, :count]), torch.tensor(vectors[:, count:])
    polynomials = torch.tensor(basis)
    moves = torch.zeros(dimension - d, d, dtype=torch.float64, requires_grad=True)
    turns = torch.zeros(others.shape[1], count, dtype=torch.float64, requires_grad=True)
    pairs = torch.triu_indices(d, d, 1)

    def defects() -> tuple[Tensor, Tensor]:
        q = torch.linalg.qr(inside + outside @ moves)[0]
        lie = q.T.reshape(d, n, width)
        left = _outside(lie, q, pairs)
        if not count:
            return left, left.new_zeros(())
        p = torch.linalg.qr(kept + others @ turns)[0]
        return left, _changed(lie, torch.einsum("bk,bij->kij", p, polynomials))

    if (d > 1 or count) and dimension > d:
        optimizer = torch.optim.LBFGS(
            [moves, turns],
            max_iter=steps,
            tolerance_grad=1e-12,
            tolerance_change=1e-16,
            history_size=30,
            line_search_fn="strong_wolfe",
        )

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = sum(defects(), start=torch.zeros((), dtype=torch.float64))
            loss.backward()
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        after = float(sum(defects(), start=torch.zeros((), dtype=torch.float64)))
        found = torch.linalg.qr(inside + outside @ moves)[0].T.reshape(d, n, width).numpy()
    several = max(1, d * (d - 1) // 2)
    return Closed(found, (after / several) ** 0.5, angle(start, found))


def _completed(inside: Array, within: Array | None) -> Array:
    """Orthonormal columns: those of ``inside``, then what the span of ``within`` has beside them."""
    size, d = inside.shape
    if within is None:
        return np.asarray(np.linalg.qr(np.c_[inside, np.eye(size)])[0][:, :size])
    ambient = orthonormal(within).reshape(-1, size).T
    rest = ambient - inside @ (inside.T @ ambient)
    beside = np.linalg.svd(rest, full_matrices=False)[0][:, : ambient.shape[1] - d]
    return np.concatenate([inside, beside], axis=1)


def _outside(lie: Tensor, q: Tensor, pairs: Tensor) -> Tensor:
    """The squared norm of what brackets leave of the space."""
    d, n, width = lie.shape
    whole = torch.cat([lie, lie.new_zeros(d, 1, width)], dim=1)
    products = torch.einsum("iab,jbc->ijac", whole, whole)
    brackets = (products - products.transpose(0, 1))[pairs[0], pairs[1], :n].reshape(
        pairs.shape[1], n * width
    )
    return ((brackets - brackets @ q @ q.T) ** 2).sum()


def _changed(lie: Tensor, polynomials: Tensor) -> Tensor:
    """The squared norm of the derivatives of polynomials along the fields."""
    n = lie.shape[1]
    A, a = lie[:, :, :n], lie[:, :, n]
    Q, c = polynomials[:, :, :n], polynomials[:, :, n]
    product = torch.einsum("kij,djl->dkil", Q, A)
    quadratic = product + product.transpose(2, 3)
    linear = 2 * torch.einsum("kij,dj->dki", Q, a) + torch.einsum("dji,kj->dki", A, c)
    constant = torch.einsum("ki,di->dk", c, a)
    return (quadratic**2).sum() + (linear**2).sum() + (constant**2).sum()


def closure_defect(fields: Array) -> float:
    """Root mean square of what brackets of orthonormal fields leave of their span."""
    basis = orthonormal(fields)
    if len(basis) < 2:
        return 0.0
    whole = squared(basis)
    flat = basis.reshape(len(basis), -1)
    total = 0.0
    for i in range(len(basis) - 1):
        bracket = (whole[i] @ whole[i + 1 :] - whole[i + 1 :] @ whole[i])[:, :-1].reshape(
            len(basis) - i - 1, -1
        )
        total += float(((bracket - bracket @ flat.T @ flat) ** 2).sum())
    return float(np.sqrt(total / (len(basis) * (len(basis) - 1) / 2)))
