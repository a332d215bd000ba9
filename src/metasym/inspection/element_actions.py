"""An element of a group, or a transform, as it moves a network's examples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Move:
    """An element of a group, acting on a network's inputs and on its outputs."""

    name: str
    inputs: Callable[[Tensor], Tensor]
    outputs: Callable[[Tensor], Tensor]
    family: str = ""
    """Of the usual transforms of images: those of one family differ by ``amount``."""
    amount: float = 0.0
