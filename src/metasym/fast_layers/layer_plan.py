"""What becomes of one layer, and why: the line that a plan shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from metasym.fast_layers.pricing import Candidate, Work, dense_work
from metasym.fast_layers.sharing import Sharing
from metasym.types import shortened
from metasym.verdicts.status_thresholds import NEARLY

EXACT = {torch.float64: 1e-11, torch.float32: 2e-6}
"""How far, relatively, a weight may be from its pattern and still count as having it: rounding."""
_DTYPES = {8: torch.float64, 4: torch.float32}


@dataclass(frozen=True, eq=False)
class LayerPlan:
    """What becomes of one layer, and what the ways to compute it would cost."""

    name: str
    shape: tuple[int, int]
    sharing: Sharing | None
    """None where no structure was found."""
    chosen: Candidate | None
    """None where the dense layer stays."""
    others: tuple[Candidate, ...]
    """Ways that cost more."""
    why: str
    """Why the dense layer stays, or ``"estimate"``."""
    batch: int
    element_size: int
    error: float = 0.0
    """How far, relatively, the weight or U is from the pattern."""
    given: bool = False
    """Whether the user gave the structure; otherwise it was found."""
    pays_from: int | None = None
    """Where the dense layer stays: examples at once from which another way would pay."""

    @property
    def what(self) -> str:
        """What the layer becomes, in words."""
        return f"dense ({self.why})" if self.chosen is None else self.chosen.words

    @property
    def dense(self) -> Work:
        """The cost of the dense layer."""
        return dense_work(*self.shape)

    @property
    def work(self) -> Work:
        """The cost of what the layer becomes."""
        return self.dense if self.chosen is None else self.chosen.work

    @property
    def entries(self) -> int:
        """The numbers that are stored for the weight."""
        stays = self.chosen is None or self.sharing is None
        return self.shape[0] * self.shape[1] if stays or self.sharing is None else self.sharing.count

    @property
    def bytes(self) -> int:
        """The bytes that are stored for the weight."""
        return self.entries * self.element_size

    @property
    def dense_bytes(self) -> int:
        """Those of the dense weight."""
        return self.shape[0] * self.shape[1] * self.element_size

    def __repr__(self) -> str:
        return shortened(f"LayerPlan({self})")

    def __str__(self) -> str:
        costs = {"dense": self.dense.microseconds(self.batch)}
        for candidate in (*((self.chosen,) if self.chosen else ()), *self.others):
            kind = f"{candidate.kind} (FFT)" if candidate.transforms else candidate.kind
            costs[kind] = candidate.work.microseconds(self.batch)
        shown = ", ".join(f"{kind} {_microseconds(cost)}" for kind, cost in costs.items())
        examples = "1 example" if self.batch == 1 else f"{self.batch:,} examples"
        doubt = "" if self.pays_from is None else f"; pays from about {self.pays_from:,} examples at once"
        if self.error > EXACT.get(_DTYPES.get(self.element_size, torch.float16), 1e-2):
            doubt += f"; {self.doubt}"
        return f"{self.name or 'the layer'}: {self.what} (estimates for {examples}: {shown}){doubt}"

    @property
    def doubt(self) -> str:
        """What is wrong with a weight, or a U, that does not have the structure exactly, and what to do."""
        if self.error <= NEARLY:
            return f"it has that only nearly, error {self.error:.2g} (0 is exact): project=True averages it"
        if self.given:
            return (
                f"the weight does not have the structure that was given, error {self.error:.2g} (0 is exact): "
                "check the order of inputs and outputs; 0 in a pattern means a zero weight, classes count from 1"
            )
        return f"it has that only roughly, error {self.error:.2g} (0 is exact): project=True averages it all the same"

    def as_dict(self) -> dict[str, Any]:
        """Plain types, for reports."""
        return {
            "name": self.name,
            "shape": list(self.shape),
            "what": self.what,
            "kind": "dense" if self.chosen is None else self.chosen.kind,
            "multiply_adds": self.work.multiply_adds,
            "dense_multiply_adds": self.dense.multiply_adds,
            "entries": self.entries,
            "bytes": self.bytes,
            "dense_bytes": self.dense_bytes,
            "microseconds": self.work.microseconds(self.batch),
            "dense_microseconds": self.dense.microseconds(self.batch),
            "batch": self.batch,
        }


def _microseconds(cost: float) -> str:
    return f"{cost:,.0f} us" if cost >= 100 else f"{cost:.3g} us"
