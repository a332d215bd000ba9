"""The inner steps of one layer's filter v with the squared loss, and the backward pass through them, as one kernel.

What ``dense.closed_form`` does between its products with U, in one call of ``filter_steps.cpp`` where that could be
compiled: a task's numbers stay in the first cache, and one call replaces sixty small operations of torch.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import torch
from torch import Tensor

from metasym.engines.kernels.engine_kernels import library

_KINDS = {torch.float32: "float", torch.float64: "double"}


class Stepped(NamedTuple):
    """The losses and the gradient of the weighted sum of the query losses, without its part by A and B."""

    losses: Tensor
    """``[3, tasks]``: of the query, and of the support set before and after adapting."""
    v: Tensor
    """``[k]``."""
    rates: Tensor
    """``[steps, k]``, for each entry of v; to be summed over entries that share a step size."""
    bias: Tensor | None
    """``[m]``."""


def can_step(U: Tensor) -> bool:
    """Whether there is a kernel for a layer with this U here."""
    return U.device.type == "cpu" and U.dtype in _KINDS and library("filter_steps") is not None


def filter_steps(
    contracted: Tensor,
    v: Tensor,
    rates: Tensor,
    y: Tensor,
    y_query: Tensor,
    *,
    weight: float,
    first_order: bool,
    bias: bool,
) -> Stepped:
    """All inner steps of all tasks, forwards and backwards; overwrites ``contracted`` with the gradient by it.

    ``contracted [tasks (e + q), m, k]`` is U times the support inputs of all tasks and then their query inputs,
    ``v [k]`` the filter, ``rates [steps]`` or ``[steps, k]`` the step sizes, ``y [tasks, e, m]`` and ``y_query
    [tasks, q, m]`` the targets minus the bias. ``weight`` is the weight of each query loss in the sum; ``bias`` says
    whether the bias needs a gradient.
    """
    (tasks, e, m), q, k, steps = y.shape, y_query.shape[1], v.shape[0], rates.shape[0]
    inputs = [t.contiguous() for t in (v, rates, y, y_query)]
    losses, by_v, by_rates = v.new_empty(3, tasks), v.new_empty(k), v.new_empty(steps, k)
    by_bias = v.new_empty(m) if bias else None
    assert contracted.is_contiguous()
    width = 1 if rates.ndim == 1 else k
    sizes = (ctypes.c_int64 * 8)(tasks, e * m, q * m, k, steps, m, width, first_order)
    pointers = [
        ctypes.c_void_p(0 if t is None else t.data_ptr())
        for t in (*inputs, contracted, losses, by_v, by_rates, by_bias)
    ]
    kernel = getattr(library("filter_steps"), f"filter_steps_{_KINDS[v.dtype]}")
    kernel(sizes, ctypes.c_double(weight), *pointers, torch.get_num_threads())
    return Stepped(losses, by_v, by_rates, by_bias)
