"""How few filter entries a family of tasks needs: an optimizer that prunes U, and how to drop or restore directions.

The inner problem only sees U up to a rotation of the filter, ``(U R, R^T v)``, so sparsity of U's columns
means nothing on its own. What counts is the rank of U. The nuclear norm, the sum of U's singular values, does not
change under the rotation, and its proximal step sets small singular values to exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from metasym.argument_types import checked
from metasym.symmetry.matrices import DenseSymmetry
from metasym.symmetry.reparam import symmetric_lists
from metasym.types import MetasymError


class NuclearAdam(torch.optim.Adam):
    """Adam, followed by a proximal step of the nuclear norm on every parameter group with ``nuclear > 0``.

    Each step lowers the singular values of a matrix ``[rows, k]`` by ``lr * nuclear * sqrt(rows)``, not below 0.
    The factor ``sqrt(rows)`` makes ``nuclear`` a strength relative to what Adam adds to a column in one step,
    whatever the size, because Adam moves each entry by about ``lr``.

    Args:
        params: Parameters, or parameter groups as in any torch optimizer.
        lr: Learning rate of Adam.
        nuclear: Strength of the nuclear norm; a parameter group may have its own.
        options: Further options of ``torch.optim.Adam``.
    """

    @checked
    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, *, nuclear: float = 0.0, **options: Any
    ) -> None:
        if nuclear < 0:
            raise MetasymError(f"expected nuclear >= 0, found {nuclear}", about="nuclear", found=nuclear)
        super().__init__(params, lr=lr, **options)
        for group in self.param_groups:
            group.setdefault("nuclear", nuclear)

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """One step of Adam, then the proximal step."""
        loss: float | None = super().step(closure)
        for group in self.param_groups:
            for parameter in group["params"] if group["nuclear"] > 0 else []:
                if parameter.ndim == 2 and parameter.grad is not None:
                    shrink_singular_values(
                        parameter, group["lr"] * group["nuclear"] * math.sqrt(parameter.shape[0])
                    )
        return loss


@torch.no_grad()
def shrink_singular_values(U: Tensor, by: float) -> None:
    """Lower every singular value of ``U [rows, k]`` by ``by``, in place, not below 0."""
    squared, V = torch.linalg.eigh((U.mT @ U).double())  # k x k: far cheaper than a decomposition of U
    values = squared.clamp_min(0).sqrt()
    kept = (1 - by / values.clamp_min(torch.finfo(values.dtype).tiny)).clamp_min(0)
    U.copy_(U @ ((V * kept) @ V.mT).to(U.dtype))


@torch.no_grad()
@checked
def compress(model: nn.Module, *, tolerance: float = 1e-3, equal: bool = False) -> dict[str, int]:
    """Drop the filter entries that each dense symmetry of ``model`` does not use, in place.

    U is rotated to its principal directions, weak directions are dropped, and v is rotated along. The shapes of the
    parameters change: make a new learner and optimizer afterwards.

    Args:
        model: A reparameterized network.
        tolerance: Drop directions whose singular value is below this fraction of the largest.
        equal: Give all remaining directions the same strength, the square root of the number of output channels. A U
            found by an exact solver need not suit a few gradient steps, which multiply by U U^T. Weights do not
            change, and step sizes of order 1 become useful (for a loss that is a mean over output channels).

    Returns:
        The remaining filter size of each layer, by name.
    """
    if tolerance < 0:
        raise MetasymError(f"expected tolerance >= 0, found {tolerance}", about="tolerance", found=tolerance)
    left: dict[str, int] = {}
    for name, plist, symmetry in _dense(model):
        principal, values, V = torch.linalg.svd(symmetry.U.double(), full_matrices=False)
        kept = int((values > tolerance * values[0]).sum())
        if kept == 0:
            raise MetasymError(
                f"expected a U that is not all zero in layer {name!r}, found every entry pruned",
                about=f"layer {name!r}",
                found=0,
            )
        strengths = values[:kept]
        if equal:
            strengths = torch.full_like(strengths, math.sqrt(symmetry.weight_shape[0]))
        v = (values[:kept] / strengths) * (V[:kept] @ plist.original.double())
        # In torch's usual layout, as a loaded U has: the layout decides how products are rounded.
        _replace(plist, symmetry, (principal[:, :kept] * strengths).contiguous(), v)
        left[name] = kept
    return left


@torch.no_grad()
def complete(model: nn.Module, strength: float) -> dict[str, int]:
    """Give every dense symmetry of ``model``, in place, the directions that its U lacks: the inverse of pruning.

    U ``[rows, k]`` with principal directions p_i and singular values s_i becomes the square matrix
    ``t I + sum_i max(s_i - t, 0) p_i p_i^T`` with ``t = strength * max_i s_i``: directions that are missing or weaker
    get the strength t; those above it, and the weight, stay as they were. As the prior of an exact solve, U then
    rules out no weight. At strength 1 all directions are equal, as in the plain layer. Returns filter sizes by layer.
    Make a new learner and optimizer afterwards: the parameters' shapes have changed.
    """
    if not 0 < strength <= 1:
        raise MetasymError(
            f"expected a strength above 0 and up to 1, found {strength}", about="strength", found=strength
        )
    sizes: dict[str, int] = {}
    for name, plist, symmetry in _dense(model):
        principal, values, V = torch.linalg.svd(symmetry.U.double(), full_matrices=False)
        least = strength * float(values[0])
        v = principal @ (values / values.clamp_min(least) * (V @ plist.original.double()))
        _replace(plist, symmetry, completed_matrix(symmetry.U, strength), v)
        sizes[name] = len(principal)
    return sizes


def completed_matrix(U: Tensor, strength: float) -> Tensor:
    """What :func:`complete` makes of ``U [rows, k]``: ``[rows, rows]``, float64."""
    principal, values, _ = torch.linalg.svd(U.double(), full_matrices=False)
    least = strength * float(values[0])
    # The symmetric one of all square roots of U U^T: no basis of the missing directions has to be chosen.
    square: Tensor = (principal * (values - least).clamp_min(0)) @ principal.mT
    square.diagonal().add_(least)
    return square


def _dense(model: nn.Module) -> list[tuple[str, parametrize.ParametrizationList, DenseSymmetry]]:
    """The layers whose weight a dense symmetry makes from a filter of its own: at least one."""
    found = [
        (name, plist, symmetry)
        for name, plist in symmetric_lists(model)
        if isinstance(symmetry := plist[0], DenseSymmetry)
        and plist.original.numel() == symmetry.filter_shape[0]
    ]
    if not found:
        raise MetasymError(
            f"expected a model with dense symmetries, found none in {type(model).__name__}",
            about="model",
            found=type(model).__name__,
        )
    return found


def _replace(plist: parametrize.ParametrizationList, old: DenseSymmetry, U: Tensor, v: Tensor) -> None:
    """Put ``U [rows, k]`` and ``v [k]`` in the place of a layer's; types, and what is learned, stay as they were."""
    plist[0] = DenseSymmetry(old.weight_shape, U=U.to(old.U.dtype), learnable=old.learnable)
    plist.original = nn.Parameter(v.to(plist.original.dtype), requires_grad=plist.original.requires_grad)
