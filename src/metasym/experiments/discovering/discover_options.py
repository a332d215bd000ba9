"""What a user of ``metasym discover`` may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from metasym.discovery.models.preprocessing import TEST
from metasym.discovery.thresholds import TOLERANCE
from metasym.types import MetasymError


@dataclass(frozen=True)
class DiscoverOptions:
    """What a user may ask for."""

    seed: int = 0
    test: float = TEST
    tolerance: float = TOLERANCE
    continuous: bool = True
    finite: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise MetasymError(f"expected --seed from 0 to {2**63 - 1:,}, found {self.seed}")
        if not 0.05 <= self.test <= 0.5:
            raise MetasymError(f"expected --test from 0.05 to 0.5, found {self.test}")
        if not 0 < self.tolerance < 1:
            raise MetasymError(f"expected --tolerance between 0 and 1, found {self.tolerance}")
        if not (self.continuous or self.finite):
            raise MetasymError("expected continuous or finite symmetries to be looked for, found neither")
