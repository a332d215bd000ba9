"""The layer, the data and the products with U of a step in closed form (``metasym.engines.dense.closed_form``)."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor, nn

from metasym.engines.dense.contraction import DenseLayer, dense_layer, last_dense_layer
from metasym.engines.dense.joint import is_joint
from metasym.types import Batch, Episode


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


def flat_rows(episodes: Episode, layer: DenseLayer) -> tuple[Batch, Batch] | None:
    """Support and query as ``x [tasks, rows, n]`` and ``y [tasks, rows, m]``; None for data that do not fit."""
    found = []
    for x, y in episodes[:2]:
        fits = x.shape[:-1] == y.shape[:-1] and (x.shape[-1], y.shape[-1]) == (layer.inputs, layer.outputs)
        if not fits or not x.dtype == y.dtype == layer.U.dtype or x.requires_grad or y.requires_grad:
            return None
        tasks = len(x)
        found.append(Batch(x.reshape(tasks, -1, layer.inputs), y.reshape(tasks, -1, layer.outputs)))
    return found[0], found[1]


def contract(rows: Tensor, U: Tensor, m: int) -> Tensor:
    """``rows [rows, n]`` times ``U [m n, k]``: ``[rows, m k]``."""
    n, k = rows.shape[1], U.shape[1]
    # Input-major, so that one product serves all outputs; copying U costs a tenth of the product.
    return rows @ U.reshape(m, n, k).transpose(0, 1).reshape(n, m * k)


def gradient_by_U(rows: Tensor, by: Tensor, m: int, k: int) -> Tensor:
    """The gradient by U ``[m n, k]`` from that by what :func:`contract` gave."""
    return (rows.mT @ by).view(-1, m, k).transpose(0, 1).reshape(-1, k)
