"""What a user of ``metasym discover`` may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from metasym.discovery.claim_thresholds import SPLIT, TOLERANCE
from metasym.storage.options import LARGEST_SEED, check_options, option
from metasym.types import MetasymError


@dataclass(frozen=True)
class DiscoverReading:
    """What a user says about a file; what is left open is taken from the file itself."""

    inputs: str | None = option(
        None, "table: columns of x, as a,b,c; patterns stand for several. Function: an .npz with the points x"
    )
    outputs: str | None = option(None, "table: columns of y, in the same way")
    labels: bool | None = option(None, "y holds labels, whatever its type")
    tasks: bool | None = option(
        None,
        "the arrays are [tasks, examples, ...] (default: where both have the same two sizes in front)",
    )


@dataclass(frozen=True)
class DiscoverOptions:
    """What a user may ask for."""

    seed: int = option(0, "of the split and the search (default: 0)", least=0, most=LARGEST_SEED)
    test: float = option(
        SPLIT.held_out, f"part that is held out (default: {SPLIT.held_out})", least=0.05, most=0.5
    )
    tolerance: float = option(
        TOLERANCE,
        f"largest violation, as a part of the variance, with which a symmetry is named (default: {TOLERANCE})",
        least=0,
        most=1,
    )
    continuous: bool = option(True, "search for continuous symmetries")
    finite: bool = option(True, "search for finite symmetries")

    group: str | None = option(
        None,
        "also test whether the function has this group: shifts, dihedral, permutations, FILE.json, ... as metasym "
        "inspect --group takes",
    )

    def __post_init__(self) -> None:
        check_options(self)
        if not 0 < self.tolerance < 1:
            raise MetasymError(
                f"expected --tolerance between 0 and 1, found {self.tolerance}",
                about="tolerance",
                found=self.tolerance,
            )
        if not (self.continuous or self.finite):
            raise MetasymError(
                "expected a search for continuous or finite symmetries, found neither",
                about="continuous, finite",
                found=(False, False),
            )
