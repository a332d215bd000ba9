"""Frozen symmetries of convolutions between stacks of equal fields: one block, used for every pair of them."""

from __future__ import annotations

import torch
from torch import Tensor

from metasym.argument_types import checked
from metasym.groups import KernelBasis
from metasym.symmetry.cost_of_weight import Cost
from metasym.symmetry.matrices import Symmetry, checked_matrix
from metasym.types import MetasymError


class FieldSymmetry(Symmetry):
    """The U of a group-equivariant convolution, never formed: its diagonal blocks are all the same.

    Between ``fields_out`` and ``fields_in`` equal fields every pair has the same space of kernels, so that U is
    zero but for one block for each pair. A dense U of D_8 for 64 -> 64 channels and 3 x 3 kernels would take
    226 MB in float32 (36,864 x 1,536); the block takes 0.9 MB, and W is built by one small product.

    ``block [out, in, k, k, d]`` has the channels of one output and one input field; the filter v is
    ``[fields_out, fields_in, d]``, ordered as :class:`metasym.groups.KernelBasis` orders its coefficients.
    """

    block: Tensor

    @checked
    def __init__(self, block: Tensor, fields_out: int, fields_in: int) -> None:
        if block.ndim != 5:
            raise MetasymError(
                f"expected a block [out, in, k, k, d], found {list(block.shape)}",
                about="block",
                found=tuple(block.shape),
            )
        out, inp, height, width, d = block.shape
        super().__init__((fields_out * out, fields_in * inp, height, width), (fields_out, fields_in, d))
        checked_matrix(block.flatten(0, 3), "block", rows=out * inp * height * width)
        self._store("block", block.detach().clone(), learnable=False)

    @classmethod
    def of(cls, basis: KernelBasis, dtype: torch.dtype = torch.float32) -> FieldSymmetry:
        """The symmetry of all kernels of ``basis``, with orthonormal columns."""
        columns = torch.linalg.qr(basis.block.flatten(1).T).Q
        block = columns.reshape(*basis.block.shape[1:], len(basis.block))
        return cls(block.to(dtype), basis.fields_out, basis.fields_in)

    def forward(self, v: Tensor) -> Tensor:
        """``v [fields_out, fields_in, d] -> W [out, in, k, k]``."""
        self._check_filter(v)
        return _join(v @ self.block.flatten(0, 3).T, self.block.shape[:4])

    @torch.no_grad()
    def right_inverse(self, W: Tensor) -> Tensor:
        """Least squares, for each pair of fields separately."""
        self._check_weight(W)
        out, inp, height, width, _ = self.block.shape
        fields_out, fields_in, _ = self.filter_shape
        pairs = W.detach().reshape(fields_out, out, fields_in, inp, height, width).transpose(1, 2)
        inverse = torch.linalg.pinv(self.block.flatten(0, 3).cpu().double())
        found: Tensor = pairs.reshape(fields_out, fields_in, -1).cpu().double() @ inverse.T
        return found.to(dtype=W.dtype, device=W.device)

    def matrix(self) -> Tensor:
        """The dense U ``[out * in * k * k, fields_out * fields_in * d]``: zero but for its blocks."""
        units = torch.eye(self.filter_shape.numel(), dtype=self.block.dtype, device=self.block.device)
        built = _join(
            units.reshape(-1, *self.filter_shape) @ self.block.flatten(0, 3).T, self.block.shape[:4]
        )
        return built.reshape(len(units), -1).T

    def cost(self) -> Cost:
        """The block's entries; every pair of fields multiplies its d coefficients into its weights."""
        fields_out, fields_in, _ = self.filter_shape
        build = fields_out * fields_in * self.block.numel()
        size = self.block.element_size()
        return Cost(self.weight_shape.numel(), self.block.numel(), self.filter_shape.numel(), build, size)


def _join(pairs: Tensor, block: torch.Size) -> Tensor:
    """``[..., fields_out, fields_in, out * in * k * k] -> [..., fields_out * out, fields_in * in, k, k]``."""
    # [..., fields_out, fields_in, out, in, k, k], then fields_in after out
    split: Tensor = pairs.reshape(*pairs.shape[:-1], *block).transpose(-5, -4)
    return split.flatten(-6, -5).flatten(-4, -3)
