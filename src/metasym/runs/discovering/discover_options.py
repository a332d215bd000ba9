"""What a user of ``metasym discover`` may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from metasym.discovery.claim_thresholds import TOLERANCE
from metasym.discovery.models.preprocessing import TEST
from metasym.storage.options import LARGEST_SEED, check_options, option
from metasym.types import MetasymError


@dataclass(frozen=True)
class DiscoverOptions:
    """What a user may ask for."""

    seed: int = option(0, "of the split and the search (default: 0)", least=0, most=LARGEST_SEED)
    test: float = option(TEST, f"part that is held out (default: {TEST})", least=0.05, most=0.5)
    tolerance: float = option(
        TOLERANCE,
        f"largest violation, as a part of the variance, with which a symmetry is named (default: {TOLERANCE})",
        least=0,
        most=1,
    )
    continuous: bool = option(True, "look for continuous symmetries")
    finite: bool = option(True, "look for finite symmetries")

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 < self.tolerance < 1:
            raise MetasymError(f"expected --tolerance between 0 and 1, found {self.tolerance}")
        if not (self.continuous or self.finite):
            raise MetasymError("expected continuous or finite symmetries to be looked for, found neither")
