"""The answer to a user's own question, whether the function behind rows has a group: a value, and its words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from metasym.groups.signed_permutations import SignedPermutation
from metasym.types import shortened
from metasym.verdicts.defect_words import measured, percent
from metasym.verdicts.discovery_reasons import AnyDiscoveryReason
from metasym.verdicts.discovery_words import refusal_words, sized
from metasym.verdicts.group_words import element_words
from metasym.verdicts.verdict import Status

_LISTED = 4
"""Generators that are named one by one."""


@dataclass(frozen=True)
class BrokenMove:
    """A generator that the function does not keep."""

    move: SignedPermutation
    defect: float
    output: int | None = None
    """The output that carries most of it, where there are several."""


@dataclass(frozen=True)
class FunctionAnswer:
    """What rows say about a group that a user asked about. The group was not chosen by these rows."""

    text: str
    """What the user calls it."""
    name: str
    order: int
    generators: tuple[SignedPermutation, ...]
    invariance: bool
    """Whether it moves the inputs alone because it cannot act on so many outputs."""
    status: Status
    """Certified: yes. Certified approximately: how nearly, also where it is refuted as exact. None: no."""
    refuted: bool
    """Whether rows show that the symmetry is not exact."""
    defect: float
    """The root mean square of ``f(g x) - g' f(x)`` over all elements, relative to y, as fitted functions show it."""
    defect_upper: float
    """The largest that the rows allow, at 95 %."""
    tested_on: int
    """Rows, each tested with functions that were fitted to other rows."""
    reasons: tuple[AnyDiscoveryReason, ...] = ()
    breaking: tuple[BrokenMove, ...] = ()
    """What breaks it: the generators that rows refute, the worst first."""
    part_of: str = ""
    """The larger group, certified by the same rows, whose bound this is; empty where the bound is its own."""

    def __repr__(self) -> str:
        return shortened(f"FunctionAnswer({self})")

    def __str__(self) -> str:
        return answer_words(self)

    def to_json(self) -> dict[str, Any]:
        """Plain types, as ``result.json`` has them under ``answer``."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return {**found, "words": answer_words(self)}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> FunctionAnswer:
        """From what :meth:`to_json` made."""
        return msgspec.convert({key: value[key] for key in value if key != "words"}, cls)


def answer_words(answer: FunctionAnswer) -> str:
    """``Does the function have the symmetry dihedral (D_6, of order 12)? Yes: ...``, without a full stop."""
    moved = ", of the inputs alone" if answer.invariance else ""
    known = sized(answer.name, "finite", answer.order)
    name = known if answer.text == answer.name else f"{answer.text} ({known}{moved})"
    over = f"95 %, over {answer.tested_on} rows, each tested with functions fitted to other rows"
    if answer.part_of:
        over = f"95 %, as a part of {answer.part_of}, which is certified"
    upper = percent(answer.defect_upper)
    match answer.status:
        case Status.CERTIFIED:
            said = f"Yes: its defect is below {upper} ({over})"
        case Status.APPROXIMATE if answer.refuted:
            said = f"Nearly, but not exactly: its defect is about {measured(answer.defect)}, below {upper} ({over})"
        case Status.APPROXIMATE:
            said = f"Within {upper}: the rows do not contradict it, but rule out only larger defects ({over})"
        case Status.NONE:
            said = f"No: its defect is about {measured(answer.defect)}, at most {upper} ({over})"
        case _:
            said = f"Undecided: its defect may be up to {upper} ({over})"
    if answer.status in (Status.NONE, Status.UNDECIDED) and answer.reasons:
        said += ". " + "; ".join(refusal_words(reason) for reason in answer.reasons)
    return f"Does the function have the symmetry {name}? {said}{_broken(answer.breaking)}"


def _move_words(move: SignedPermutation) -> str:
    return move.transform or element_words(move)


def _broken(breaking: tuple[BrokenMove, ...]) -> str:
    if not breaking:
        return ""
    said = []
    for one in breaking[:_LISTED]:
        where = "" if one.output is None else f", most of it in output {one.output}"
        said.append(f"the move ({_move_words(one.move)}; defect about {measured(one.defect)}{where})")
    more = f" and {len(breaking) - _LISTED} more" if len(breaking) > _LISTED else ""
    return f". What breaks it: {', '.join(said)}{more}"
