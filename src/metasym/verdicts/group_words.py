"""What a symmetry does, in the names that the user gave to inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from metasym.groups.action_parts import ActionPart, MovedOrbit, action_of
from metasym.groups.orbit_actions import OrbitAction, Shape
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation, cycles
from metasym.verdicts.reports import FoundGroup, LayerReport, order_words

_LONGEST = 12
"""Up to this many cycles are listed; more are only counted."""
_AROUND = 16
"""So many points of a ring are listed."""
_BLOCKS = 6
"""So many blocks are listed."""
_LISTED = 8
"""More points than this, all there are, are only counted."""


def tasks_share(layer: LayerReport, where: str = "") -> str:
    """A sentence: ``The tasks share a symmetry: the 12 inputs behave like a ring that may be turned (Z_12)``."""
    group = layer.group
    assert group is not None
    share = "nearly share" if group.approximate else "share"
    said = f"The tasks {share} a symmetry{f' (in {where})' if where else ''}: {found_words(layer)}"
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
    own = SignedGroup(group.generators, group.generators[0].shape, group.signed, known_order=group.order)
    for g in (*group.generators, *own.first_elements(2 * size)):  # the ring may turn by no generator alone
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


def found_words(layer: LayerReport) -> str:
    """What the group of a layer does, in the user's names, and its name; empty where none was found."""
    group = layer.group
    if group is None or not group.generators:
        return ""
    transforms = [g.transform for g in group.generators if g.transform]
    if transforms:
        return f"{' and '.join(transforms)}, with their output channels ({called_briefly(group.name, group.order)})"
    own = SignedGroup(group.generators, group.generators[0].shape, group.signed, known_order=group.order)
    return group_words(own, layer.input_names, layer.output_names)


def group_words(group: SignedGroup, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> str:
    """What a group does, by its orbits and blocks: its name alone says nothing to most readers.

    ``a, b and c are interchangeable; d, e and f too; the two blocks may be swapped (S_3 wr Z_2, order 72)``.
    """
    return f"{moves_words(group, inputs, outputs)} ({called_briefly(group.name, group.order)})"


def moves_words(group: SignedGroup, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> str:
    """The same without the name."""
    action = action_of(group)
    if action is None:
        return f"{order_words(group.order)} ways to rearrange inputs and outputs together"
    speaker = _Names(group.shape, tuple(inputs), tuple(outputs))
    said = [speaker.part(part) for part in action.parts]
    changes = action.sign_changes
    said += [speaker.signs(g) for g in (changes or ())[:_LONGEST]]
    if changes is None:
        said.append("changes of sign are not listed")
    elif len(changes) > _LONGEST:
        ways = order_words(2 ** len(changes))
        said.append(f"and so on for {len(changes) - _LONGEST} more, {ways} ways to change signs in all")
    if action.signed:
        said[len(action.parts) - 1] += ", with changes of sign"
    return "; ".join(said)


def called_briefly(name: str, order: int) -> str:
    """``Z_12``, ``S_3 wr Z_2, order 72``, ``a group of order 48``: the order where the name does not say it."""
    return f"{name}, order {order_words(order)}" if " wr " in name or " x " in name else name


@dataclass(frozen=True)
class _Names:
    """The names of outputs and inputs, and sentences with them."""

    shape: tuple[int, int]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def part(self, part: ActionPart) -> str:
        said = "; ".join(self.action(one.action, one.side) for one in part.leading)
        if len(part.leading) > 1:
            said += "; these moves happen only together"
        listed = [self.listed(one.action.points, one.side) for one in part.following if not self.whole(one)]
        return f"{said}, along with {', and '.join(listed)}" if listed else said

    def whole(self, one: MovedOrbit) -> bool:
        """Whether it is a side without names: that the outputs move with the inputs is what a symmetry means."""
        names = self.inputs if one.side == "inputs" else self.outputs
        return not names and len(one.action.points) == self.shape[one.side == "inputs"]

    def signs(self, g: SignedPermutation) -> str:
        places = [(i, "outputs") for i in g.moved_outputs], [(j, "inputs") for j in g.moved_inputs]
        listed = [self.listed(tuple(i for i, _ in some), some[0][1]) for some in places if some]
        one = sum(map(len, places)) == 1
        return f"the sign{'' if one else 's'} of {joined(listed)} may be changed{'' if one else ' together'}"

    def action(self, action: OrbitAction, side: str) -> str:
        if action.shape is Shape.BLOCKS:
            assert action.inner is not None
            assert action.outer is not None
            said = [self.action(action.inner, side)]
            if len(action.blocks) <= _BLOCKS:
                said += [f"{self.listed(block, side)} too" for block in action.blocks[1:]]
            else:
                said.append(f"the same in each of {len(action.blocks)} such blocks")
            return "; ".join([*said, _moved_how(f"the {_counted(len(action.blocks))} blocks", action.outer)])
        listed = self.listed(action.points, side)
        if action.shape is Shape.GRID:
            assert action.inner is not None
            assert action.outer is not None
            rows, columns = len(action.blocks), len(action.blocks[0])
            return (
                f"{listed} form a grid of {rows} rows by {columns}: {_moved_how('its rows', action.outer)}, "
                f"{_moved_how('its columns', action.inner)}"
            )
        return _moved_how(listed, action)

    def listed(self, points: Sequence[int], side: str) -> str:
        """Points by name: ``a, b and c``, ``torque_3 to torque_8``, ``the 12 inputs``, ``inputs 0 to 5``."""
        names = self.inputs if side == "inputs" else self.outputs
        every = self.shape[1] if side == "inputs" else self.shape[0]
        if len(points) == every and (not names or every > _LISTED):
            return f"the {every} {side}" if every > 1 else f"the {side[:-1]}"
        own = [
            str(i) if not names else names[i] if i < len(names) else f"{side[:-1]} {i}"
            for i in sorted(points)
        ]
        if len(points) > 3 and max(points) - min(points) == len(points) - 1:
            said = f"{own[0]} to {own[-1]}"
        elif len(points) > _AROUND:
            said = f"{', '.join(own[:_AROUND])}, ... ({len(points)} in all)"
        else:
            said = joined(own)
        if not names:
            return f"{side if len(points) > 1 else side[:-1]} {said}"
        return f"the {side} {said}" if set(self.inputs) & set(self.outputs) else said


def _moved_how(what: str, action: OrbitAction) -> str:
    """What may be done to ``what``, the points of an action."""
    if action.shape is Shape.ANY:
        if len(action.points) == 2:
            return f"{what} may be swapped"
        return f"{what} are interchangeable"
    if action.shape is Shape.RING:
        return f"{what} behave like a ring that may be turned"
    if action.shape is Shape.REFLECTED:
        return f"{what} behave like a ring that may be turned and reflected"
    if action.shape is Shape.EVEN:
        return f"{what} may be permuted evenly"
    return f"{what} may be rearranged in {order_words(action.order)} ways, each to the place of any other"


def joined(names: Sequence[str]) -> str:
    """``a, b and c``."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _counted(number: int) -> str:
    words = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
    return words[number - 2] if 2 <= number <= 12 else str(number)


def element_words(g: SignedPermutation, inputs: Sequence[str] = (), outputs: Sequence[str] = ()) -> str:
    """``swaps leg 1 and leg 3; takes a to b to c to a``, for the outputs and for the inputs."""
    ends = [
        ("outputs", _side(g.outputs, g.output_signs, outputs)),
        ("inputs", _side(g.inputs, g.input_signs, inputs)),
    ]
    return "; ".join(f"{side}: {text}" for side, text in ends if text) or "changes nothing"


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
