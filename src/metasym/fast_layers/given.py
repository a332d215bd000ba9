"""What a user may know of a layer: a report, a group, a sharing pattern; as a pattern and symmetries that keep it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from metasym.fast_layers.sharing import Classes, Sharing
from metasym.groups import Group
from metasym.groups.signed_groups import weight_orbits
from metasym.groups.signed_permutations import SignedPermutation
from metasym.types import MetasymError
from metasym.verdicts.reports import FoundGroup, SharingPattern

Given = Any
"""A ``Group`` (acting alike on both sides), a pair of them, a ``SharingPattern``, or whole numbers ``[m, n]``."""
WANTED = "a Group, a pair of Groups (outputs, inputs), a SharingPattern or whole numbers [outputs, inputs]"


def called(name: str) -> str:
    """A layer in a message; the only layer of a model has no name."""
    return f"layer {name!r}" if name else "the layer"


def structure(given: Given, shape: tuple[int, int], name: str) -> tuple[Sharing, list[SignedPermutation]]:
    """The pattern on a weight of that shape, and permutations of outputs and inputs that keep it."""
    if isinstance(given, Group):
        given = (given, given)
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(g, Group) for g in given):
        return _of_groups(given[0], given[1], shape, name)
    if isinstance(given, SharingPattern):
        given = given.classes
    if isinstance(given, torch.Tensor):
        given = given.cpu().numpy()
    if not isinstance(given, np.ndarray | Sequence) or isinstance(given, str):
        raise MetasymError(
            f"{called(name)}: expected {WANTED}, found {type(given).__name__}",
            about=called(name),
            found=type(given).__name__,
        )
    sharing = Sharing.of(given)
    if sharing.shape != shape:
        raise MetasymError(
            f"{called(name)}: expected a sharing pattern {list(shape)}, found {list(sharing.shape)}",
            about=called(name),
            found=tuple(sharing.shape),
        )
    return sharing, []


def _of_groups(
    outputs: Group, inputs: Group, shape: tuple[int, int], name: str
) -> tuple[Sharing, list[SignedPermutation]]:
    """The orbits of a group on the entries of a weight; entries that some element negates are zero."""
    if not outputs.same_group(inputs):
        raise MetasymError(
            f"{called(name)}: expected two representations of one group, found {outputs!r} and {inputs!r}",
            about=called(name),
            found=(repr(outputs), repr(inputs)),
        )
    if (outputs.degree, inputs.degree) != shape:
        raise MetasymError(
            f"{called(name)}: expected a group that acts on {shape[0]} outputs and {shape[1]} inputs, found one on "
            f"{outputs.degree} and {inputs.degree}",
            about=called(name),
            found=(outputs.degree, inputs.degree),
        )
    sides = [_monomial(group, name) for group in (outputs, inputs)]
    found = [SignedPermutation.of(o[0], i[0], o[1], i[1]) for o, i in zip(*sides, strict=True)]
    classes = weight_orbits(tuple(found), shape).classes.reshape(shape)
    return Sharing.of(classes), [] if any(g.signed for g in found) else found


def _monomial(group: Group, name: str) -> list[tuple[Classes, Classes]]:
    """For each generator, where it takes the points and with which signs."""
    if group.permutations is not None:
        found = group.permutations[list(group.generators)].numpy()
        return [(p, np.ones_like(p)) for p in found]
    matrices = group.matrices[list(group.generators)].numpy()
    images, signs = np.abs(matrices).argmax(1), np.sign(matrices.sum(1)).astype(np.int64)
    exact = np.zeros_like(matrices)
    for g in range(len(matrices)):
        exact[g, images[g], np.arange(matrices.shape[1])] = signs[g]
    if not np.allclose(exact, matrices, atol=1e-9):
        raise MetasymError(
            f"{called(name)}: expected a group of permutations, with signs or without, found matrices of {group!r}",
            about=called(name),
            found=repr(group),
        )
    return list(zip(images, signs, strict=True))


def generators_of(group: FoundGroup | None) -> list[SignedPermutation]:
    """The permutations among the generators that an inspection found."""
    if group is None or group.signed:
        return []
    return list(group.generators)


def by_layer(given: Any, names: Sequence[str]) -> Mapping[str, Given]:
    """What was given for each layer: a mapping by name, or one thing for the only layer there is."""
    if not names:
        raise MetasymError("expected a model with linear layers to compile, found none in it", about="model")
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            raise MetasymError(
                f"expected linear layers of the model, {', '.join(map(repr, names))}, found {unknown[0]!r}",
                about="structure",
                found=unknown[0],
            )
        if not given:
            raise MetasymError(
                f"expected the structure of some of the linear layers {', '.join(map(repr, names))}, found none",
                about="structure",
            )
        return given
    if len(names) != 1:
        raise MetasymError(
            f"expected {{layer name: {WANTED}}} for {len(names)} linear layers, found {type(given).__name__}",
            about="structure",
            found=type(given).__name__,
        )
    return {names[0]: given}
