"""How a claim about a symmetry compares with the truth: by its generators, not by its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from studies.true_group import Array, Element, defect, order, true_group

OUTCOMES = ("right", "subgroup", "nothing", "wrong")
EXACT = 1e-6
"""Maps whose defect is smaller have the symmetry; what the simulators round away is below 1e-9."""


@dataclass(frozen=True)
class Score:
    """How one run did."""

    outcome: str
    """``right``: the whole group; ``subgroup``: some of it; ``nothing``; ``wrong``: a symmetry that is not there."""
    true_order: int
    claimed_order: int
    true_defect: float
    """The largest ``|W - gW| / |W|`` of a claimed generator on the true maps; 0 without a claim."""


def elements(group: Mapping[str, Any] | None) -> list[Element]:
    """The generators of a group as ``metasym inspect --json`` writes it."""
    if group is None:
        return []
    return [
        Element(
            *(tuple(int(v) for v in g[key]) for key in ("outputs", "inputs", "output_signs", "input_signs"))
        )
        for g in group["generators"]
    ]


def score(claimed: Sequence[Element], maps: Array, *, nothing_is_true: bool = False) -> Score:
    """Compares claimed generators with the true group of ``maps``; ``nothing_is_true``: no claim may be made."""
    truth = 1 if nothing_is_true else len(true_group(maps))
    found = order(list(claimed))
    worst = max((defect(maps, g) for g in claimed), default=0.0)
    if not claimed:
        outcome = "right" if truth == 1 else "nothing"
    elif worst > EXACT or nothing_is_true:
        outcome = "wrong"
    else:
        outcome = "right" if found == truth else "subgroup"
    return Score(outcome, truth, found, worst)
