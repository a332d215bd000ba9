"""What a user of ``metasym discover`` may ask for, and how searches are told of and remembered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from metasym.discovery.claims import TOLERANCE
from metasym.discovery.prepared import TEST
from metasym.types import MetasymError

Note = Callable[[str], None]


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


Memory = Callable[[str, Callable[[], dict[str, Any]]], dict[str, Any]]


def forget(_: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """No memory: every stage is computed."""
    return compute()
