"""The layer, the data and the products with U of a step in closed form (``metasym.engines.dense.closed_form``)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from metasym.adaptation.functional import check_shapes
from metasym.engines.dense.contraction import DenseLayer, dense_layer, last_dense_layer
from metasym.engines.dense.joint import is_joint
from metasym.types import Batch, Episode, MetasymError


class Layer(NamedTuple):
    """The layer ``y = x W^T + bias`` with ``vec(W) = U v`` at the start of adaptation."""

    U: Tensor
    """``[m n, k]``."""
    v: Tensor
    """``[k]``."""
    bias: Tensor | None
    """``[m]``; not adapted."""
    rates_U: Tensor | None
    """``[steps]``, or None where U does not adapt."""
    rates_v: Tensor
    """``[steps]`` or ``[steps, k]``."""


def find_layer(model: nn.Module, inner: list[str]) -> DenseLayer | None:
    """The layer, if ``model`` is one dense reparameterized Linear whose v, or U and v, are what adapts."""
    if is_joint(model, inner):
        return dense_layer(model, "", None)
    layer = last_dense_layer(model, inner)
    return None if layer is None or layer.head is not None else layer


def flat_rows(episodes: Episode, layer: DenseLayer) -> tuple[Batch, Batch]:
    """Support and query as ``x [tasks, rows, n]`` and ``y [tasks, rows, m]``; an error for shapes that do not fit."""
    found = []
    for x, y in episodes[:2]:
        check_shapes((*x.shape[1:-1], layer.outputs), y[0])
        if x.shape[-1] != layer.inputs:
            raise MetasymError(
                f"expected {layer.inputs} inputs per example, found {x.shape[-1]}",
                about="x",
                found=int(x.shape[-1]),
            )
        found.append(Batch(x.reshape(len(x), -1, layer.inputs), y.reshape(len(y), -1, layer.outputs)))
    return found[0], found[1]


def contract(rows: Tensor, U: Tensor, m: int) -> Tensor:
    """``rows [rows, n]`` times ``U [m n, k]``: ``[rows, m k]``."""
    n, k = rows.shape[1], U.shape[1]
    # Input-major, so that one product serves all outputs; copying U costs a tenth of the product.
    return rows @ U.reshape(m, n, k).transpose(0, 1).reshape(n, m * k)


def gradient_by_U(rows: Tensor, by: Tensor, m: int, k: int) -> Tensor:
    """The gradient by U ``[m n, k]``, from the gradient by what :func:`contract` gave."""
    return (rows.mT @ by).view(-1, m, k).transpose(0, 1).reshape(-1, k)
