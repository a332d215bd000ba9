"""From a sharing pattern to the group that keeps it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metasym.groups.pattern_groups import pattern_group
from metasym.groups.signed_groups import SignedGroup
from metasym.groups.signed_permutations import SignedPermutation
from metasym.inspection.pattern import Array, Labels
from metasym.verdicts.reports import FoundGroup


def find_group(classes: Labels, U: Array, *, joint: bool = False, named: bool = True) -> FoundGroup | None:
    """The largest group with the pattern ``classes [m, n]``, acting on outputs and inputs that are not dead.

    ``joint``: the last column is the bias, an input that is always 1. No permutation moves it and no sign flips it.
    A name takes most of the time; without one the group is called ``""``.
    """
    if joint:
        top = int(np.abs(classes).max()) + 1
        classes = np.where(classes < 0, top - classes, classes)  # opposite weights are different ones
        classes[:, -1] += np.where(classes[:, -1] > 0, 2 * top, 0)
    live_out, live_in = np.flatnonzero(classes.any(1)), np.flatnonzero(classes.any(0))
    if not len(live_out):
        return None
    group = pattern_group(classes[np.ix_(live_out, live_in)])
    if not group.generators:
        return None
    generators = tuple(_on_all(g, live_out, live_in, classes.shape) for g in group.generators)
    transitive = SignedGroup(generators, (classes.shape[0], classes.shape[1])).transitive
    return FoundGroup(
        name=group.name if named else "",
        order=group.order if named or group.known_order is None else group.known_order,
        generators=generators,
        transitive_outputs=transitive[0],
        transitive_inputs=transitive[1],
        signed=group.signed,
        error=largest_error(U, generators),
    )


def largest_error(U: Array, elements: Sequence[SignedPermutation]) -> float:
    """The largest ``|U - g U| / |U|`` of several elements."""
    size = float(np.linalg.norm(U))
    return max(_gap(U, g) for g in elements) / size if size else 0.0  # a U of zeros has every symmetry


def _gap(U: Array, g: SignedPermutation) -> float:
    """``|U - g U|``: only what g moves is examined, little for the exchange of two inputs, a part at a time."""
    outputs, inputs = np.array(g.outputs), np.array(g.inputs)
    output_signs, input_signs = np.array(g.output_signs), np.array(g.input_signs)
    grid = U.reshape(len(outputs), len(inputs), -1)
    rows = (outputs != np.arange(len(outputs))) | (output_signs < 0)
    columns = (inputs != np.arange(len(inputs))) | (input_signs < 0)
    total = 0.0
    for these, those in ((rows, np.ones_like(columns)), (~rows, columns)):
        ins = np.flatnonzero(those)
        for i in np.flatnonzero(these):
            # Entry (i, j) goes to (outputs[i], inputs[j]).
            moved = grid[outputs[i], inputs[ins]] * (output_signs[i] * input_signs[ins])[:, None]
            total += float(np.linalg.norm(moved - grid[i, ins])) ** 2
    return float(total**0.5)


def _on_all(
    g: SignedPermutation, live_out: Labels, live_in: Labels, shape: tuple[int, ...]
) -> SignedPermutation:
    """An element of the live part's group, acting on all outputs and inputs."""
    outputs, inputs = np.arange(shape[0]), np.arange(shape[1])
    output_signs, input_signs = np.ones(shape[0], dtype=int), np.ones(shape[1], dtype=int)
    outputs[live_out], inputs[live_in] = live_out[list(g.outputs)], live_in[list(g.inputs)]
    output_signs[live_out], input_signs[live_in] = g.output_signs, g.input_signs
    return SignedPermutation.of(outputs, inputs, output_signs, input_signs)
