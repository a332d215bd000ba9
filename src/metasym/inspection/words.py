"""What a symmetry does, in the names that the user gave to inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from metasym.inspection.reports import GroupElement

_LONGEST = 12
"""Up to this many cycles are listed; more are only counted."""


def element_words(g: GroupElement, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> str:
    """``swaps leg 1 and leg 3; takes a to b to c to a``, for the outputs and for the inputs."""
    ends = [
        ("outputs", _side(g.outputs, g.output_signs, outputs)),
        ("inputs", _side(g.inputs, g.input_signs, inputs)),
    ]
    told = [f"{side}: {text}" for side, text in ends if text]
    return "; ".join(told) or "changes nothing"


def _side(images: Sequence[int], signs: Sequence[int], names: Sequence[str]) -> str:
    called = [names[i] if names else str(i) for i in range(len(images))]
    seen: set[int] = set()
    parts = []
    for start in range(len(images)):
        cycle = [start]
        while images[cycle[-1]] != start:
            cycle.append(images[cycle[-1]])
        if start in seen or len(cycle) == 1:
            continue
        seen.update(cycle)
        if len(cycle) == 2:
            parts.append(f"swaps {called[cycle[0]]} and {called[cycle[1]]}")
        else:
            parts.append("takes " + " to ".join(called[i] for i in [*cycle, start]))
    if len(parts) > _LONGEST:
        parts = [*parts[:_LONGEST], f"and {len(parts) - _LONGEST} more such"]
    flipped = [called[i] for i, sign in enumerate(signs) if sign < 0]
    if flipped:
        shown = ", ".join(flipped[:_LONGEST]) + (" and others" if len(flipped) > _LONGEST else "")
        parts.append(f"changes the sign of {shown}")
    return ", ".join(parts)
