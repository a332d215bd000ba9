"""Relabelled inputs and outputs: a gather before and after."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from metasym.fast_layers.sharing import Index


class Relabelling(nn.Module):
    """``y[..., i] = signs[i] x[..., index[i]]``, zero where ``index`` is -1; nothing where it is neutral.

    Its tensors are part of what the layer is, not of its state: ``state_dict`` does not have them.
    """

    index: Tensor | None
    signs: Tensor | None

    def __init__(self, index: Index, size: int, signs: Index | None = None) -> None:
        super().__init__()
        self.size = size
        """Entries of x."""
        self.dead = bool((index < 0).any())
        """Whether some outputs are always zero."""
        plain = not self.dead and np.array_equal(index, np.arange(size))
        found = torch.from_numpy(np.where(index < 0, size, index).astype(np.int64))
        self.register_buffer("index", None if plain else found, persistent=False)
        mixed = signs is not None and bool((signs < 0).any())
        self.register_buffer(
            "signs",
            torch.from_numpy(signs.astype(np.float32)) if mixed and signs is not None else None,
            persistent=False,
        )
        self.neutral = plain and not mixed
        """Whether nothing is done."""

    def forward(self, x: Tensor) -> Tensor:
        """``x [..., size] -> [..., len(index)]``."""
        if self.index is not None:
            if self.dead:
                x = torch.cat([x, x.new_zeros(*x.shape[:-1], 1)], dim=-1)
            x = x.index_select(-1, self.index)
        if self.signs is None:
            return x
        # An exported program would keep the idle step where the types agree.
        return x * (self.signs if self.signs.dtype == x.dtype else self.signs.to(x.dtype))

    def extra_repr(self) -> str:
        """In words."""
        if self.neutral:
            return "as they are"
        return ", ".join(
            w for w, on in (("a gather", self.index is not None), ("signs", self.signs is not None)) if on
        )
