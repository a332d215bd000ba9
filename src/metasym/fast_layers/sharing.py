"""What a compiler works on: which entries of a weight are equal, opposite or zero, and the filter that fills them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from metasym.types import MetasymError

Classes = npt.NDArray[Any]
"""Of signed whole numbers."""
Index = npt.NDArray[Any]
"""Of whole numbers: places."""


@dataclass(frozen=True, eq=False)
class Sharing:
    """A sharing pattern ``[m, n]``: 0 is zero, equal numbers are tied, opposite ones tied up to sign."""

    classes: Classes
    """Classes are numbered 1, 2, ... without gaps."""
    ways: dict[Any, list[Any]] = field(default_factory=dict, repr=False)
    """What a compiler found in the pattern, by what else it knew."""

    @classmethod
    def of(cls, classes: Any, what: str = "a sharing pattern") -> Sharing:
        """From an array or nested lists of whole numbers; classes are numbered anew as they first appear."""
        try:
            found = np.asarray(classes)
        except ValueError:
            found = np.zeros(0)
        if found.ndim != 2 or not found.size or not np.issubdtype(found.dtype, np.integer):
            raise MetasymError(
                f"expected {what} of whole numbers [outputs, inputs], found {found.dtype} {list(found.shape)}",
                about=what,
                found=(str(found.dtype), tuple(found.shape)),
            )
        numbers = np.abs(found.astype(np.int64)).ravel()
        if int(numbers.max()) > 4 * numbers.size:
            numbers = np.unique(numbers, return_inverse=True)[1].ravel() + (0 if (numbers == 0).any() else 1)
        top = int(numbers.max()) + 1
        first = np.full(top, numbers.size)
        first[numbers[::-1]] = np.arange(numbers.size)[
            ::-1
        ]  # the last assignment stays: the first appearance
        first[0] = -1  # zero stays zero
        order = np.argsort(first, kind="stable")
        rank = np.empty(top, dtype=np.int64)
        rank[order] = np.arange(top)
        flat = found.ravel()
        # The first entry of every class counts as positive.
        flips = np.where(flat[np.clip(first, 0, numbers.size - 1)] < 0, -1, 1)
        labels = rank[numbers] * np.where(flat < 0, -1, 1) * flips[numbers]
        return cls(labels.reshape(found.shape))

    @property
    def shape(self) -> tuple[int, int]:
        """``(m, n)``: outputs and inputs."""
        m, n = self.classes.shape
        return int(m), int(n)

    @cached_property
    def count(self) -> int:
        """The entries of the filter: classes of tied weights, zeros not counted."""
        return int(np.abs(self.classes).max())

    @cached_property
    def absolute(self) -> Classes:
        """The classes without their signs."""
        return np.abs(self.classes)

    @cached_property
    def signed(self) -> bool:
        """Whether some entries are tied with opposite signs."""
        return bool((self.classes < 0).any())

    @cached_property
    def sizes(self) -> Index:
        """``[count + 1]``: how many entries each class has, zeros first."""
        return np.bincount(self.absolute.ravel(), minlength=self.count + 1)

    def filter_of(self, W: Tensor) -> Tensor:
        """The filter ``[count]`` of a weight ``[m, n]``: the mean of each class, up to sign, in float64 inside."""
        flat = W.detach().reshape(-1).double().cpu()
        labels = torch.from_numpy(self.absolute.ravel())
        signs = torch.from_numpy(np.sign(self.classes).ravel()).double()
        sums = torch.zeros(self.count + 1, dtype=torch.float64).index_add_(0, labels, flat * signs)
        return (sums[1:] / torch.from_numpy(self.sizes[1:]).clamp_min(1)).to(W)

    def weight(self, filter: Tensor) -> Tensor:
        """The weight ``[m, n]`` that the filter ``[count]`` fills: the oracle of every compiled layer."""
        found: Tensor = Expansion(self.classes, self.count).to(filter.device)(filter)
        return found

    def error(self, W: Tensor) -> float:
        """``|W - W averaged over each class| / |W|``: 0 where the weight has the pattern."""
        norm = float(torch.linalg.vector_norm(W.double()))
        gap = float(torch.linalg.vector_norm((W.cpu() - self.weight(self.filter_of(W)).cpu()).double()))
        return gap / norm if norm else 0.0

    def part(self, outputs: Index, inputs: Index) -> Classes:
        """The classes of some outputs and inputs, in that order."""
        found: Classes = self.classes[np.ix_(outputs, inputs)]
        return found


def places(classes: Classes, count: int) -> Index:
    """Where :class:`Expansion` finds each entry: ``c - 1`` for c, ``count + c - 1`` for -c, ``2 count`` for zero."""
    return np.where(classes > 0, classes - 1, np.where(classes < 0, count - classes - 1, 2 * count))


class Expansion(nn.Module):
    """Entries of a filter ``[count]``, their negatives or zeros, put where the classes say: ``[*classes.shape]``."""

    index: Tensor | None

    def __init__(self, classes: Classes, count: int) -> None:
        super().__init__()
        self.wide = bool((classes <= 0).any())
        """Whether negatives or zeros are needed."""
        self.shape = classes.shape
        found = places(classes, count)
        ordered = classes.size == count and np.array_equal(found.ravel(), np.arange(count))
        self.register_buffer("index", None if ordered else torch.from_numpy(found.ravel()), persistent=False)

    def forward(self, filter: Tensor) -> Tensor:
        """``[count] -> [*shape]``."""
        if self.index is None:
            return filter.reshape(self.shape)
        if self.wide:
            filter = torch.cat([filter, -filter, filter.new_zeros(1)])
        return filter.index_select(0, self.index).reshape(self.shape)
