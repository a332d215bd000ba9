"""Signs of inputs and outputs: patterns tied up to sign that are plain ones with some inputs and outputs negated."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor, nn

from metasym.fast_layers.pricing import PASS, Candidate, Work
from metasym.fast_layers.sharing import Index, Sharing

_UNKNOWNS = 5000
"""Signs (of outputs, inputs and classes) that are solved for."""
Signs = tuple[Index, Index, Index]
"""Of outputs ``[m]``, inputs ``[n]`` and classes ``[count]``."""


class Flipped(nn.Module):
    """A layer whose inputs and outputs are negated where the signs say so."""

    input_signs: Tensor
    output_signs: Tensor

    def __init__(self, layer: nn.Module, signs: Signs, bias: Tensor | None, dtype: torch.dtype) -> None:
        super().__init__()
        self.layer = layer
        self.register_buffer("output_signs", torch.from_numpy(signs[0]).to(dtype), persistent=False)
        self.register_buffer("input_signs", torch.from_numpy(signs[1]).to(dtype), persistent=False)
        self.bias = None if bias is None else nn.Parameter(bias.detach().clone())

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., inputs] -> y [..., outputs]``."""
        y: Tensor = self.layer(x * self.input_signs) * self.output_signs
        return y if self.bias is None else y + self.bias


def flipped(candidate: Candidate, signs: Signs, shape: tuple[int, int]) -> Candidate:
    """A way to compute the plain pattern as one for the pattern with these signs."""

    def build(filter: Tensor, bias: Tensor | None) -> nn.Module:
        turned = filter * torch.from_numpy(signs[2]).to(filter)
        return Flipped(candidate.build(turned, None), signs, bias, filter.dtype)

    work = candidate.work + Work(2, 0.0, PASS * sum(shape)).trained(4, 2.0)
    return dataclasses.replace(candidate, words=f"{candidate.words}, with signs", work=work, build=build)


def unsigned(sharing: Sharing) -> Signs | None:
    """Signs after which every class has one sign; None where there are none (or too many to solve for)."""
    for found in (_from_largest(sharing), _solved(sharing)):
        if found is not None:
            plain = np.sign(sharing.classes) * found[0][:, None] * found[1][None, :]
            one = np.concatenate([[0], found[2]])
            if np.array_equal(plain, one[sharing.absolute]):
                return found
    return None


def _from_largest(sharing: Sharing) -> Signs:
    """From the largest class alone, where its entries connect all outputs and inputs."""
    m, n = sharing.shape
    largest = int(sharing.sizes[1:].argmax()) + 1
    grid = np.where(sharing.absolute == largest, np.sign(sharing.classes), 0).astype(np.float32)
    outputs: Index = np.zeros(m, dtype=np.float32)
    inputs: Index = np.zeros(n, dtype=np.float32)
    outputs[np.argmax(np.abs(grid).sum(1))] = 1
    known = 0
    while known < (now := int(np.abs(outputs).sum() + np.abs(inputs).sum())):
        known = now
        inputs = np.where(inputs == 0, np.sign(outputs @ grid), inputs)
        outputs = np.where(outputs == 0, np.sign(grid @ inputs), outputs)
    return _with_classes(sharing, np.where(outputs < 0, -1, 1), np.where(inputs < 0, -1, 1))


def _with_classes(sharing: Sharing, outputs: Index, inputs: Index) -> Signs:
    """With the signs of the classes that follow from their first entries."""
    flat = sharing.absolute.ravel()
    _, first = np.unique(flat, return_index=True)
    first = first[flat[first] > 0]
    rows, columns = first // sharing.shape[1], first % sharing.shape[1]
    return outputs, inputs, np.sign(sharing.classes.ravel()[first]) * outputs[rows] * inputs[columns]


def _solved(sharing: Sharing) -> Signs | None:
    """Every entry says ``output sign * input sign * class sign``: linear equations modulo 2, eliminated."""
    m, n = sharing.shape
    unknowns = m + n + sharing.count
    if unknowns > _UNKNOWNS:
        return None
    rows, columns = np.nonzero(sharing.classes)
    labels, negative = sharing.absolute[rows, columns] - 1, sharing.classes[rows, columns] < 0
    # A random part of the equations says all there is to say, or the check that follows finds the rest violated.
    draw = np.random.Generator(np.random.PCG64(0))
    order = draw.permutation(len(rows))[: 6 * unknowns]
    pivots: dict[int, int] = {}
    for e in order.tolist():
        row = 1 << int(rows[e]) | 1 << (m + int(columns[e])) | 1 << (m + n + int(labels[e]))
        row |= int(negative[e]) << unknowns
        low = row & -row
        while low.bit_length() - 1 in pivots:
            row ^= pivots[low.bit_length() - 1]
            low = row & -row
        if low.bit_length() - 1 == unknowns:
            return None  # zero equals one
        if row:
            pivots[low.bit_length() - 1] = row
    values = 1 << unknowns  # free unknowns are 0; the constant is 1
    for pivot in sorted(pivots, reverse=True):
        if (pivots[pivot] & values).bit_count() & 1:
            values |= 1 << pivot
    signs = np.array([-1 if values >> k & 1 else 1 for k in range(unknowns)])
    return signs[:m], signs[m : m + n], signs[m + n :]
