"""What a symmetry does, in the names that the user gave to inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from metasym.groups.signed_permutations import SignedPermutation, cycles
from metasym.verdicts.layer_words import unnamed
from metasym.verdicts.reports import FoundGroup, LayerReport

_LONGEST = 12
"""Up to this many cycles are listed; more are only counted."""
_AROUND = 16
"""So many points of a ring are listed."""


def tasks_share(layer: LayerReport, where: str = "") -> str:
    """A sentence: ``The tasks share a symmetry: the 12 inputs behave like a ring that may be turned (Z_12)``."""
    group = layer.group
    assert group is not None
    share = "nearly share" if group.approximate else "share"
    said = f"The tasks {share} a symmetry{f' (in {where})' if where else ''}: {group_words(group)}"
    if layer.input_names and len(group.generators) == 1 and not _ring(group):
        said += f" ({element_words(group.generators[0], layer.input_names, layer.output_names)})"
    rounds = _around(layer)
    return f"{said}. {rounds}" if rounds else f"{said}."


def method_words(layers: Sequence[LayerReport]) -> str:
    """What tables of scores call the method that learned U: only what was found is called a symmetry."""
    if not layers:  # none was read: a layer may be too large for that
        return "learned U (MSR)"
    if any(layer.group is not None or layer.partial for layer in layers):
        return "symmetry learned (MSR)"
    undecided = any(layer.undecided for layer in layers)
    return f"learned U (MSR), {'undecided' if undecided else 'no symmetry'}"


def _around(layer: LayerReport) -> str:
    """The order of inputs and outputs around the ring, where it is not that of the columns."""
    group = layer.group
    assert group is not None
    size = _ring(group)
    if not size or group.name not in (f"Z_{size}", f"D_{size}"):
        return ""
    for g in group.generators:
        sides = [next(cycles(images)) for images in (g.inputs, g.outputs)]
        if any(len(cycle) < len(images) for cycle, images in zip(sides, (g.inputs, g.outputs), strict=True)):
            continue
        if all(len({(b - a) % len(cycle) for a, b in pairwise(cycle)}) == 1 for cycle in sides):
            return ""
        shown = []
        for cycle, names in zip(sides, (layer.input_names, layer.output_names), strict=True):
            called = [names[i] if names else str(i) for i in cycle[:_AROUND]]
            shown.append(", ".join(called) + (", ..." if len(cycle) > _AROUND else ""))
        return f"Around the ring, the inputs are {shown[0]} and the outputs {shown[1]}."
    return ""


def _ring(group: FoundGroup) -> int:
    """How many inputs behave like one ring or one bag of equals; 0 where they do not."""
    inputs = len(group.generators[0].inputs) if group.generators else 0
    return inputs if group.transitive and inputs > 2 else 0


def group_words(group: FoundGroup) -> str:
    """A group in everyday words, as far as its action allows them: the name alone says nothing to most readers."""
    inputs, name = _ring(group), group.name
    if inputs and name == f"Z_{inputs}" and group.order == inputs:
        return f"the {inputs} inputs behave like a ring that may be turned ({name})"
    if inputs and name == f"D_{inputs}" and group.order == 2 * inputs:
        return f"the {inputs} inputs behave like a ring that may be turned and reflected ({name})"
    if inputs and name == f"S_{inputs}":
        return f"the {inputs} inputs may be permuted at will ({name})"
    ways = f"{group.order_in_words} ways to rearrange inputs and outputs together"
    return f"{ways}, the group {name}" if name != unnamed(group.order) else ways


def element_words(g: SignedPermutation, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> str:
    """``swaps leg 1 and leg 3; takes a to b to c to a``, for the outputs and for the inputs."""
    ends = [
        ("outputs", _side(g.outputs, g.output_signs, outputs)),
        ("inputs", _side(g.inputs, g.input_signs, inputs)),
    ]
    told = [f"{side}: {text}" for side, text in ends if text]
    return "; ".join(told) or "changes nothing"


def _side(images: Sequence[int], signs: Sequence[int], names: Sequence[str]) -> str:
    called = [names[i] if names else str(i) for i in range(len(images))]
    parts = []
    for cycle in cycles(images):
        if len(cycle) == 2:
            parts.append(f"swaps {called[cycle[0]]} and {called[cycle[1]]}")
        elif len(cycle) > 2:
            parts.append("takes " + " to ".join(called[i] for i in [*cycle, cycle[0]]))
    if len(parts) > _LONGEST:
        parts = [*parts[:_LONGEST], f"and {len(parts) - _LONGEST} more such"]
    flipped = [called[i] for i, sign in enumerate(signs) if sign < 0]
    if flipped:
        shown = ", ".join(flipped[:_LONGEST]) + (" and others" if len(flipped) > _LONGEST else "")
        parts.append(f"changes the sign of {shown}")
    return ", ".join(parts)
